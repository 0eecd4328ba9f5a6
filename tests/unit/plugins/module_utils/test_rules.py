"""Every rule both ways: what makes it fire, with the variable it names and a part of its message, and what does not."""

from __future__ import annotations

import dataclasses

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _resolve

from .installation import CATALOG, QUICKSTART, resolve, specs

REGISTRY = {**QUICKSTART, "rag_image_source": "registry"}
E5 = "intfloat/multilingual-e5-small"
QWEN = {"rag_embedder": "Qwen/Qwen3-Embedding-0.6B", "rag_embedder_engine": "vllm"}
EXTERNAL = {"rag_embedder_engine": "external", "rag_embedder_base_url": "http://e:8000/v1"}
ACME = {
    "rag_embedder": "acme/embed-1",
    "rag_embedder_engine": "external",
    "rag_embedder_base_url": "http://e/v1",
    "rag_embedder_dimensions": 768,
    "rag_embedder_query_prefix": "",
    "rag_embedder_document_prefix": "",
}
GOOD_KEY = "sk-0123456789abcdefghij"


def fires(rule, variables, variable, part):
    return pytest.param(
        rule, variables, variable, part, id=f"{rule}-{part[:24]}", marks=pytest.mark.rule(rule, fires=True)
    )


FIRES = [
    fires("PL107", {**ACME, "rag_embedder_query_prefix": None}, "rag_embedder", "rag_embedder_query_prefix is not set"),
    fires("PL107", {"rag_embedder": "intfloat/multilingual-e5-smal"}, "rag_embedder", "no embedder"),
    fires("PL108", {"rag_reranker": "BAAI/bge-reranker"}, "rag_reranker", "no reranker"),
    fires("PL109", {"rag_embedder": "BAAI/bge-m3"}, "rag_embedder_engine", "bundled does not serve"),
    fires(
        "PL109",
        {"rag_reranker": "Qwen/Qwen3-Reranker-0.6B", "rag_reranker_engine": "tei"},
        "rag_reranker_engine",
        "no classifier head",
    ),
    fires("PL109", {"rag_reranker_engine": None}, "rag_reranker_engine", "is not set"),
    fires(
        "PL120",
        {**EXTERNAL, "rag_embedder_base_url": "http://e/v1/embeddings"},
        "rag_embedder_base_url",
        "ends with /embeddings",
    ),
    fires("PL120", {**EXTERNAL, "rag_embedder_base_url": "http://e/v1/"}, "rag_embedder_base_url", "ends with a slash"),
    fires("PL120", {**EXTERNAL, "rag_embedder_base_url": "e:8000/v1"}, "rag_embedder_base_url", "is not http://"),
    fires(
        "PL120", {**EXTERNAL, "rag_embedder_base_url": "http://e:port/v1"}, "rag_embedder_base_url", "is not http://"
    ),
    fires("PL120", {**EXTERNAL, "rag_embedder_base_url": '"http://e/v1"'}, "rag_embedder_base_url", "quotes"),
    fires(
        "PL120", {**EXTERNAL, "rag_embedder_base_url": "http://e/v1?x=1"}, "rag_embedder_base_url", "query or fragment"
    ),
    fires("PL120", {"rag_embedder_engine": "ollama"}, "rag_embedder_base_url", "is not set"),
    fires(
        "PL120",
        {"rag_reranker_engine": "external", "rag_reranker_url": "http://r:8000/v1"},
        "rag_reranker_url",
        "rerank path",
    ),
    fires("PL120", {"rag_reranker_engine": "external"}, "rag_reranker_url", "is not set"),
    fires(
        "PL121",
        {"rag_reranker": "BAAI/bge-reranker-v2-m3", "rag_reranker_engine": "tei", "rag_proxy": "none"},
        "rag_proxy",
        "tei",
    ),
    fires("PL130", {"rag_embedder_query_prefix": "query:"}, "rag_embedder_query_prefix", "only in blanks at its end"),
    fires("PL130", {"rag_embedder_document_prefix": ""}, "rag_embedder_document_prefix", "is empty"),
    fires(
        "PL130",
        {"rag_embedder_document_prefix": "query: "},
        "rag_embedder_document_prefix",
        "was trained with 'passage: '",
    ),
    fires(
        "PL130",
        {**QWEN, "rag_embedder_document_prefix": "passage: "},
        "rag_embedder_document_prefix",
        "without one on this side",
    ),
    fires(
        "PL130",
        {**QWEN, "rag_embedder_query_prefix": "Instruct: find\\nQuery:"},
        "rag_embedder_query_prefix",
        "a backslash and an n",
    ),
    fires("PL130", {**ACME, "rag_embedder_query_prefix": "a\\nb"}, "rag_embedder_query_prefix", "a backslash and an n"),
    fires("PL130", {**ACME, "rag_embedder_document_prefix": "d: "}, "rag_embedder_query_prefix", "no query prefix"),
    fires("PL131", {"rag_open_webui_env": {"RAG_EMBEDDING_PREFIX_FIELD_NAME": ""}}, "rag_open_webui_env", "to ''"),
    fires(
        "PL131",
        {"rag_open_webui_env": {"RAG_EMBEDDING_PREFIX_FIELD_NAME": "prompt"}},
        "rag_open_webui_env",
        "to 'prompt'",
    ),
    fires(
        "PL140",
        {"rag_embedding_batch_size": 64, "rag_embedder_extra_args": ["--max-client-batch-size", "32"]},
        "rag_embedding_batch_size",
        "64; bundled takes 32",
    ),
    fires(
        "PL140",
        {"rag_top_k": 30, "rag_reranker_extra_args": ["--max-client-batch-size=32"]},
        "rag_top_k",
        "up to 60 documents",
    ),
    fires("PL140", {"rag_embedding_batch_size": -1}, "rag_embedding_batch_size", "every upload would fail"),
    fires("PL141", {"rag_top_k": 3, "rag_top_k_reranker": 3}, "rag_top_k", "(3) is not above"),
    fires("PL142", {"rag_chunk_size": 4000}, "rag_chunk_size", "about 1000 tokens"),
    fires("PL142", {"rag_chunk_size": 600, "rag_text_splitter": "token"}, "rag_chunk_size", "600 tokens"),
    fires("PL143", {"rag_hybrid_search": False}, "rag_hybrid_search", "is never asked"),
    fires("PL150", {"rag_open_webui_version": "0.11.0"}, "rag_open_webui_version", "0.11.0 is refused"),
    fires("PL150", {"rag_open_webui_version": "0.10.2"}, "rag_open_webui_version", "below the floor 0.11.1"),
    fires("PL150", {"rag_litellm_version": "1.93.2"}, "rag_litellm_version", "below the floor 1.94.0"),
    fires("PL150", {"rag_litellm_version": "1.82.8"}, "rag_litellm_version", "credential stealer"),
    fires("PL150", {"rag_open_webui_version": "main"}, "rag_open_webui_version", "is not a version"),
    fires("PL151", {"rag_litellm_version": "1.94.3"}, "rag_litellm_version", "older than the advised 1.104.0"),
    fires("PL151", {"rag_open_webui_version": "0.11.4"}, "rag_open_webui_version", "older than the advised 0.12.4"),
    fires("PL152", {"rag_vector_store": "chroma"}, "rag_vector_store", "slim stores vectors in pgvector only"),
    fires("PL152", {"rag_open_webui_env": {"RAG_EMBEDDING_ENGINE": ""}}, "rag_open_webui_env", "no local models"),
    fires("PL153", {}, "rag_reranker", "no cross-encoder weights"),
    fires(
        "PL153",
        {"rag_reranker": "BAAI/bge-reranker-v2-m3", "rag_reranker_engine": "vllm"},
        "rag_reranker",
        "lowers English",
    ),
    fires("PL155", QWEN, "rag_embedder_revision", "is not set"),
    fires("PL160", {"rag_embedder_dimensions": 256}, "rag_embedder_dimensions", f"256; {E5} has 384"),
    fires(
        "PL160",
        {**ACME, "rag_embedder_dimensions": 3072, "rag_pgvector_halfvec": False},
        "rag_pgvector_halfvec",
        "3072 dimensions",
    ),
    fires("PL170", {"rag_litellm_master_key": "sk-1234"}, "rag_litellm_master_key", "publicly known"),
    fires(
        "PL170",
        {"rag_litellm_master_key": "0123456789abcdefghijk"},
        "rag_litellm_master_key",
        "does not begin with sk-",
    ),
    fires("PL170", {"rag_open_webui_secret_key": ""}, "rag_open_webui_secret_key", "is empty"),
    fires("PL170", {"rag_open_webui_admin_password": "é" * 37}, "rag_open_webui_admin_password", "has 74 bytes"),
    fires(
        "PL170",
        {"rag_embedder_engine": "openai", "rag_embedder_base_url": "https://a.example/v1"},
        "rag_embedder_api_key",
        "answers nobody without a key",
    ),
    fires("PL171", {"rag_open_webui_env": {"RAG_TOP_K": 3}}, "rag_open_webui_env", "sets RAG_TOP_K"),
    fires("PL171", {"rag_open_webui_env": {"DATABASE_URL": "sqlite://"}}, "rag_open_webui_env", "sets DATABASE_URL"),
    fires("PL172", {"rag_open_webui_env": {"WEBUI_NAME": None}}, "rag_open_webui_env", "WEBUI_NAME has no text value"),
    fires("PL172", {"rag_open_webui_env": {"WEBUI_NAME": ["a"]}}, "rag_open_webui_env", "WEBUI_NAME has no text value"),
]


def found(rule, variables):
    secrets = {name: value for name, value in variables.items() if name.endswith(("_key", "_password"))}
    _plan, findings = resolve(variables, secrets, base=REGISTRY)
    return [finding for finding in findings if finding.id == rule]


@pytest.mark.parametrize(("rule", "variables", "variable", "part"), FIRES)
def test_fires(rule, variables, variable, part):
    matching = [f for f in found(rule, variables) if f.where.get("variable") == variable and part in f.message]
    assert len(matching) == 1, [f.message for f in found(rule, variables)]
    assert matching[0].remedy


def quiet(rule, variables, name):
    return pytest.param(rule, variables, id=f"{rule}-{name}", marks=pytest.mark.rule(rule, fires=False))


QUIET = [
    quiet("PL107", ACME, "explicit-none"),
    quiet("PL107", {}, "catalog"),
    quiet("PL108", {"rag_reranker": "none"}, "none"),
    quiet("PL109", {"rag_embedder": "BAAI/bge-m3", "rag_embedder_engine": "vllm"}, "vllm"),
    quiet("PL120", EXTERNAL, "base"),
    quiet("PL120", {"rag_embedder_engine": "openai"}, "own-url"),
    quiet("PL120", {"rag_reranker_engine": "external", "rag_reranker_url": "https://r.example/v1/rerank"}, "rerank"),
    quiet("PL121", {"rag_reranker": "BAAI/bge-reranker-v2-m3", "rag_reranker_engine": "tei"}, "proxy"),
    quiet("PL130", {"rag_embedder_query_prefix": "query: ", "rag_embedder_document_prefix": "passage: "}, "same"),
    quiet("PL130", QWEN, "newline"),
    quiet("PL131", {"rag_open_webui_env": {"WEBUI_NAME": "x"}}, "other"),
    quiet("PL140", {"rag_embedding_batch_size": 64}, "limit-follows"),
    quiet("PL140", {"rag_top_k": 50}, "limit-follows"),
    quiet("PL141", {}, "default"),
    quiet("PL142", {"rag_chunk_size": 1900}, "fits"),
    quiet("PL143", {"rag_hybrid_search": False, "rag_reranker": "none"}, "none"),
    quiet("PL150", {"rag_open_webui_version": "0.11.1", "rag_litellm_version": "1.94.0"}, "floor"),
    quiet("PL151", {"rag_open_webui_version": "0.12.4", "rag_litellm_version": "1.104.0"}, "advised"),
    quiet("PL152", {"rag_open_webui_variant": "full", "rag_vector_store": "chroma"}, "full"),
    quiet("PL153", {"rag_reranker": "Qwen/Qwen3-Reranker-0.6B", "rag_reranker_engine": "vllm"}, "better"),
    quiet("PL155", {**QWEN, "rag_embedder_revision": "97b0c614"}, "pinned"),
    quiet("PL155", {}, "packaged"),
    quiet("PL160", {**QWEN, "rag_embedder_dimensions": 256}, "matryoshka"),
    quiet("PL160", {**ACME, "rag_embedder_dimensions": 3072}, "halfvec"),
    quiet("PL170", {"rag_litellm_master_key": GOOD_KEY, "rag_open_webui_admin_password": "p" * 72}, "right"),
    quiet("PL171", {"rag_open_webui_env": {"WEBUI_NAME": "x"}}, "other"),
    quiet("PL172", {"rag_open_webui_env": {"ENABLE_OLLAMA_API": False}}, "boolean"),
]


@pytest.mark.parametrize(("rule", "variables"), QUIET)
def test_quiet(rule, variables):
    assert found(rule, variables) == []


def test_another_instruction_text_is_a_warning_not_an_error():
    changed = {**QWEN, "rag_embedder_query_prefix": "Instruct: Find the law that applies\nQuery:"}
    assert [f.severity for f in found("PL130", changed)] == ["warning"]


def test_all_findings_of_a_bad_inventory_come_in_one_run():
    wrong = {
        "rag_open_webui_version": "0.11.0",
        "rag_vector_store": "chroma",
        "rag_hybrid_search": False,
        "rag_embedder_query_prefix": "",
    }
    _plan, findings = resolve(wrong, base=REGISTRY)
    assert {f.id for f in findings} == {"PL130", "PL143", "PL150", "PL152", "PL153"}


@pytest.mark.rule("PL157", fires=True)
def test_a_release_that_computes_a_model_wrongly_is_refused():
    versions = {**CATALOG.versions, "tei": {**CATALOG.versions["tei"], "default": "1.7.2"}}
    catalog = dataclasses.replace(CATALOG, versions=versions)
    found, _findings = specs({"h1": {**REGISTRY, **QWEN, "rag_embedder_engine": "tei"}})
    _plan, findings = _resolve.resolve(found["default"], catalog, {"h1": "a"})
    wrong = [f for f in findings if f.id == "PL157"]
    assert [f.where["variable"] for f in wrong] == ["rag_embedder_engine"]
    assert "tei 1.7.2 with Qwen/Qwen3-Embedding-0.6B" in wrong[0].message


def test_a_version_says_which_advisories_it_is_open_to():
    assert (
        "It is open to GHSA-7hp6-4w63-5g45, GHSA-g5ff-637f-6q2m."
        in found("PL151", {"rag_litellm_version": "1.94.3"})[0].message
    )
