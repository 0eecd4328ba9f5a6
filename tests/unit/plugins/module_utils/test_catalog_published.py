"""The shipped entries against what the models' publishers say, typed here a second time."""

from __future__ import annotations

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _findings
from ansible_collections.plumbline.rag.plugins.module_utils._checks import _faults

from .installation import CATALOG, ROOT

REPRESENT = "Represent this sentence for searching relevant passages: "
QWEN = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
QWEN_SPACE = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "
CHINESE = "为这个句子生成表示以用于检索相关文章\uff1a"
GEMMA = ("task: search result | query: ", "title: none | text: ")
E5 = ("query: ", "passage: ")
NOMIC = ("search_query: ", "search_document: ")
RURI = ("検索クエリ: ", "検索文書: ")
QUERY_ONLY = {
    "BAAI/bge-small-en-v1.5": REPRESENT,
    "BAAI/bge-base-en-v1.5": REPRESENT,
    "BAAI/bge-large-en-v1.5": REPRESENT,
    "BAAI/bge-small-zh-v1.5": CHINESE,
    "BAAI/bge-large-zh-v1.5": CHINESE,
    "BAAI/bge-multilingual-gemma2": (
        "<instruct>Given a web search query, retrieve relevant passages that answer the query.\n<query>"
    ),
    "intfloat/multilingual-e5-large-instruct": QWEN_SPACE,
    "intfloat/e5-mistral-7b-instruct": QWEN_SPACE,
    "Qwen/Qwen3-Embedding-0.6B": QWEN,
    "Qwen/Qwen3-Embedding-4B": QWEN,
    "Qwen/Qwen3-Embedding-8B": QWEN,
    "Snowflake/snowflake-arctic-embed-xs": REPRESENT,
    "Snowflake/snowflake-arctic-embed-s": REPRESENT,
    "Snowflake/snowflake-arctic-embed-m": REPRESENT,
    "Snowflake/snowflake-arctic-embed-l": REPRESENT,
    "Snowflake/snowflake-arctic-embed-m-v1.5": REPRESENT,
    "Snowflake/snowflake-arctic-embed-m-v2.0": "query: ",
    "Snowflake/snowflake-arctic-embed-l-v2.0": "query: ",
    "mixedbread-ai/mxbai-embed-large-v1": REPRESENT,
    "WhereIsAI/UAE-Large-V1": REPRESENT,
    "Alibaba-NLP/gte-Qwen2-1.5B-instruct": QWEN_SPACE,
    "Alibaba-NLP/gte-Qwen2-7B-instruct": QWEN_SPACE,
    "NovaSearch/stella_en_400M_v5": (
        "Instruct: Given a web search query, retrieve relevant passages that answer the query.\nQuery: "
    ),
    "nvidia/llama-embed-nemotron-8b": QWEN_SPACE,
    "microsoft/harrier-oss-v1-270m": QWEN,
    "microsoft/harrier-oss-v1-0.6b": QWEN,
    "microsoft/harrier-oss-v1-27b": QWEN,
}
ASYMMETRIC = {
    "intfloat/multilingual-e5-small": E5,
    "intfloat/multilingual-e5-base": E5,
    "intfloat/multilingual-e5-large": E5,
    "intfloat/e5-small-v2": E5,
    "intfloat/e5-base-v2": E5,
    "intfloat/e5-large-v2": E5,
    "google/embeddinggemma-300m": GEMMA,
    "google/embeddinggemma-2": GEMMA,
    "nomic-ai/nomic-embed-text-v1.5": NOMIC,
    "nomic-ai/nomic-embed-text-v2-moe": NOMIC,
    "nomic-ai/modernbert-embed-base": NOMIC,
    "jinaai/jina-embeddings-v3": (
        "Represent the query for retrieving evidence documents: ",
        "Represent the document for retrieval: ",
    ),
    "jinaai/jina-embeddings-v4": ("Query: ", "Passage: "),
    "jinaai/jina-embeddings-v5-text-nano": ("Query: ", "Document: "),
    "jinaai/jina-embeddings-v5-text-small": ("Query: ", "Document: "),
    "nvidia/Nemotron-3-Embed-1B-BF16": E5,
    "nvidia/llama-nemotron-embed-1b-v2": E5,
    "cl-nagoya/ruri-v3-30m": RURI,
    "cl-nagoya/ruri-v3-70m": RURI,
    "cl-nagoya/ruri-v3-130m": RURI,
    "cl-nagoya/ruri-v3-310m": RURI,
    "sbintuitions/sarashina-embedding-v2-1b": (
        "task: 質問を与えるので、その質問に答えるのに役立つ関連文書を検索してください。\nquery: ",
        "text: ",
    ),
    "ai-forever/FRIDA": NOMIC,
}
# Instructions whose wrapper is published and whose task was filled in, and prefixes known from one unread card.
NOT_CERTAIN = {
    "Alibaba-NLP/gte-Qwen2-7B-instruct",
    "NovaSearch/stella_en_400M_v5",
    "Snowflake/snowflake-arctic-embed-l-v2.0",
    "Snowflake/snowflake-arctic-embed-m-v2.0",
    "intfloat/e5-mistral-7b-instruct",
    "jinaai/jina-embeddings-v4",
    "jinaai/jina-embeddings-v5-text-nano",
    "jinaai/jina-embeddings-v5-text-small",
    "microsoft/harrier-oss-v1-0.6b",
    "microsoft/harrier-oss-v1-270m",
    "microsoft/harrier-oss-v1-27b",
    "nvidia/llama-embed-nemotron-8b",
    "nvidia/llama-nemotron-embed-1b-v2",
    "sbintuitions/sarashina-embedding-v2-1b",
}
DIMENSIONS_AND_TOKENS = {
    "BAAI/bge-m3": (1024, 8192),
    "BAAI/bge-small-en-v1.5": (384, 512),
    "BAAI/bge-multilingual-gemma2": (3584, 8192),
    "intfloat/multilingual-e5-small": (384, 512),
    "intfloat/multilingual-e5-base": (768, 512),
    "intfloat/multilingual-e5-large": (1024, 512),
    "intfloat/e5-mistral-7b-instruct": (4096, 32768),
    "Qwen/Qwen3-Embedding-0.6B": (1024, 32768),
    "Qwen/Qwen3-Embedding-4B": (2560, 32768),
    "Qwen/Qwen3-Embedding-8B": (4096, 32768),
    "google/embeddinggemma-300m": (768, 2048),
    "nomic-ai/nomic-embed-text-v2-moe": (768, 512),
    "Snowflake/snowflake-arctic-embed-xs": (384, 512),
    "Snowflake/snowflake-arctic-embed-l-v2.0": (1024, 8192),
    "mixedbread-ai/mxbai-embed-large-v1": (1024, 512),
    "Alibaba-NLP/gte-Qwen2-1.5B-instruct": (1536, 32768),
    "sentence-transformers/all-MiniLM-L6-v2": (384, 256),
    "sentence-transformers/all-mpnet-base-v2": (768, 384),
    "ai-forever/FRIDA": (1536, 512),
    "sbintuitions/sarashina-embedding-v2-1b": (1792, 8192),
    "microsoft/harrier-oss-v1-27b": (5376, 131072),
}
VERDICTS = {
    "BAAI/bge-reranker-v2-m3": "mixed",
    "Alibaba-NLP/gte-multilingual-reranker-base": "mixed",
    "jinaai/jina-reranker-v2-base-multilingual": "worse",
    "Qwen/Qwen3-Reranker-0.6B": "better",
    "Qwen/Qwen3-Reranker-4B": "better",
    "Qwen/Qwen3-Reranker-8B": "better",
    "plumbline/e5-small-cosine": "none",
}
NOTHING_KEPT = {"mteb_english": 61.82, "cmteb_chinese": 71.02, "mmteb_multilingual": 64.64}
ENTRIES = [*CATALOG.embedders.values(), *CATALOG.rerankers.values()]
every_entry = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)


def test_the_catalog_is_as_large_as_promised():
    assert len(CATALOG.embedders) >= 35
    assert len(CATALOG.rerankers) >= 20


@pytest.mark.parametrize(("model", "prefix"), QUERY_ONLY.items())
def test_prefix_of_queries_only(model, prefix):
    entry = CATALOG.embedders[model]
    assert (entry.kind, entry.query_prefix, entry.document_prefix) == ("query-only", prefix, "")


@pytest.mark.parametrize(("model", "prefixes"), ASYMMETRIC.items())
def test_prefixes_of_both_sides(model, prefixes):
    entry = CATALOG.embedders[model]
    assert (entry.kind, entry.query_prefix, entry.document_prefix) == ("asymmetric", *prefixes)


def test_all_others_have_no_prefix():
    others = set(CATALOG.embedders) - set(QUERY_ONLY) - set(ASYMMETRIC)
    assert len(others) == 28
    assert {CATALOG.embedders[model].kind for model in others} == {"symmetric"}


def test_prefixes_that_are_not_certain_are_marked():
    marked = {name for name, entry in CATALOG.embedders.items() if "prefixes" in entry.raw.get("unverified", ())}
    assert marked == NOT_CERTAIN


@pytest.mark.parametrize(("model", "numbers"), DIMENSIONS_AND_TOKENS.items())
def test_dimension_and_limit(model, numbers):
    entry = CATALOG.embedders[model]
    assert (entry.dimensions, entry.max_tokens) == numbers


@pytest.mark.parametrize(("model", "verdict"), VERDICTS.items())
def test_verdicts_on_rerankers(model, verdict):
    quality = CATALOG.rerankers[model].quality
    assert quality["verdict"] == verdict
    figures = quality.get("figures", {})
    assert {name: figures[name][1] for name in NOTHING_KEPT if figures} == (NOTHING_KEPT if figures else {})


def test_bare_logits_are_told_from_their_sigmoid():
    ranges = CATALOG.rerankers["cross-encoder/ms-marco-MiniLM-L6-v2"].score_range
    assert ranges["tei"] == (0.0, 1.0)
    assert ranges["vllm"][0] < -10
    assert ranges["vllm"][1] > 10


@pytest.mark.parametrize("size", ["0.6B", "4B", "8B"])
def test_language_models_that_rerank_are_refused_where_they_cannot(size):
    entry = CATALOG.rerankers[f"Qwen/Qwen3-Reranker-{size}"]
    assert "refused" in entry.engines["tei"]
    assert any("is_original_qwen3_reranker" in arg for arg in entry.engines["vllm"]["args"])
    assert entry.engines["vllm"]["chat_template"] == "qwen3_reranker.jinja"


@pytest.mark.parametrize("model", ["jinaai/jina-embeddings-v3", "jinaai/jina-embeddings-v4"])
def test_models_whose_adapters_a_request_must_name_are_unfit(model):
    assert "adapters" in CATALOG.embedders[model].raw["unfit"]
    assert CATALOG.embedders[model].raw["licence"]["commercial"] is False


@every_entry
def test_a_file_is_called_as_its_model(entry):
    folder = "embedders" if entry.id in CATALOG.embedders else "rerankers"
    assert (ROOT / "catalog" / folder / f"{entry.id.replace('/', '--')}.yml").exists()


@every_entry
def test_what_is_unknown_is_marked_and_what_is_marked_exists(entry):
    unverified = entry.raw.get("unverified", [])
    if entry.raw.get("pooling") == "unknown":
        assert "pooling" in unverified
    engines = {f"engines.{name}" for name in entry.engines}
    # gated and post_modules may be marked for being absent
    assert set(unverified) - set(entry.raw) - engines <= {"gated", "post_modules"}


@every_entry
def test_languages_and_gotchas_are_given_and_guarded_by_rules_that_exist(entry):
    assert entry.raw["languages"]
    assert {gotcha["rule"] for gotcha in entry.raw["gotchas"] if "rule" in gotcha} <= set(_findings.rules()) | set(
        _faults.RULES
    )


@every_entry
def test_fixtures_have_a_value_for_each_document_and_prefixes_of_the_model_or_none(entry):
    for fixture in entry.fixtures:
        rows = fixture.get("cosines", fixture.get("scores"))
        assert [len(row) for row in rows] == [len(fixture["documents"])] * len(fixture["queries"])
        if "cosines" in fixture:
            pair = (fixture["query_prefix"], fixture["document_prefix"])
            assert pair in [("", ""), (entry.query_prefix, entry.document_prefix)]
