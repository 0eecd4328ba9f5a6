# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts of growing length: none within the limit is refused or cut, and past it happens what the engine's data says."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _engines, _vectors
from ansible_collections.plumbline.rag.plugins.module_utils._checks import _context, _faults, _probes
from ansible_collections.plumbline.rag.plugins.module_utils._checks.embedding import ROUTE_COSINE
from ansible_collections.plumbline.rag.plugins.module_utils._engines import Embeddings
from ansible_collections.plumbline.rag.plugins.module_utils._findings import Finding
from ansible_collections.plumbline.rag.plugins.module_utils._http import ServiceError

# Longer texts cost a CPU engine seconds each; deep verification goes to the limit of every model.
AFFORDABLE = 2048
_SHARES = (0.25, 0.5, 0.75, 0.95)
_PAST = 1.5
_SAMPLE = 100
# A CPU may need this long for the longest text; slow is not wrong.
PATIENCE = 120.0
# A text that was cut before its end gives the vector of another one with the same beginning.
_CUT = 1 - 1e-7
_WHERE: dict[str, str] = {"variable": "rag_chunk_size", "hop": _context.ENGINE}


async def engine(context: _context.Context, before: _context.Before) -> _context.Outcome:
    """A sweep of lengths at the engine."""
    if before["embedding at the engine"].failed:
        return _context.Outcome(skipped=["the engine's vectors are not usable"])
    plan, client = context.plan["embedder"], context.engine
    limit = await _limit(context, before["engine information"].measurements)
    if not limit:
        return _context.Outcome(skipped=[f"the length that {plan['model']} reads is not known"])
    reach = limit if context.plan.get("depth") == "deep" else min(limit, AFFORDABLE)
    outcome = _context.Outcome(measurements={"limit": limit})
    if reach < limit:
        outcome.skipped.append(f"lengths above {reach} of {limit} tokens: rag_verify_depth: deep goes to the limit")
    tokens = await _tokens_of_words(client)
    if tokens is None:
        return _context.Outcome(skipped=["the engine does not say how many tokens it reads"])
    points, vector = [], None
    for share in _SHARES:
        words = _words(int(share * reach), tokens)
        point, vector = await _point(client, words)
        points.append(point)
    within = [point for point in points if point["tokens"] is None or point["tokens"] <= limit]
    outcome.findings += _refused(within, limit, client)
    if not outcome.findings and vector is not None:
        outcome.findings += await _cut(client, words, vector, reach)
        outcome.data["longest"] = (" ".join(words), vector)
    if reach == limit and not outcome.findings:
        past, _vector = await _point(client, _words(int(_PAST * limit), tokens))
        past.update(tokens=int(_PAST * limit), past=True)
        points.append(past)
        outcome.findings += _past(past, plan, limit, client)
    outcome.measurements["lengths"] = points
    return outcome


async def proxy(context: _context.Context, before: _context.Before) -> _context.Outcome:
    """The longest text again, through the proxy, against the engine's vector."""
    longest = before["lengths of texts"].data.get("longest")
    if longest is None or before["lengths of texts"].failed:
        return _context.Outcome(skipped=["the engine itself gives no vector for a long text"])
    if before["embedding through the proxy"].failed:
        return _context.Outcome(skipped=["the proxy's vectors are not usable"])
    (text, vector), client = longest, context.proxy
    where = {"variable": "rag_chunk_size", "hop": _context.PROXY}
    reply = await client.post(client.body([text]), timeout=PATIENCE)
    outcome = _context.Outcome(measurements={"characters": len(text), "status": reply.status})
    if not reply.ok:
        message = f"{reply.resource} answers {reply.status} for a text that the engine takes: {reply.excerpt}"
        outcome.findings.append(_faults.LENGTH_REFUSED.finding(message, **where))
        return outcome
    (through,) = _engines.vectors(reply)
    cosine = outcome.measurements["cosine_with_engine"] = _vectors.cosine(vector, through)
    if cosine < ROUTE_COSINE:
        message = (
            f"A text of {len(text)} characters has cosine {cosine:.6f} with the engine's vector when it goes through "
            f"{client.url}, and short texts have 1: it is cut off on its way."
        )
        outcome.findings.append(_faults.LENGTH_CUT.finding(message, **where))
    return outcome


async def _limit(context: _context.Context, information: Mapping[str, Any]) -> int:
    """The smaller one of the model's limit and what the server was started with."""
    plan = context.plan["embedder"]
    known = [plan.get("max_input_tokens"), information.get("embedder", {}).get("max_input_length")]
    if plan["engine"] == "vllm":
        rows = await _engines.models(context.http, plan["base_url"], context.secret(plan.get("api_key_secret")))
        known += [row.get("max_model_len") for row in rows]
    return min((int(one) for one in known if one), default=0)


async def _tokens_of_words(client: Embeddings) -> tuple[float, float] | None:
    """How many tokens a word of the filler has, and a text besides them; None when the answers do not tell."""
    one, many = [await client.post(client.body([" ".join(_filler(count))])) for count in (1, _SAMPLE)]
    few, more = used(one), used(many)
    if not few or not more or more <= few:
        return None
    each = (more - few) / (_SAMPLE - 1)
    return each, max(few - each, 0.0)


def used(reply: Any) -> int:
    """The tokens that an answer says it took; 0 when it does not say."""
    usage = reply.expect().get("usage")
    used = usage.get("prompt_tokens") if isinstance(usage, Mapping) else None
    return used if isinstance(used, int) else 0


def _filler(count: int) -> list[str]:
    words = _probes.FILLER.split(" ")
    return [words[number % len(words)] for number in range(count)]


def _words(tokens: int, measured: tuple[float, float]) -> list[str]:
    each, besides = measured
    return _filler(max(1, math.floor((tokens - besides) / each)))


async def _point(client: Embeddings, words: Sequence[str]) -> tuple[dict[str, Any], list[float] | None]:
    reply = await client.post(client.body([" ".join(words)]), timeout=PATIENCE)
    point = {"words": len(words), "tokens": None, "seconds": round(reply.seconds, 4), "status": reply.status}
    if not reply.ok:
        return point, None
    (vector,) = _engines.vectors(reply)
    point["tokens"] = used(reply)
    point["usable"] = _vectors.is_usable(vector)
    return point, vector


def _refused(points: Sequence[Mapping[str, Any]], limit: int, client: Embeddings) -> Iterator[Finding]:
    failed = [point for point in points if not point.get("usable")]
    if failed:
        shown = ", ".join(f"{point['words']} words (status {point['status']})" for point in failed)
        message = f"{client.url} gives no usable vector for texts within its {limit} tokens: {shown}."
        yield _faults.LENGTH_REFUSED.finding(message, **_WHERE)


async def _cut(client: Embeddings, words: Sequence[str], vector: Sequence[float], reach: int) -> list[Finding]:
    """Two texts that differ in their last tenth only; the vector of the first one is known."""
    start = words[: -max(1, len(words) // 10)]
    other = _probes.DISTRACTORS[1].split(" ")
    tail = [other[number % len(other)] for number in range(len(words) - len(start))]
    try:
        body = client.body([" ".join([*start, *tail])])
        (other_vector,) = _engines.vectors(await client.post(body, timeout=PATIENCE))
    except ServiceError:  # the other words have more tokens
        return []
    if _vectors.cosine(vector, other_vector) < _CUT:
        return []
    message = f"The last tenth of a text of {reach} tokens does not change its vector at {client.url}: it is cut off."
    return [_faults.LENGTH_CUT.finding(message, **_WHERE)]


def _past(point: Mapping[str, Any], plan: Mapping[str, Any], limit: int, client: Embeddings) -> Iterator[Finding]:
    truncates = plan.get("truncates")
    answered = point["status"] == 200
    if truncates is None or truncates == answered:
        return
    what = "answers" if answered else f"refuses with status {point['status']}"
    should = "cut it off" if truncates else "refuse it"
    message = f"{client.url} {what} a text of {point['tokens']} tokens; its limit is {limit}, and it should {should}."
    yield _faults.LENGTH_PAST.finding(message, **_WHERE)
