# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configured limits, on the route that Open WebUI uses: a batch of full passages, dense passages, and batches at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _engines, _vectors
from ansible_collections.plumbline.rag.plugins.module_utils._checks import _context, _faults, _probes, length
from ansible_collections.plumbline.rag.plugins.module_utils._engines import Embeddings
from ansible_collections.plumbline.rag.plugins.module_utils._findings import Finding

# As many requests at once as a production system bears; the client itself has 16 connections.
_AT_ONCE = {"quick": 4, "standard": 4, "deep": 16}
_CHARACTERS_PER_TOKEN = 4
# Passages that have the most tokens for their length. Each is repeated to the size of a passage.
DENSE: Mapping[str, str] = {
    "CJK": "垂直線儀懸於牆側鉛錘靜止則牆直矣潮汐每日兩漲兩落因月與日引海水酵母生氣麵糰膨脹職人用墨斗彈線測量齊平",
    "URLs": "https://plumb.example/a8Xk2/q?id=7f3e-91bd&t=Zr0K#s9_4 ",
    "digits": "83051 7.642 -0.0918 4471,25 60/13 998077 1.5e-07 31:59 ",
}


async def limits(context: _context.Context, before: _context.Before) -> _context.Outcome:
    """One full batch, one passage of each dense kind, and as many batches at once as Open WebUI sends."""
    hop = _context.PROXY if context.plan.get("proxy") else _context.ENGINE
    if any(one.failed for one in before.values()):
        return _context.Outcome(skipped=["a check that this one builds on found an error"])
    client = context.proxy if hop == _context.PROXY else context.engine
    settings = context.plan["open_webui"]["settings"]
    size, count = settings["retrieval"]["CHUNK_SIZE"], settings["embedding"]["RAG_EMBEDDING_BATCH_SIZE"]
    in_characters = not settings["retrieval"].get("TEXT_SPLITTER")
    outcome = _context.Outcome()
    prefix = context.plan["embedder"]["document_prefix"]
    characters = size if in_characters else size * _CHARACTERS_PER_TOKEN
    outcome.findings += await _batch(client, prefix, characters, count, hop, outcome)
    if in_characters:
        outcome.findings += await _dense(client, context.plan["embedder"], size, hop, outcome)
    else:
        outcome.skipped.append("dense passages: rag_text_splitter measures them in tokens of another model")
    if not outcome.findings:
        outcome.findings += await _at_once(client, context, count, hop, outcome)
    return outcome


def filled(text: str, characters: int) -> str:
    """A text repeated to a length."""
    return (text * (characters // len(text) + 1))[:characters]


async def _batch(
    client: Embeddings, prefix: str, characters: int, count: int, hop: str, outcome: _context.Outcome
) -> list[Finding]:
    # The number first, so that no two are equal and none can come out of a cache.
    texts = [prefix + filled(f"{number} {_probes.FILLER} ", characters) for number in range(count)]
    body = client.body(texts)
    size = sum(len(text.encode()) for text in texts)
    reply = await client.post(body, timeout=length.PATIENCE)
    outcome.measurements["full_batch"] = {
        "texts": count,
        "characters": characters,
        "bytes": size,
        "tokens": length.used(reply) if reply.ok else None,
        "seconds": round(reply.seconds, 3),
        "status": reply.status,
    }
    where = {"variable": "rag_embedding_batch_size", "hop": hop}
    if not reply.ok:
        message = (
            f"{reply.resource} refuses one request of {count} passages of {characters} characters ({size} bytes) with "
            f"status {reply.status}: {reply.excerpt}"
        )
        return [_faults.BATCH_REFUSED.finding(message, **where)]
    rows = _engines.vectors(reply)
    if len(rows) != count or not all(_vectors.is_usable(row) for row in rows):
        usable = sum(_vectors.is_usable(row) for row in rows)
        message = f"{reply.resource} gives {usable} usable vectors for {count} passages of {characters} characters."
        return [_faults.COUNT.finding(message, **where)]
    return []


async def _dense(
    client: Embeddings, plan: Mapping[str, Any], size: int, hop: str, outcome: _context.Outcome
) -> list[Finding]:
    refused, rows = [], []
    for kind, text in DENSE.items():
        reply = await client.post(client.body([plan["document_prefix"] + filled(text, size)]), timeout=length.PATIENCE)
        tokens = length.used(reply) if reply.ok else None
        rows.append({"kind": kind, "characters": size, "tokens": tokens, "status": reply.status})
        if not reply.ok:
            refused.append(f"{kind} (status {reply.status}: {reply.excerpt})")
    outcome.measurements["dense"] = rows
    if not refused:
        return []
    message = (
        f"{client.url} refuses a passage of {size} characters, the length of rag_chunk_size, of {', of '.join(refused)}; "
        f"{plan['model']} reads {plan['max_input_tokens']} tokens."
    )
    return [_faults.DENSE_REFUSED.finding(message, variable="rag_chunk_size", hop=hop)]


async def _at_once(
    client: Embeddings, context: _context.Context, count: int, hop: str, outcome: _context.Outcome
) -> list[Finding]:
    """Full batches of short texts: an engine that counts texts has as many to take as in an upload."""
    most = _AT_ONCE[context.plan.get("depth", "standard")]
    wanted = context.plan["open_webui"]["settings"]["embedding"]["RAG_EMBEDDING_CONCURRENT_REQUESTS"] or most
    if wanted > most:
        outcome.skipped.append(f"{wanted} batches at once: {most} were sent, which loads a running system less")
    sent = min(wanted, most)
    prefix = context.plan["embedder"]["document_prefix"]
    body = client.body([prefix + text for text in _probes.candidates(count)])
    replies = await asyncio.gather(*(client.post(body, timeout=length.PATIENCE) for _one in range(sent)))
    refused = [reply for reply in replies if not reply.ok]
    outcome.measurements["at_once"] = {"requests": sent, "texts": sent * count, "refused": len(refused)}
    if not refused:
        return []
    message = (
        f"{refused[0].resource} refuses {len(refused)} of {sent} requests of {count} texts that come at once with status "
        f"{refused[0].status}: {refused[0].excerpt}"
    )
    return [_faults.BURST.finding(message, variable="rag_embedding_concurrency", hop=hop)]
