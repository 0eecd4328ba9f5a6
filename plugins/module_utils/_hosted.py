# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backends that this collection does not run: their URLs, the names they know models by, and models without weights. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._catalog import Embedder, Reranker
from ansible_collections.plumbline.rag.plugins.module_utils._spec import Spec

HOSTED = ("openai", "openrouter", "cohere", "jina", "voyage", "ollama", "external")
_UNKNOWN_RERANKER_TOKENS = 4096


def base_url(spec: Spec, engine: Mapping[str, Any]) -> str:
    """Base URL of the embeddings: the operator's, else the backend's own; empty where there is none."""
    return str(spec["rag_embedder_base_url"] or engine.get("base_url") or "")


def rerank_url(spec: Spec, engine: Mapping[str, Any]) -> str:
    """Full rerank URL: the operator's, else the backend's own; empty where there is none."""
    return str(spec["rag_reranker_url"] or engine.get("rerank_url") or "")


def elsewhere(spec: Spec, kind: str, engine: Mapping[str, Any]) -> bool:
    """Whether a URL of the operator's stands in for the backend's own, so that something else may answer there."""
    name = {"embedder": "base_url", "reranker": "rerank_url"}[kind]
    given = spec["rag_embedder_base_url" if kind == "embedder" else "rag_reranker_url"]
    return name in engine and bool(given)


def litellm_rerank_base(engine: Mapping[str, Any], url: str) -> str:
    """The rerank URL as LiteLLM's driver takes it: hosted_vllm appends /rerank, others find their path in it."""
    return url.removesuffix("/rerank") if engine["litellm"]["rerank"] == "hosted_vllm" else url


def derived_name(spec: Spec, kind: str, engine: Mapping[str, Any], entry: Embedder | Reranker) -> str | None:
    """The plain name that a backend of such names is asked for; None where the name is given, listed or taken as it is."""
    listed = {**engine.get("models", {}), **engine.get("rerankers", {})}
    plain = engine.get("names") == "plain" and not elsewhere(spec, kind, engine)
    if not plain or spec[f"rag_{kind}_served_name"] is not None or not entry.raw or entry.id in listed:
        return None
    return entry.id.rpartition("/")[2]


def served_name(spec: Spec, kind: str, engine: Mapping[str, Any], entry: Embedder | Reranker) -> str:
    """The name under which the backend serves a model."""
    if engine.get("role") is not None:
        return entry.id
    return str(spec[f"rag_{kind}_served_name"] or derived_name(spec, kind, engine, entry) or entry.id)


def prefix_field(engine: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """The field that names the side of a text, with its two values; None for a model that is told in the text itself."""
    field = engine.get("prefix")
    return field if field and name in field.get("models", [name]) else None


def embedder(engine: Mapping[str, Any], name: str) -> Embedder | None:
    """A model that only this backend has; prefixes are none, because its weights do not see them."""
    known = engine.get("models", {}).get(name)
    if known is None:
        return None
    reduced = tuple(known.get("reducible", ()))
    return Embedder(
        name, known["dimensions"], reduced, known["max_tokens"], "symmetric", "", "", True, {}, (), {"hosted": known}
    )


def reranker(engine: Mapping[str, Any], name: str) -> Reranker:
    """A reranker behind somebody's API: what it is worth has to be measured."""
    tokens = engine.get("rerankers", {}).get(name, {}).get("max_tokens", _UNKNOWN_RERANKER_TOKENS)
    quality = {"verdict": "unknown", "statement": "no published comparison over the same first stage is in the catalog"}
    return Reranker(name, "cross-encoder", tokens, {}, {}, quality, (), {})
