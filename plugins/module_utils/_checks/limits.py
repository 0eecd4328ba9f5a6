# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configured limits, on the route that Open WebUI uses: a batch of full passages and dense passages, at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _engines, _vectors
from ansible_collections.plumbline.rag.plugins.module_utils._checks import _context, _faults, _probes, length
from ansible_collections.plumbline.rag.plugins.module_utils._findings import Finding
from ansible_collections.plumbline.rag.plugins.module_utils._http import Reply

_CHARACTERS_PER_TOKEN = 4
_BUSY = (429, 503)
# Passages that have the most tokens for their length. Each is repeated to the size of a passage.
DENSE: Mapping[str, str] = {
    "CJK": "垂直線儀懸於牆側鉛錘靜止則牆直矣潮汐每日兩漲兩落因月與日引海水酵母生氣麵糰膨脹職人用墨斗彈線測量齊平",
    "URLs": "https://plumb.example/a8Xk2/q?id=7f3e-91bd&t=Zr0K#s9_4 ",
    "digits": "83051 7.642 -0.0918 4471,25 60/13 998077 1.5e-07 31:59 ",
}


async def limits(context: _context.Context, before: _context.Before) -> _context.Outcome:
    """One full batch and a passage of each dense kind, as many at once as Open WebUI sends."""
    hop = _context.PROXY if context.plan.get("proxy") else _context.ENGINE
    if any(one.failed for one in before.values()):
        return _context.Outcome(skipped=["a check that this one builds on found an error"])
    client = context.proxy if hop == _context.PROXY else context.engine
    plan, settings = context.plan["embedder"], context.plan["open_webui"]["settings"]
    size, count = settings["retrieval"]["CHUNK_SIZE"], settings["embedding"]["RAG_EMBEDDING_BATCH_SIZE"]
    outcome = _context.Outcome()
    dense = DENSE
    if settings["retrieval"].get("TEXT_SPLITTER"):
        size, dense = size * _CHARACTERS_PER_TOKEN, {}
        outcome.skipped.append("dense passages: rag_text_splitter measures them in tokens of another model")
    prefix = plan["document_prefix"]
    # The number first, so that no two are equal and none can come out of a cache.
    full = [prefix + filled(f"{number} {_probes.FILLER} ", size) for number in range(count)]
    bodies = [client.body(full), *(client.body([prefix + filled(text, size)]) for text in dense.values())]
    slots = asyncio.Semaphore(settings["embedding"]["RAG_EMBEDDING_CONCURRENT_REQUESTS"] or len(bodies))

    async def send(body: dict[str, Any]) -> Reply:
        async with slots:
            return await client.post(body, timeout=length.PATIENCE)

    first, *others = await asyncio.gather(*map(send, bodies))
    replies = dict(zip(dense, others))
    outcome.measurements["full_batch"] = {
        "texts": count,
        "characters": size,
        "bytes": sum(len(text.encode()) for text in full),
        "tokens": length.used(first) if first.ok else None,
        "seconds": round(first.seconds, 3),
        "status": first.status,
    }
    outcome.measurements["dense"] = [
        {"kind": kind, "characters": size, "tokens": length.used(reply) if reply.ok else None, "status": reply.status}
        for kind, reply in replies.items()
    ]
    busy = [reply for reply in (first, *others) if reply.status in _BUSY]
    if busy:
        message = (
            f"{busy[0].resource} refuses {len(busy)} of {len(bodies)} requests of full passages that come at once with "
            f"status {busy[0].status}: {busy[0].excerpt}"
        )
        outcome.findings.append(_faults.BURST.finding(message, variable="rag_embedding_concurrency", hop=hop))
        return outcome
    outcome.findings += [*_batch(first, outcome.measurements["full_batch"], hop), *_dense(replies, size, plan, hop)]
    return outcome


def filled(text: str, characters: int) -> str:
    """A text repeated to a length."""
    return (text * (characters // len(text) + 1))[:characters]


def _batch(reply: Reply, sent: Mapping[str, Any], hop: str) -> Iterator[Finding]:
    where = {"variable": "rag_embedding_batch_size", "hop": hop}
    what = f"{sent['texts']} passages of {sent['characters']} characters"
    if not reply.ok:
        message = (
            f"{reply.resource} refuses one request of {what} ({sent['bytes']} bytes) with status {reply.status}: "
            f"{reply.excerpt}"
        )
        yield _faults.BATCH_REFUSED.finding(message, **where)
        return
    rows = _engines.vectors(reply)
    usable = sum(_vectors.is_usable(row) for row in rows)
    if not usable == len(rows) == sent["texts"]:
        message = f"{reply.resource} gives {len(rows)} vectors, {usable} of them usable, for {what}."
        yield _faults.COUNT.finding(message, **where)


def _dense(replies: Mapping[str, Reply], size: int, plan: Mapping[str, Any], hop: str) -> Iterator[Finding]:
    refused = [(kind, reply) for kind, reply in replies.items() if not reply.ok]
    if refused:
        _kind, one = refused[0]
        message = (
            f"{one.resource} refuses a passage of {', of '.join(kind for kind, _reply in refused)} with rag_chunk_size: {size} characters with status "
            f"{one.status}: {one.excerpt} {plan['model']} reads {plan['max_input_tokens']} tokens."
        )
        yield _faults.DENSE_REFUSED.finding(message, variable="rag_chunk_size", hop=hop)
