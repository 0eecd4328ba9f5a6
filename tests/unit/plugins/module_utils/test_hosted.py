# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosted backends in the plan: URLs, drivers, names, fields, and what verification is told of them."""

from __future__ import annotations

from typing import Any

import pytest

from .installation import QUICKSTART, resolve

BASE = {**QUICKSTART, "rag_image_source": "registry"}
OPENAI = {"rag_embedder": "text-embedding-3-small", "rag_embedder_engine": "openai", "rag_embedder_api_key": "sk-1"}
COHERE = {
    "rag_embedder": "embed-v4.0",
    "rag_embedder_engine": "cohere",
    "rag_embedder_api_key": "co-1",
    "rag_reranker": "rerank-v4.0-fast",
    "rag_reranker_engine": "cohere",
    "rag_reranker_api_key": "co-1",
}


def plan_of(**changes: Any) -> dict[str, Any]:
    plan, _findings = resolve(changes, base=BASE)
    assert plan is not None
    return plan


def entries(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """What LiteLLM is told of the two models, without their keys."""
    models = plan["hosts"]["h1"]["litellm"]["config"]["model_list"]
    return [{k: v for k, v in model["litellm_params"].items() if k != "api_key"} for model in models]


def env(plan: dict[str, Any]) -> dict[str, str]:
    return plan["hosts"]["h1"]["open_webui"]["env"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {**OPENAI, "rag_reranker": "none", "rag_reranker_engine": None},
            [
                {
                    "model": "openai/text-embedding-3-small",
                    "api_base": "https://api.openai.com/v1",
                    "encoding_format": "float",
                }
            ],
        ),
        (
            {
                **OPENAI,
                "rag_embedder": "openai/text-embedding-3-small",
                "rag_embedder_engine": "openrouter",
                "rag_reranker": "cohere/rerank-v3.5",
                "rag_reranker_engine": "openrouter",
            },
            [
                {
                    "model": "openai/openai/text-embedding-3-small",
                    "api_base": "https://openrouter.ai/api/v1",
                    "encoding_format": "float",
                },
                {"model": "hosted_vllm/cohere/rerank-v3.5", "api_base": "https://openrouter.ai/api/v1"},
            ],
        ),
        (
            COHERE,
            [
                {
                    "model": "cohere/embed-v4.0",
                    "api_base": "https://api.cohere.com/v2/embed",
                    "encoding_format": "float",
                },
                {"model": "cohere/rerank-v4.0-fast", "api_base": "https://api.cohere.com/v2/rerank"},
            ],
        ),
        (
            {
                "rag_embedder": "jina-embeddings-v3",
                "rag_embedder_engine": "jina",
                "rag_reranker": "jinaai/jina-reranker-v2-base-multilingual",
                "rag_reranker_engine": "jina",
            },
            [
                {"model": "jina_ai/jina-embeddings-v3", "api_base": "https://api.jina.ai/v1"},
                {"model": "jina_ai/jina-reranker-v2-base-multilingual", "api_base": "https://api.jina.ai/v1/rerank"},
            ],
        ),
        (
            {
                "rag_embedder": "voyage-3.5",
                "rag_embedder_engine": "voyage",
                "rag_embedder_dimensions": 512,
                "rag_reranker": "rerank-2.5",
                "rag_reranker_engine": "voyage",
            },
            [
                {"model": "voyage/voyage-3.5", "api_base": "https://api.voyageai.com/v1", "dimensions": 512},
                {"model": "voyage/rerank-2.5", "api_base": "https://api.voyageai.com/v1/rerank"},
            ],
        ),
        (
            {
                "rag_embedder": "BAAI/bge-m3",
                "rag_embedder_engine": "ollama",
                "rag_embedder_base_url": "http://ollama1:11434/v1",
                "rag_reranker": "none",
                "rag_reranker_engine": None,
            },
            [{"model": "openai/bge-m3", "api_base": "http://ollama1:11434/v1", "encoding_format": "float"}],
        ),
        (
            {
                "rag_embedder_engine": "external",
                "rag_embedder_base_url": "http://gpu1:8000/v1",
                "rag_reranker": "Qwen/Qwen3-Reranker-0.6B",
                "rag_reranker_engine": "external",
                "rag_reranker_url": "http://gpu1:8001/v1/rerank",
                "rag_reranker_served_name": "rank",
            },
            [
                {
                    "model": "openai/intfloat/multilingual-e5-small",
                    "api_base": "http://gpu1:8000/v1",
                    "encoding_format": "float",
                },
                {"model": "hosted_vllm/rank", "api_base": "http://gpu1:8001/v1"},
            ],
        ),
    ],
    ids=["openai", "openrouter", "cohere", "jina", "voyage", "ollama", "external"],
)
def test_litellm_reaches_the_backend(changes: dict[str, Any], expected: list[dict[str, Any]]) -> None:
    assert entries(plan_of(**changes)) == expected


def test_what_open_webui_sends_to_a_backend_with_a_field() -> None:
    found = env(plan_of(**COHERE))
    assert found["RAG_EMBEDDING_PREFIX_FIELD_NAME"] == "input_type"
    assert found["RAG_EMBEDDING_QUERY_PREFIX"] == "search_query"
    assert found["RAG_EMBEDDING_CONTENT_PREFIX"] == "search_document"
    assert found["RAG_EMBEDDING_MODEL"] == "embed-v4.0"


def test_a_field_only_for_the_models_that_take_it() -> None:
    older = {"rag_embedder": "jinaai/jina-embeddings-v2-base-en", "rag_embedder_engine": "jina"}
    assert [name for name in env(plan_of(**older)) if "PREFIX" in name] == []
    assert env(plan_of(**{**older, "rag_embedder": "jina-embeddings-v3"}))["RAG_EMBEDDING_PREFIX_FIELD_NAME"] == "task"


def test_verification_of_a_backend_that_is_asked_directly() -> None:
    expected = plan_of(**OPENAI)["verify"]["embedder"]
    assert expected["base_url"] == "https://api.openai.com/v1"
    assert (expected["served_name"], expected["api_key_secret"]) == ("text-embedding-3-small", "embedder_api_key")
    assert (expected["container"], expected["instances"], expected["fields"]) == (None, [], {})
    assert (expected["dimensions"], expected["max_batch"], expected["max_input_tokens"]) == (1536, 2048, 8191)


def test_verification_of_a_dialect_goes_through_the_proxy() -> None:
    expected = plan_of(**COHERE)["verify"]
    assert expected["embedder"]["base_url"] == "http://rag-litellm:4000/v1"
    assert expected["embedder"]["api_key_secret"] == "litellm_master_key"
    assert expected["embedder"]["fields"] == {"input_type": "search_document"}
    assert expected["reranker"]["url"] == "https://api.cohere.com/v2/rerank"
    assert expected["reranker"]["api_key_secret"] == "reranker_api_key"


def test_no_key_is_missed_where_the_operator_gave_none() -> None:
    changes = {"rag_embedder_engine": "ollama", "rag_embedder_base_url": "http://ollama1:11434/v1"}
    assert plan_of(**changes)["verify"]["embedder"]["api_key_secret"] is None
    assert plan_of(**changes, rag_embedder_api_key="k")["verify"]["embedder"]["api_key_secret"] == "embedder_api_key"


def test_names_without_a_proxy_are_those_of_the_backend() -> None:
    plan = plan_of(
        rag_embedder="BAAI/bge-m3",
        rag_embedder_engine="ollama",
        rag_embedder_base_url="http://ollama1:11434/v1",
        rag_embedder_served_name="bge-m3:567m",
        rag_reranker="none",
        rag_reranker_engine=None,
        rag_proxy="none",
    )
    assert env(plan)["RAG_EMBEDDING_MODEL"] == "bge-m3:567m"
    assert plan["verify"]["open_webui"]["embedding_model"] == "bge-m3:567m"
    assert plan["verify"]["embedder"]["model"] == "BAAI/bge-m3"


def test_a_gateway_in_place_of_the_backend_is_asked_for_the_name_as_it_is() -> None:
    changes = {"rag_embedder_engine": "openai", "rag_embedder_base_url": "https://gateway.example.org/v1"}
    assert entries(plan_of(**changes))[0]["model"] == "openai/intfloat/multilingual-e5-small"
