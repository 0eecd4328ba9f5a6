# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that must be refused: one without text, and one that is larger than the limit."""

from __future__ import annotations

from ansible_collections.plumbline.rag.plugins.module_utils._checks import _context, _faults, _probes, _walk
from ansible_collections.plumbline.rag.plugins.module_utils._http import ServiceError

_MEGABYTE = 1024 * 1024
# Open WebUI reads the whole file before it refuses it.
_LARGEST_MEGABYTES = 32
_EMPTY = {"an empty file": b"", "a file of blanks": b"  \n\n  \n"}


async def refusals(context: _context.Context, before: _context.Before) -> _context.Outcome:
    """Upload what has to be refused, and remove what was not."""
    impossible = _walk.no_embedding(before)
    if impossible is not None:
        return impossible
    walk = _Refusals(context, before)
    return await walk.run(walk.steps)


class _Refusals(_walk.Walk):
    """One file after the other."""

    async def steps(self) -> None:
        for number, (what, content) in enumerate(_EMPTY.items()):
            outcome = await self._outcome(f"{_probes.NAME}-empty-{number}.txt", content)
            self.outcome.measurements[what] = outcome or "accepted"
            if outcome is None:
                message = f"Open WebUI counts {what} as processed; nothing of it can be found."
                self.found(_faults.NO_TEXT, message, _context.OPEN_WEBUI)
        try:
            limit = (await self.api.retrieval()).get("FILE_MAX_SIZE")
        except ServiceError as error:
            self.outcome.skipped.append(f"a file above the limit: {error}")
            return
        self.outcome.measurements["largest_file_in_megabytes"] = limit
        if not limit:
            self.outcome.skipped.append("a file above the limit: there is none (RAG_FILE_MAX_SIZE)")
        elif int(limit) > _LARGEST_MEGABYTES:
            self.outcome.skipped.append(f"a file above the limit of {limit} MB: too large to try")
        else:
            await self._too_large(int(limit))

    async def _too_large(self, limit: int) -> None:
        outcome = await self._outcome(
            f"{_probes.NAME}-large.txt", b"plumb line " * (limit * _MEGABYTE // 11 + 1), False
        )
        self.outcome.measurements["a file above the limit"] = outcome or "accepted"
        if outcome is None:
            message = f"Open WebUI takes a file of more than {limit} MB, its limit (FILE_MAX_SIZE)."
            self.found(_faults.TOO_LARGE, message, _context.OPEN_WEBUI, "rag_open_webui_env")

    async def _outcome(self, name: str, content: bytes, process: bool = True) -> str | None:
        """How a file was refused, at once or when it was read; None when it was not."""
        self.settled = False
        reply = await self.api.try_upload(name, content, process)
        if not reply.ok:
            self.settled = True
            return f"refused with status {reply.status}"
        if not process:
            self.settled = True
            return None
        (upload,) = await self.api.wait_processed(name, [str(reply.expect()["id"])], _walk.PROCESSING_SECONDS)
        self.settled = True
        return None if upload.reason is None else f"failed: {upload.reason}"
