# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reranking: Open WebUI's own request at the reranker and at the exact URL that Open WebUI uses."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _vectors
from ansible_collections.plumbline.rag.plugins.module_utils._checks import _context, _faults, _probes
from ansible_collections.plumbline.rag.plugins.module_utils._engines import Reranker, ShapeError
from ansible_collections.plumbline.rag.plugins.module_utils._findings import WARNING, Finding
from ansible_collections.plumbline.rag.plugins.module_utils._http import ServiceError, TimedOut, Unreachable

SAME_SCORE = 1e-3
FLAT = 1e-6
_RANGE_SLACK = 1e-3
_SHARE_OF_TIMEOUT = 0.5
_TIMEOUT = "rag_reranker_timeout"
_PROXY_SHAPE = (
    "The proxy translates for the provider of its model entry: huggingface/ for TEI, hosted_vllm/ for vLLM; check "
    "rag_litellm_extra_models and rag_litellm_version."
)


async def reranker(context: _context.Context, _before: _context.Before) -> _context.Outcome:
    """The reranking server itself, in its own dialect."""
    outcome = await _asked(context.reranker, _context.RERANKER, context.plan["reranker"])
    if not outcome.failed and not context.plan["open_webui"].get("rerank_url"):
        outcome.skipped.append("Open WebUI is not configured to use it")
    return outcome


async def route(context: _context.Context, before: _context.Before) -> _context.Outcome:
    """The exact request of Open WebUI at the exact URL."""
    client = context.rerank_route
    own = before["reranking at the reranker"]
    if own.failed:
        return _context.Outcome(skipped=["the reranker itself does not answer rightly"])
    hop = context.rerank_hop
    outcome = await _asked(client, hop, context.plan["reranker"])
    if outcome.failed:
        return outcome
    outcome.findings += _same(outcome.data["scores"], own.data["scores"], client, hop, outcome.measurements)
    return outcome


async def batch(context: _context.Context, before: _context.Before) -> _context.Outcome:
    """As many documents in one request as a hybrid search of Open WebUI may send."""
    count = 2 * int(context.plan["open_webui"].get("top_k") or 0)
    if not before["reranking as Open WebUI asks"].data.get("scores") or not count:
        return _context.Outcome(skipped=["the route does not answer rightly"])
    outcome = _context.Outcome(measurements={"documents": count})
    limit = _timeout(context.plan["open_webui"])

    async def judged(client: Reranker, hop: str) -> list[Finding]:
        return await _most(client, hop, count, limit, outcome.measurements)

    outcome.findings += await located(context, judged)
    return outcome


async def located(
    context: _context.Context, judged: Callable[[Reranker, str], Awaitable[list[Finding]]]
) -> list[Finding]:
    """What Open WebUI's route does wrong; if the server behind the proxy does the same, it is named there."""
    findings = await judged(context.rerank_route, context.rerank_hop)
    if findings and context.rerank_hop != _context.RERANKER:
        own = await judged(context.reranker, _context.RERANKER)
        same = {finding.id for finding in own}
        return [*own, *(finding for finding in findings if finding.id not in same)]
    return findings


async def _most(client: Reranker, hop: str, count: int, limit: float | None, measured: dict[str, Any]) -> list[Finding]:
    where = {"variable": "rag_top_k", "hop": hop}
    documents = _probes.candidates(count)
    try:
        reply = await client.post(_probes.QUESTIONS[0], documents, timeout=limit)
        seconds = reply.seconds
        if limit and seconds > _SHARE_OF_TIMEOUT * limit:
            # Other checks of this run ask as well, and one of two requests may have met them.
            seconds = min(seconds, (await client.post(_probes.QUESTIONS[0], documents, timeout=limit)).seconds)
    except TimedOut as error:
        message = f"{error} Open WebUI sends {count} documents and waits {limit:g} s."
        return [_faults.RERANK_SLOW.finding(message, variable=_TIMEOUT, hop=hop)]
    measured["seconds"] = round(seconds, 4)
    if not reply.ok:
        message = f"{reply.resource} answered {reply.status} for {count} documents: {reply.excerpt}"
        return [_faults.RERANK_BATCH.finding(message, **where)]
    findings = []
    indexes = [index for index, _score in client.results(reply)]
    if not _vectors.is_permutation(indexes, count):
        message = f"{client.url} scored {len(set(map(str, indexes)))} of {count} documents; each should be scored once."
        findings.append(_faults.RERANK_INDEXES.finding(message, **where))
    if limit and seconds > _SHARE_OF_TIMEOUT * limit:
        message = (
            f"{client.url} took {seconds:.1f} s for {count} documents, and Open WebUI waits {limit:g} s; one "
            f"request alone should take at most {_SHARE_OF_TIMEOUT:.0%} of that."
        )
        findings.append(_faults.RERANK_SLOW.finding(message, severity=WARNING, variable=_TIMEOUT, hop=hop))
    return findings


def _timeout(plan: Mapping[str, Any]) -> float | None:
    """Seconds that Open WebUI waits for the reranker; None when it waits for ever."""
    text = str(plan["settings"]["retrieval"].get("RAG_EXTERNAL_RERANKER_TIMEOUT") or "")
    return float(text) if text.isdigit() and int(text) else None


async def _asked(client: Reranker, hop: str, plan: Mapping[str, Any]) -> _context.Outcome:
    documents, right = _probes.rerank_documents()
    query = _probes.QUESTIONS[0]
    outcome = _context.Outcome()
    try:
        reply = await client.post(query, documents)
        results = client.results(reply)
    except Unreachable:
        raise
    except ShapeError as error:
        where = {"variable": "rag_reranker_url", "hop": hop}
        remedy = _PROXY_SHAPE if hop == _context.PROXY else None
        outcome.findings.append(_faults.RERANK_SHAPE.finding(f"{error}.", remedy, **where))
        return outcome
    except ServiceError as error:
        outcome.findings.append(_faults.RERANK_FAILED.finding(str(error), variable="rag_reranker_url", hop=hop))
        return outcome
    outcome.measurements["seconds"] = round(reply.seconds, 4)
    outcome.findings += judge(results, len(documents), right, plan, client.url, hop)
    if outcome.has(_faults.RERANK_INDEXES, _faults.RERANK_NUMBERS):
        return outcome
    scores = [float(score) for _index, score in sorted(results)]
    outcome.data["scores"] = scores
    outcome.measurements.update(
        kind=plan["kind"],
        query=query,
        documents=documents,
        right=right,
        scores=scores,
        spread=max(scores) - min(scores),
    )
    return outcome


def judge(
    results: Sequence[tuple[Any, Any]], size: int, right: int, plan: Mapping[str, Any], url: str, hop: str
) -> Iterator[Finding]:
    """What pairs of index and score have to be; ``right`` is the position of the right document."""
    where = {"variable": "rag_reranker", "hop": hop}
    indexes = [index for index, _score in results]
    if not _vectors.is_permutation(indexes, size):
        message = f"{url} scored the documents {indexes} of {size}; each should be scored once."
        yield _faults.RERANK_INDEXES.finding(message, **where)
        return
    strange = [score for _index, score in results if not _is_number(score)]
    if strange:
        yield _faults.RERANK_NUMBERS.finding(f"{url} gave the score {strange[0]!r}; it should be a number.", **where)
        return
    scores = [float(score) for _index, score in sorted(results)]
    shown = ", ".join(f"{score:.4f}" for score in scores)
    if max(scores) - min(scores) <= FLAT:
        yield _faults.RERANK_FLAT.finding(f"{url} gave all {size} documents the score {scores[0]:.4f}.", **where)
        return
    if _vectors.argmax(scores) != right:
        message = f"{url} put document {_vectors.argmax(scores)} before the right one, {right}; scores: {shown}."
        yield _faults.RERANK_ORDER.finding(message, **where)
    low, high = plan.get("score_range") or (-math.inf, math.inf)
    if min(scores) < low - _RANGE_SLACK or max(scores) > high + _RANGE_SLACK:
        message = (
            f"{url} gave scores from {min(scores):.4f} to {max(scores):.4f}; this model's range is {low} to {high}."
        )
        yield _faults.RERANK_RANGE.finding(message, variable="rag_relevance_threshold", hop=hop)


def _is_number(score: Any) -> bool:
    return isinstance(score, (int, float)) and not isinstance(score, bool) and math.isfinite(score)


def _same(
    scores: Sequence[float], own: Sequence[float], client: Reranker, hop: str, measured: dict[str, Any]
) -> Iterator[Finding]:
    difference = max(abs(a - b) for a, b in zip(scores, own))
    measured["largest_difference_to_reranker"] = difference
    if difference > SAME_SCORE:
        message = (
            f"{client.url} gives scores that differ by {difference:.4f} from those of the reranker; "
            f"it should be at most {SAME_SCORE}."
        )
        yield _faults.RERANK_ROUTE.finding(message, variable="rag_reranker", hop=hop)
