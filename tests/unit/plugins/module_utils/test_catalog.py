from __future__ import annotations

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _catalog

from .installation import CATALOG, ids

TEXTS = {"fixtures": {"t": {"queries": ["q"], "documents": ["d1", "d2"]}}}
ENTRY = {
    "id": "acme/embed",
    "dimensions": 8,
    "max_tokens": 64,
    "kind": "asymmetric",
    "prefixes": {"query": "q: ", "document": "d: "},
    "normalized": True,
    "engines": {"vllm": {}},
    "fixtures": [{"texts": "t", "cosines": [[0.1, 0.2]]}],
}


def parse(**changes):
    return _catalog.parse({**TEXTS, "embedders/acme": {**ENTRY, **changes}})


@pytest.mark.rule("PL106", fires=False)
def test_a_valid_entry_carries_its_texts_and_exact_prefixes():
    catalog, findings = parse()
    entry = catalog.embedders["acme/embed"]
    assert findings == []
    assert (entry.query_prefix, entry.document_prefix) == ("q: ", "d: ")
    assert entry.fixtures[0]["documents"] == ["d1", "d2"]


@pytest.mark.rule("PL106", fires=True)
@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"dimensions": "8"}, "dimensions"),
        ({"dimensions": True}, "dimensions"),
        ({"kind": "both"}, "kind"),
        ({"prefixes": {"query": "q: ", "document": ""}}, "prefixes do not fit the kind asymmetric"),
        ({"prefixes": {"query": "q: "}}, "document"),
        ({"fixtures": [{"texts": "nope"}]}, "no text set nope"),
        ({"fixtures": [{"texts": "t", "cosines": [[0.1]]}]}, "2 documents and 1 values"),
        ({"engines": None}, "engines"),
    ],
)
def test_a_fault_names_file_and_field_and_leaves_the_entry_out(changes, names):
    catalog, findings = parse(**changes)
    assert ids(findings) == ["PL106"]
    assert "embedders/acme" in findings[0].message
    assert names in findings[0].message
    assert catalog.embedders == {}


def test_a_document_that_is_no_mapping_is_a_finding_too():
    _parsed, findings = _catalog.parse({"rerankers/x": ["a"]})
    assert ids(findings) == ["PL106"]


@pytest.mark.parametrize(
    ("model", "dimensions", "tokens", "query", "document"),
    [
        ("intfloat/multilingual-e5-small", 384, 512, "query: ", "passage: "),
        ("intfloat/multilingual-e5-large", 1024, 512, "query: ", "passage: "),
        ("BAAI/bge-m3", 1024, 8192, "", ""),
        (
            "Qwen/Qwen3-Embedding-0.6B",
            1024,
            32768,
            "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:",
            "",
        ),
        ("google/embeddinggemma-300m", 768, 2048, "task: search result | query: ", "title: none | text: "),
        ("sentence-transformers/all-MiniLM-L6-v2", 384, 256, "", ""),
    ],
)
def test_the_shipped_entries_have_the_published_values(model, dimensions, tokens, query, document):
    entry = CATALOG.embedders[model]
    assert (entry.dimensions, entry.max_tokens) == (dimensions, tokens)
    assert (entry.query_prefix, entry.document_prefix) == (query, document)


def test_the_shipped_rerankers():
    assert {name: entry.quality["verdict"] for name, entry in CATALOG.rerankers.items()} == {
        "plumbline/e5-small-cosine": "none",
        "BAAI/bge-reranker-v2-m3": "mixed",
        "Qwen/Qwen3-Reranker-0.6B": "better",
    }
    assert "refused" in CATALOG.rerankers["Qwen/Qwen3-Reranker-0.6B"].engines["tei"]
