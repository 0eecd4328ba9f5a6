# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user who is no administrator finds, and that nothing private of another user is among it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._checks import _context, _faults, _probes, _walk
from ansible_collections.plumbline.rag.plugins.module_utils._http import ServiceError
from ansible_collections.plumbline.rag.plugins.module_utils._open_webui import OpenWebUI

_PRIVATE, _SHARED, _OWN = _probes.PASSAGES
_ABOUT_PRIVATE, _ABOUT_SHARED, _ABOUT_OWN = _probes.QUESTIONS
_LINKING_SECONDS = 30.0


async def users(context: _context.Context, before: _context.Before) -> _context.Outcome:
    """Make a user, a private and a shared knowledge base, and a file of the user's; ask for all; remove everything."""
    impossible = _walk.no_embedding(before)
    if impossible is not None:
        return impossible
    walk = _Users(context, before)
    return await walk.run(walk.steps)


class _Users(_walk.Walk):
    """An administrator and a user, step by step."""

    async def steps(self) -> None:
        try:
            user_id, user = await self._user()
            private, private_file = await self._fill("private", _PRIVATE)
            shared, _file = await self._fill("shared", _SHARED, user_id)
            own_file = await self._put(user, "own", _OWN)
        except ServiceError as error:
            self.fail(_faults.USER, str(error), _context.OPEN_WEBUI)
        hybrid = bool(self.plan["open_webui"].get("hybrid"))
        await self._finds(user, "a knowledge base that is shared with them", shared, _ABOUT_SHARED, _SHARED, hybrid)
        await self._finds(user, "a file of their own", f"file-{own_file}", _ABOUT_OWN, _OWN, hybrid)
        await self._keeps_private(user, private, private_file, shared)

    async def remove(self) -> None:
        await super().remove()
        await self.remove_users()

    async def _user(self) -> tuple[str, OpenWebUI]:
        # Upper and lower case, a digit and another character, as the strictest rule of Open WebUI asks.
        password = f"Aa1-{secrets.token_urlsafe(24)}"
        email = f"{_probes.NAME}-{secrets.token_hex(4)}@plumbline.invalid"
        return await self.api.add_user(_probes.NAME, email, password)

    async def _fill(self, name: str, text: str, reader: str | None = None) -> tuple[str, str]:
        """A knowledge base of the administrator's with one file; ids of both."""
        if reader is None:
            knowledge = await self.api.create_knowledge(_probes.NAME, _probes.DESCRIPTION)
        else:
            knowledge = await self.api.share_knowledge(_probes.NAME, _probes.DESCRIPTION, reader)
        self.ours.append(knowledge)
        return knowledge, await self._put(self.api, name, text, knowledge)

    async def _put(self, api: OpenWebUI, name: str, text: str, knowledge: str | None = None) -> str:
        self.settled = False
        file_name = f"{_probes.NAME}-{name}.txt"
        file_id = await api.upload(file_name, _probes.file_content(text).encode(), "text/plain", knowledge)
        self.ours.append(f"file-{file_id}")
        (upload,) = await api.wait_processed(file_name, [file_id], _walk.PROCESSING_SECONDS)
        self.settled = upload.reason is None
        if upload.reason is not None:
            raise ServiceError(f"{file_name} could not be processed: {upload.reason}")
        if knowledge and await api.wait_linked(knowledge, [file_id], _LINKING_SECONDS):
            raise ServiceError(f"{file_name} is not in the knowledge base that it was sent to")
        return file_id

    async def _finds(
        self, user: OpenWebUI, what: str, collection: str, question: str, answer: str, hybrid: bool
    ) -> None:
        try:
            documents = (await user.query_collection(collection, question, hybrid)).documents
            problem = (
                ""
                if _holds(documents, answer)
                else f"returned {len(documents)} passages, and not the one that answers it"
            )
        except ServiceError as error:
            problem = f"failed: {error}"
        self.outcome.measurements[f"finds {what}"] = not problem
        if problem:
            message = f"As a user who is no administrator, a search in {what} {problem}."
            self.found(_faults.USER, message, _context.OPEN_WEBUI)

    async def _keeps_private(self, user: OpenWebUI, knowledge: str, file_id: str, shared: str) -> None:
        """Each request must be refused, or answered without the administrator's passage."""
        query = {"query": _ABOUT_PRIVATE, "k": len(_probes.PASSAGES)}
        collection, doc = "/api/v1/retrieval/query/collection", "/api/v1/retrieval/query/doc"
        attempts: dict[str, tuple[str, str, Any]] = {
            "a search in it": ("POST", collection, {**query, "collection_names": [knowledge]}),
            "a search in it and a shared one": ("POST", collection, {**query, "collection_names": [shared, knowledge]}),
            "a search in it by its name in capitals": (
                "POST",
                collection,
                {**query, "collection_names": [knowledge.upper()]},
            ),
            "a vector search in it": ("POST", doc, {**query, "collection_name": knowledge, "hybrid": False}),
            "a search in its file": ("POST", collection, {**query, "collection_names": [f"file-{file_id}"]}),
            "its file": ("GET", f"/api/v1/files/{file_id}", None),
            "the text of its file": ("GET", f"/api/v1/files/{file_id}/data/content", None),
            "its file as it was uploaded": ("GET", f"/api/v1/files/{file_id}/content", None),
            "its list of files": ("GET", f"/api/v1/knowledge/{knowledge}", None),
        }
        measured: dict[str, int] = {}
        self.outcome.measurements["private"] = measured
        for name, (method, path, body) in attempts.items():
            try:
                reply = await user.attempt(method, path, body)
            except ServiceError as error:
                self.outcome.skipped.append(f"{name}: {error}")
                continue
            measured[name] = reply.status
            text = reply.body.decode("utf-8", "replace")
            if reply.ok and (_holds([text.replace("\\n", " ")], _PRIVATE) or f"{_probes.NAME}-private" in text):
                message = (
                    f"Of the administrator's private knowledge base, {name} gave a user who has no right to it what it "
                    f"holds: {method} {path.partition('?')[0]} answered {reply.status}."
                )
                self.found(_faults.LEAK, message, _context.OPEN_WEBUI)


def _holds(texts: Sequence[str], passage: str) -> bool:
    wanted = " ".join(passage.split())
    return any(wanted in " ".join(text.split()) for text in texts)
