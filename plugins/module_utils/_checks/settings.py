# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Effective settings and access: what Open WebUI really uses, and who may use the services."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._checks import _context, _faults
from ansible_collections.plumbline.rag.plugins.module_utils._engines import Embeddings
from ansible_collections.plumbline.rag.plugins.module_utils._findings import WARNING, Finding
from ansible_collections.plumbline.rag.plugins.module_utils._http import MASK, ServiceError
from ansible_collections.plumbline.rag.plugins.module_utils._open_webui import SignInError
from ansible_collections.plumbline.rag.plugins.module_utils._settings import Difference, differences

# Fields of the admin API and environment variables, with the variable of ours that each comes from.
VARIABLES: Mapping[str, str] = {
    "RAG_EMBEDDING_ENGINE": "rag_embedder_engine",
    "RAG_EMBEDDING_MODEL": "rag_embedder",
    "RAG_EMBEDDING_BATCH_SIZE": "rag_embedding_batch_size",
    "RAG_EMBEDDING_CONCURRENT_REQUESTS": "rag_embedding_concurrency",
    "RAG_EMBEDDING_QUERY_PREFIX": "rag_embedder_query_prefix",
    "RAG_EMBEDDING_CONTENT_PREFIX": "rag_embedder_document_prefix",
    "openai_config.url": "rag_embedder_base_url",
    "openai_config.key": "rag_embedder_api_key",
    "RAG_OPENAI_API_BASE_URL": "rag_embedder_base_url",
    "TOP_K": "rag_top_k",
    "TOP_K_RERANKER": "rag_top_k_reranker",
    "RELEVANCE_THRESHOLD": "rag_relevance_threshold",
    "HYBRID_BM25_WEIGHT": "rag_bm25_weight",
    "ENABLE_RAG_HYBRID_SEARCH": "rag_hybrid_search",
    "RAG_RERANKING_ENGINE": "rag_reranker_engine",
    "RAG_RERANKING_MODEL": "rag_reranker",
    "RAG_EXTERNAL_RERANKER_URL": "rag_reranker_url",
    "RAG_EXTERNAL_RERANKER_API_KEY": "rag_reranker_api_key",
    "RAG_EXTERNAL_RERANKER_TIMEOUT": "rag_reranker_timeout",
    "CHUNK_SIZE": "rag_chunk_size",
    "CHUNK_OVERLAP": "rag_chunk_overlap",
    "TEXT_SPLITTER": "rag_text_splitter",
    "CONTENT_EXTRACTION_ENGINE": "rag_content_extraction",
    "VECTOR_DB": "rag_vector_store",
    "PGVECTOR_INITIALIZE_MAX_VECTOR_LENGTH": "rag_embedder_dimensions",
}

# They act though nobody set them on purpose: an inherited or forgotten one changes every vector.
_WATCHED = ("RAG_EMBEDDING_QUERY_PREFIX", "RAG_EMBEDDING_CONTENT_PREFIX", "RAG_EMBEDDING_PREFIX_FIELD_NAME")


async def database(context: _context.Context, _before: _context.Before) -> _context.Outcome:
    """The settings in Open WebUI's database against the plan, and sign-up."""
    plan = context.plan["open_webui"]
    try:
        effective = await asyncio.gather(
            context.open_webui.embedding(), context.open_webui.retrieval(), context.open_webui.admin()
        )
    except SignInError as error:
        return _context.Outcome([_faults.SIGN_IN.finding(str(error), hop=_context.OPEN_WEBUI)])
    embedding, retrieval, admin = effective
    found = differences(plan["settings"], {"embedding": embedding, "retrieval": retrieval}, context.secrets)
    outcome = _context.Outcome([_setting(plan, difference) for difference in found])
    outcome.measurements = {"compared": sum(len(plan["settings"][name]) for name in ("embedding", "retrieval"))}
    outcome.measurements["differences"] = len(found)
    if admin.get("ENABLE_SIGNUP"):
        outcome.findings.append(_faults.SIGNUP_OPEN.finding("ENABLE_SIGNUP is true.", hop=_context.OPEN_WEBUI))
    return outcome


async def public(context: _context.Context, _before: _context.Before) -> _context.Outcome:
    """What Open WebUI tells without credentials: variant, and whether it waits for its first administrator."""
    plan = context.plan["open_webui"]
    found = await context.open_webui.public_config()
    features = found.get("features") or {}
    outcome = _context.Outcome(measurements={"slim": bool(features.get("slim"))})
    if found.get("onboarding"):
        message = "Open WebUI waits for its first user, who becomes the administrator."
        outcome.findings.append(_faults.NO_ADMIN.finding(message, hop=_context.OPEN_WEBUI))
    variant = plan.get("variant")
    if variant and bool(features.get("slim")) != (variant == "slim"):
        state = "" if features.get("slim") else "not "
        message = f"The plan has the variant {variant}; what runs is {state}slim."
        where = {"variable": "rag_open_webui_variant", "hop": _context.OPEN_WEBUI}
        outcome.findings.append(_faults.VARIANT_DRIFT.finding(message, **where))
    return outcome


async def environment(context: _context.Context, _before: _context.Before) -> _context.Outcome:
    """The variables of the running container, byte for byte."""
    plan = context.plan["open_webui"]
    container = context.container(_context.OPEN_WEBUI)
    if container is None:
        return _context.Outcome(skipped=["Open WebUI's container is not on this host"])
    return _context.Outcome(
        list(_environment(plan["env"], container.environment_bytes)), {"compared": len(plan["env"])}
    )


async def access(context: _context.Context, _before: _context.Before) -> _context.Outcome:
    """The same requests without a key must be refused, wherever the plan has a key."""
    outcome = _context.Outcome()
    attempts: list[tuple[str, str, Any]] = []

    def attempt(hop: str, variable: str, client: Embeddings) -> None:
        if client.key:
            request = client.post({"input": ["plumb"], "model": client.model}, key=False)
            attempts.append((hop, variable, request))

    attempt(_context.ENGINE, "rag_embedder_api_key", context.engine)
    if context.plan.get("proxy"):
        attempt(_context.PROXY, "rag_litellm_master_key", context.proxy)
    if context.plan.get("reranker") and context.reranker.key:
        request = context.reranker.post("plumb", ["plumb"], key=False)
        attempts.append((_context.RERANKER, "rag_reranker_api_key", request))
    replies = await asyncio.gather(*(request for _hop, _variable, request in attempts), return_exceptions=True)
    for (hop, variable, _request), reply in zip(attempts, replies):
        if isinstance(reply, ServiceError):  # the check of this hop names it
            outcome.skipped.append(f"{hop}: {reply}")
            continue
        if isinstance(reply, BaseException):
            raise reply
        outcome.measurements[hop] = reply.status
        if reply.ok and "json" in reply.content_type:
            message = f"{reply.resource} answered {reply.status} without a key; it should refuse."
            outcome.findings.append(_faults.UNGUARDED.finding(message, variable=variable, hop=hop))
    return outcome


def _setting(plan: Mapping[str, Any], difference: Difference) -> Finding:
    is_value, should_be = (MASK, MASK) if difference.secret else (repr(difference.actual), repr(difference.wanted))
    message = f"{difference.name} is {is_value} in Open WebUI's database; the plan has {should_be}."
    if difference.secret:
        message = f"{difference.name} in Open WebUI's database is not the key of the plan."
    # Who lets the page own the settings wants to know, and not to be stopped.
    severity = WARNING if plan.get("config_owner") == "ui" else None
    variable = VARIABLES.get(difference.name, "rag_config_owner")
    return _faults.SETTING_DRIFT.finding(message, severity=severity, variable=variable, hop=_context.OPEN_WEBUI)


def _environment(wanted: Mapping[str, str], actual: Mapping[str, bytes]) -> Iterator[Finding]:
    expected = {name: value.encode() for name, value in wanted.items()}
    for name in sorted({*expected, *(watched for watched in _WATCHED if watched in actual)}):
        if actual.get(name) == expected.get(name):
            continue
        is_value = f"holds the bytes {actual[name]!r}" if name in actual else "is not set"
        should_be = f"{expected[name]!r}" if name in expected else "nothing: it must not be set"
        message = f"{name} {is_value} in the running container; the plan has {should_be}."
        variable = VARIABLES.get(name, "rag_open_webui_env")
        yield _faults.ENV_DRIFT.finding(message, variable=variable, hop=_context.OPEN_WEBUI)
