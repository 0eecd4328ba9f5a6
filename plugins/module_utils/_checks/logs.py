# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures that services only log. Lines are counted and never shown: they may hold what users asked."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.plumbline.rag.plugins.module_utils._checks import _context, _faults
from ansible_collections.plumbline.rag.plugins.module_utils._findings import Finding
from ansible_collections.plumbline.rag.plugins.module_utils._http import ServiceError

LINES = 5000


@dataclass(frozen=True)
class Sign:
    """A line that means a failure, and what the failure is."""

    pattern: str
    meaning: str


OPEN_WEBUI = (
    Sign("Error in external reranking", "a rerank request failed"),
    Sign("No results found in external reranking response", "a rerank answer had no results"),
    Sign("No valid scores found, check your reranking function", "passages went out unranked"),
    Sign("Error updating models", "the reranker could not be set up at start"),
    Sign("Error loading reranking model", "saving the reranker failed and switched hybrid search off"),
    Sign("query_collection_with_hybrid_search:|Hybrid search failed for all collections", "a hybrid search failed"),
    Sign(
        "had failing queries|Error during search|Error during hybrid search|Error during query",
        "a vector search failed",
    ),
    Sign("'<' not supported between instances of 'NoneType'", "search results could not be sorted"),
    Sign("Failed to fetch collection", "a collection could not be read"),
    Sign("Error processing file|ERROR.*save_docs_to_vector_db", "a file was not embedded"),
    Sign("Failed to link file", "a file was not linked to its knowledge base"),
    Sign(r"Failed to process \d* ?files", "a re-index lost files"),
    Sign("Failed to embed knowledge base", "the name of a knowledge base was not embedded"),
    Sign("Unknown embedding engine", "the embedding engine is not known"),
    Sign("Error loading SentenceTransformer|No embedding model is loaded", "a local embedding model is missing"),
    Sign("does not match existing vector column dimension", "the vector column has another dimension"),
    Sign("Error creating admin account", "the administrator was not created"),
    Sign(
        r"embeddings generated (?P<some>\d+) for (?!(?P=some) items)\d+ items", "passages and vectors differ in number"
    ),
)
PROXY = (
    Sign("No deployments available", "the proxy had no engine to send a request to"),
    Sign("RateLimitError", "an engine refused requests for their number"),
    Sign(r"litellm\.Timeout|APITimeoutError", "an engine did not answer in time"),
    Sign("ServiceUnavailableError|APIConnectionError", "an engine could not be reached"),
)
ENGINE = (
    Sign("Model is overloaded", "requests were refused because too many came at once"),
    Sign("CUDA out of memory|OutOfMemoryError", "the graphics card had no memory left"),
    Sign("ST projector loading failed|Dense module files not found", "a layer of the model was left out"),
    Sign("EngineDeadError|Could not create backend", "the engine stopped"),
)
_SIGNS: Mapping[str, tuple[Sign, ...]] = {
    _context.OPEN_WEBUI: OPEN_WEBUI,
    _context.PROXY: PROXY,
    _context.ENGINE: ENGINE,
    _context.RERANKER: ENGINE,
}
_SLICES = {_context.ENGINE: "embedder"}


async def logs(context: _context.Context, _before: _context.Before) -> _context.Outcome:
    """The logs of the containers on this host, up to the start of this run."""
    outcome = _context.Outcome()
    for hop, signs in _SIGNS.items():
        plan = context.plan.get(_SLICES.get(hop, hop))
        if not plan:
            continue
        container = context.containers.get(plan.get("container") or "")
        if context.logs is None or container is None:
            outcome.skipped.append(f"{hop.replace('_', ' ')}: its container is not on this host")
            continue
        try:
            text = await asyncio.to_thread(context.logs, container.name, LINES)
        except ServiceError as error:
            outcome.skipped.append(f"{hop.replace('_', ' ')}: {error}")
            continue
        lines = text.splitlines()
        outcome.measurements[f"{hop}_lines"] = len(lines)
        if len(lines) >= LINES:
            outcome.skipped.append(f"{hop.replace('_', ' ')}: lines before the last {LINES}")
        outcome.findings += judge(lines, signs, container.name, hop)
    return outcome


def judge(lines: list[str], signs: tuple[Sign, ...], name: str, hop: str) -> list[Finding]:
    """One finding for each kind of failure, with the number of its lines."""
    findings = []
    for sign in signs:
        count = sum(re.search(sign.pattern, line) is not None for line in lines)
        if count:
            times = "once" if count == 1 else f"{count} times"
            message = f"The log of {name} says {times} that {sign.meaning}."
            findings.append(_faults.LOGGED.finding(message, hop=hop))
    return findings
