# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the ways through Open WebUI share: findings, the engine's vectors, and that nothing of ours stays behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn

from ansible_collections.plumbline.rag.plugins.module_utils._checks import _context, _faults, _probes
from ansible_collections.plumbline.rag.plugins.module_utils._findings import Rule
from ansible_collections.plumbline.rag.plugins.module_utils._http import ServiceError

PROCESSING_SECONDS = 120.0
_CLEANING_SECONDS = 60.0
_SETTLING_SECONDS = 20.0
_DEFAULT_BATCH = 32


class Stop(Exception):
    """The way ends here; its finding is recorded."""


def no_embedding(before: _context.Before) -> _context.Outcome | None:
    """The outcome of a way that needs embeddings which cannot be made, or compared."""
    embedding = [outcome for name, outcome in before.items() if name.startswith("embedding")]
    if any(
        "dimension" not in one.measurements or one.has(_faults.EMBEDDING_FAILED, _faults.COUNT, _faults.INVALID_VECTOR)
        for one in embedding
    ):
        return _context.Outcome(skipped=["no embedding can be made, so no file can be processed"])
    if any(one.has(_faults.ORDER, _faults.BATCH, _faults.UNSTABLE) for one in embedding):
        return _context.Outcome(skipped=["the same text gets different vectors, so nothing stored can be proven"])
    return None


class Walk:
    """One way through Open WebUI: its outcome, and what of ours lies there."""

    def __init__(self, context: _context.Context, before: _context.Before) -> None:
        self.context = context
        self.before = before
        self.api = context.open_webui
        self.plan = context.plan
        self.outcome = _context.Outcome()
        self.ours: list[str] = []  # collections of the vector store
        self.settled = True  # nothing is being processed
        self._vectors: dict[str, list[float]] = {}

    async def run(self, steps: Callable[[], Awaitable[None]]) -> _context.Outcome:
        """Make the steps between removing what an interrupted run left and removing what this one made."""
        await self.api.sign_in()
        try:
            await self._remove_leftovers()
            await steps()
        except Stop:
            pass
        finally:
            # Also after a failure or an interrupt, and to the end: nothing of ours may stay.
            await asyncio.shield(asyncio.wait_for(self.clean(), _CLEANING_SECONDS))
        return self.outcome

    # -- findings ------------------------------------------------------------------------------------------------

    def found(self, rule: Rule, message: str, hop: str, variable: str | None = None) -> None:
        where = {"hop": hop} if variable is None else {"variable": variable, "hop": hop}
        self.outcome.findings.append(rule.finding(message, **where))

    def fail(self, rule: Rule, message: str, hop: str) -> NoReturn:
        self.found(rule, message, hop)
        raise Stop

    # -- the engine's vectors ------------------------------------------------------------------------------------

    async def vectors(self, texts: Sequence[str]) -> dict[str, list[float]]:
        """In requests of the size that the engine takes, each text once."""
        unknown = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        size = self.plan["embedder"].get("max_batch") or _DEFAULT_BATCH
        parts = [unknown[start : start + size] for start in range(0, len(unknown), size)]
        rows = await asyncio.gather(*(self.context.engine.embed(part) for part in parts))
        self._vectors.update(zip(unknown, (vector for part in rows for vector in part)))
        return self._vectors

    # -- nothing stays -------------------------------------------------------------------------------------------

    async def _remove_leftovers(self) -> None:
        try:
            await self.remove()
            await self.remove_users()
        except ServiceError as error:
            self.fail(_faults.LEFTOVERS, str(error), _context.OPEN_WEBUI)

    async def clean(self) -> None:
        """Remove what this run or an interrupted earlier one left; a failure is a finding of its own."""
        self.context.http.lift_budget()
        try:
            if not self.settled:
                await self._settle()
            await self.remove()
        except ServiceError as error:
            self.found(_faults.LEFTOVERS, str(error), _context.OPEN_WEBUI)
            return
        if self.context.store is None or not self.ours:
            return
        try:
            left = await self.context.store.count(self.ours)
        except ServiceError:
            return  # an unreadable store has its own finding
        if left:
            message = f"{left} chunks of removed files remain in the vector store."
            self.found(_faults.LEFTOVERS, message, _context.VECTOR_STORE)

    async def _settle(self) -> None:
        """Processing that still runs would store vectors of a file that is gone."""
        waiting = [upload.id for upload in await self.api.uploads(_probes.NAME)]
        await self.api.wait_processed(_probes.NAME, waiting, _SETTLING_SECONDS)

    async def remove(self) -> None:
        """Files and knowledge bases under our name."""
        files, knowledge = await asyncio.gather(self.api.uploads(_probes.NAME), self.api.find_knowledge(_probes.NAME))
        # All files of a knowledge base in one request; those outside of one, and with old versions, one by one.
        for found in knowledge:
            if files:
                await self.api.delete_files_of(found, [upload.id for upload in files])
            await self.api.delete_knowledge(found)
        if files and knowledge:
            files = await self.api.uploads(_probes.NAME)
        await asyncio.gather(*(self.api.delete_file(upload.id) for upload in files))

    async def remove_users(self) -> None:
        """Users under our name; only one way makes one, and each way removes what an interrupted one left."""
        users = await self.api.find_users(_probes.NAME)
        await asyncio.gather(*(self.api.delete_user(user) for user in users))
