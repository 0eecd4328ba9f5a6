# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A memory: added, found again, and both prefixes proven, for memories are embedded on a path of their own."""

from __future__ import annotations

import asyncio

from ansible_collections.plumbline.rag.plugins.module_utils._checks import _context, _faults, _probes, _walk, paths
from ansible_collections.plumbline.rag.plugins.module_utils._http import ServiceError
from ansible_collections.plumbline.rag.plugins.module_utils._open_webui import Hits
from ansible_collections.plumbline.rag.plugins.module_utils._pgvector import Chunk

_TEXT = f"{_probes.NAME}: {_probes.PASSAGES[1]}"
_QUESTION = _probes.QUESTIONS[1]
# The administrator may have memories of their own.
_NEAREST = 5


async def memory(context: _context.Context, before: _context.Before) -> _context.Outcome:
    """Add a memory of the administrator, query it, and remove it again."""
    impossible = _walk.no_embedding(before)
    if impossible is not None:
        return impossible
    walk = _Memory(context, before)
    return await walk.run(walk.steps)


class _Memory(_walk.Walk):
    """One memory, step by step."""

    _added: tuple[str, str] | None = None

    async def steps(self) -> None:
        try:
            self._added = added = await self.api.add_memory(_TEXT)
            if added is None:
                self.outcome.skipped.append("memories are switched off")
                return
            hits = await self.api.query_memory(_QUESTION, _NEAREST)
        except ServiceError as error:
            self.fail(_faults.QUERY_FAILED, f"Memory: {error}", _context.OPEN_WEBUI)
        self.outcome.measurements["score"] = next(
            (score for text, score in zip(hits.documents, hits.scores) if text == _TEXT), None
        )
        if _TEXT not in hits.documents:
            message = f"A search of memories for {_QUESTION!r} does not return the one that answers it."
            self.found(_faults.WRONG_CHUNK, message, _context.OPEN_WEBUI, "rag_embedder")
            return
        await self._prove(await self._stored(*added), hits)

    async def _stored(self, memory_id: str, user_id: str) -> Chunk | None:
        if self.context.store is None:
            self.outcome.skipped.append("document prefix of memories: only a pgvector store can be read")
            return None
        try:
            chunk = await self.context.store.chunk(f"user-memory-{user_id}", memory_id)
        except ServiceError as error:
            self.outcome.skipped.append(f"document prefix of memories: {error}")
            return None
        wanted = self.before["embedding at the engine"].measurements["dimension"]
        return Chunk(_TEXT, chunk.vector[:wanted], {}) if chunk and len(chunk.vector) >= wanted else None

    async def _prove(self, stored: Chunk | None, hits: Hits) -> None:
        if stored is not None:
            await paths.prove_document_prefix(self, [stored], "the stored vector of a memory")
        else:
            text = self.plan["embedder"]["document_prefix"] + _TEXT
            stored = Chunk(_TEXT, (await self.vectors([text]))[text], {})
        await paths.prove_query_prefix(self, [stored], [(_QUESTION, hits)], "the scores of a search of memories")

    async def remove(self) -> None:
        found = [self._added[0]] if self._added else await self.api.find_memories(_probes.NAME)
        await asyncio.gather(*(self.api.delete_memory(memory_id) for memory_id in found))

    async def remove_users(self) -> None:
        """There are none on this way."""
