# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same text gives the same vector: again and again, and when requests come at once and the server coalesces them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ansible_collections.plumbline.rag.plugins.module_utils import _engines, _vectors
from ansible_collections.plumbline.rag.plugins.module_utils._checks import _context, _faults, _probes
from ansible_collections.plumbline.rag.plugins.module_utils._checks.embedding import BATCH_COSINE
from ansible_collections.plumbline.rag.plugins.module_utils._engines import Embeddings
from ansible_collections.plumbline.rag.plugins.module_utils._findings import Finding
from ansible_collections.plumbline.rag.plugins.module_utils._http import Reply

REPEATS = 20
# Its burst comes on top; ten calls in a row miss a second engine behind it once in five hundred times.
REPEATS_OF_PROXY = 10
# Of different length, so that a server that pads has something to pad.
_TEXTS = (*_probes.PASSAGES, *_probes.QUESTIONS, *_probes.DISTRACTORS)
_VARIABLE = "rag_embedder_extra_args"


async def engine(context: _context.Context, before: _context.Before) -> _context.Outcome:
    """Twenty calls one after the other, then equal and different texts at once."""
    if before["embedding at the engine"].failed:
        return _context.Outcome(skipped=["the engine's vectors are not usable"])
    client, texts = context.engine, _texts(context)
    outcome = await _repeated(client, texts[0], _context.ENGINE, REPEATS)
    if not outcome.failed:
        others = [(await client.embed([text]))[0] for text in texts[1:]]
        outcome.data["singles"] = [outcome.data["first"], *others]
        outcome.findings += await _burst(client, outcome.data["singles"], context, _context.ENGINE, outcome)
    return outcome


async def proxy(context: _context.Context, before: _context.Before) -> _context.Outcome:
    """The same through the proxy, which may have several engines behind it, against the vectors of one."""
    singles = before["embedding again and at once"].data.get("singles")
    if singles is None or before["embedding again and at once"].failed:
        return _context.Outcome(skipped=["the engine itself does not give the same vectors"])
    if before["embedding through the proxy"].failed:
        return _context.Outcome(skipped=["the proxy's vectors are not usable"])
    outcome = await _repeated(context.proxy, _texts(context)[0], _context.PROXY, REPEATS_OF_PROXY)
    if not outcome.failed:
        outcome.findings += await _burst(context.proxy, singles, context, _context.PROXY, outcome)
    return outcome


def _texts(context: _context.Context) -> list[str]:
    prefix = context.plan["embedder"]["document_prefix"]
    return [prefix + text for text in _TEXTS]


async def _repeated(client: Embeddings, text: str, hop: str, times: int) -> _context.Outcome:
    replies = [await client.post(client.body([text])) for _call in range(times)]
    calls = [_engines.vectors(reply)[0] for reply in replies]
    seconds = sorted(reply.seconds for reply in replies)
    outcome = _context.Outcome(measurements={"latency": [round(one, 4) for one in seconds]})
    lowest = min(_vectors.cosine(calls[0], vector) for vector in calls)
    outcome.measurements["lowest_cosine_of_calls"] = lowest
    if lowest < BATCH_COSINE:
        message = (
            f"The same text has cosine {lowest:.6f} between two of {times} calls of {client.url}; "
            f"it should be at least {BATCH_COSINE}."
        )
        outcome.findings.append(_faults.UNSTABLE.finding(message, variable=_VARIABLE, hop=hop))
    outcome.data["first"] = calls[0]
    return outcome


async def _burst(
    client: Embeddings,
    singles: Sequence[Sequence[float]],
    context: _context.Context,
    hop: str,
    outcome: _context.Outcome,
) -> list[Finding]:
    """As many equal texts as different ones, one request each, all at once."""
    texts = _texts(context)
    sent = [*[0] * len(texts), *range(len(texts))]
    replies: list[Reply] = list(await asyncio.gather(*(client.post(client.body([texts[i]])) for i in sent)))
    refused = [reply for reply in replies if not reply.ok]
    if refused:
        message = (
            f"{refused[0].resource} refuses {len(refused)} of {len(sent)} requests that come at once with status "
            f"{refused[0].status}: {refused[0].excerpt}"
        )
        return [_faults.BURST.finding(message, variable="rag_embedding_concurrency", hop=hop)]
    vectors = [_engines.vectors(reply)[0] for reply in replies]
    cosines = [_vectors.cosine(singles[i], vector) for i, vector in zip(sent, vectors)]
    equal, different = min(cosines[: len(texts)]), min(cosines[len(texts) :])
    outcome.measurements.update(
        requests_at_once=len(sent), lowest_cosine_equal=equal, lowest_cosine_different=different
    )
    if min(cosines) >= BATCH_COSINE:
        return []
    message = (
        f"A text has cosine {min(cosines):.6f} between alone and among {len(sent)} requests at once at {client.url}; "
        f"it should be at least {BATCH_COSINE}."
    )
    return [_faults.CONCURRENT.finding(message, variable=_VARIABLE, hop=hop)]
