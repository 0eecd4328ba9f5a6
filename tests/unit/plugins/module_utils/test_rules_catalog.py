from __future__ import annotations

import dataclasses

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _choice
from ansible_collections.plumbline.rag.plugins.module_utils._rules import Subject, catalog

from .installation import CATALOG, QUICKSTART, specs


def found_by(rule, **variables):
    found, findings = specs({"h1": {**QUICKSTART, **variables}})
    assert findings == []
    choice, _findings = _choice.choose(found["default"], CATALOG)
    assert choice is not None
    return list(rule(Subject(found["default"], CATALOG, choice, None, {})))


def unverified(**variables):
    return found_by(catalog.unverified, **variables)


@pytest.mark.rule("PL118", fires=False)
def test_nothing_is_said_of_verified_entries():
    assert unverified() == []


@pytest.mark.rule("PL118", fires=True)
@pytest.mark.parametrize(
    ("model", "variables", "says"),
    [
        ("BAAI/bge-base-en-v1.5", {}, "normalized in the catalog is not verified"),
        ("BAAI/bge-large-zh-v1.5", {}, "its service by vllm is not certain: inferred from its architecture"),
        ("intfloat/e5-mistral-7b-instruct", {}, "prefixes, normalized in the catalog are not verified"),
        (
            "Snowflake/snowflake-arctic-embed-l-v2.0",
            {"rag_embedder_dimensions": 256},
            "prefixes, normalized, matryoshka",
        ),
        ("sentence-transformers/all-MiniLM-L12-v2", {}, "max_tokens in the catalog"),
        ("cl-nagoya/ruri-v3-70m", {}, "pooling, normalized, dimensions"),
    ],
)
def test_a_plan_that_relies_on_an_unverified_value_says_so(model, variables, says):
    [finding] = unverified(rag_embedder=model, rag_embedder_engine="vllm", **variables)
    assert finding.severity == "note"
    assert finding.message.startswith(f"{model}: ")
    assert says in finding.message


@pytest.mark.rule("PL118", fires=True)
def test_prefixes_that_the_operator_gives_are_not_relied_on():
    model = "Snowflake/snowflake-arctic-embed-l-v2.0"
    [finding] = unverified(rag_embedder=model, rag_embedder_engine="vllm", rag_embedder_query_prefix="query: ")
    assert "prefixes" not in finding.message


@pytest.mark.rule("PL118", fires=True)
def test_rerankers_are_looked_at_too():
    [finding] = unverified(rag_reranker="nvidia/llama-nemotron-rerank-1b-v2", rag_reranker_engine="vllm")
    assert finding.where == {"variable": "rag_reranker"}
    assert "score_range" in finding.message


@pytest.mark.rule("PL118", fires=False)
def test_doubts_about_another_engine_do_not_matter():
    entry = CATALOG.embedders["intfloat/multilingual-e5-small"]
    entry = dataclasses.replace(entry, raw={**entry.raw, "unverified": ["engines.tei", "parameters"]})
    assert list(catalog._of(entry, "vllm", ["prefixes"], "rag_embedder")) == []


@pytest.mark.rule("PL195", fires=True)
@pytest.mark.parametrize("model", ["jinaai/jina-embeddings-v3", "jinaai/jina-embeddings-v4"])
def test_a_model_that_needs_adapters_is_unfit_however_it_is_served(model):
    address = {"rag_embedder_engine": "external", "rag_embedder_base_url": "http://gpu1/v1"}
    [finding] = found_by(catalog.unfit, rag_embedder=model, **address)
    assert finding.where == {"variable": "rag_embedder"}
    assert "adapters" in finding.message


@pytest.mark.rule("PL195", fires=False)
def test_other_models_are_fit():
    assert found_by(catalog.unfit) == []
    assert found_by(catalog.unfit, rag_embedder="BAAI/bge-m3", rag_embedder_engine="vllm") == []
