# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Client of Open WebUI's admin API; every answer is checked to be JSON, because unknown paths answer 200 with a page."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._http import Http, Reply, ServiceError

_POLL_SECONDS = 0.3


class SignInError(ServiceError):
    """The administrator could not be signed in."""


class OpenWebUI:
    """One Open WebUI process. The sign-in happens once, at the first call that needs it: sign-ins are rate-limited."""

    def __init__(self, http: Http, url: str, email: str, password: str) -> None:
        self._http = http
        self._url = url.rstrip("/")
        self._email = email
        self._password = password
        self._token: asyncio.Task[str] | None = None

    # -- without credentials -------------------------------------------------------------------------------------

    async def wait_ready(self, seconds: float) -> None:
        """Wait until the process answers requests; it says nothing about retrieval."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                reply = await self._http.request("GET", f"{self._url}/ready", timeout=10)
                if reply.ok:
                    return
                state = f"answered {reply.status}: {reply.excerpt}"
            except ServiceError as error:
                state = str(error)
            if time.monotonic() >= deadline:
                raise ServiceError(f"{self._url} was not ready within {seconds:.0f} s: {state}")
            await asyncio.sleep(1)

    async def public_config(self) -> dict[str, Any]:
        """Version, open sign-up and variant, as anyone sees them."""
        return await self._public("/api/config")

    # -- configuration -------------------------------------------------------------------------------------------

    async def embedding(self) -> dict[str, Any]:
        return await self._json("GET", "/api/v1/retrieval/embedding")

    async def update_embedding(self, form: dict[str, Any]) -> None:
        await self._json("POST", "/api/v1/retrieval/embedding/update", body=form)

    async def retrieval(self) -> dict[str, Any]:
        return await self._json("GET", "/api/v1/retrieval/config")

    async def update_retrieval(self, form: dict[str, Any]) -> None:
        await self._json("POST", "/api/v1/retrieval/config/update", body=form)

    async def admin(self) -> dict[str, Any]:
        return await self._json("GET", "/api/v1/auths/admin/config")

    async def update_admin(self, form: dict[str, Any]) -> None:
        await self._json("POST", "/api/v1/auths/admin/config", body=form)

    # -- files and knowledge -------------------------------------------------------------------------------------

    async def upload(self, name: str, content: str) -> str:
        """Store a text file and start its processing; returns its id."""
        part = {"file": (name, content.encode(), "text/plain")}
        answer = await self._json("POST", "/api/v1/files/", params={"process": "true"}, files=part)
        return _identifier(answer, "file")

    async def wait_processed(self, file_id: str, seconds: float) -> str | None:
        """Wait for the end of processing; returns None when it succeeded and the reason when it did not."""
        deadline = time.monotonic() + seconds
        while True:
            status = (await self._json("GET", f"/api/v1/files/{file_id}/process/status")).get("status")
            if status == "completed":
                return None
            if status == "failed":
                data = (await self._json("GET", f"/api/v1/files/{file_id}")).get("data") or {}
                return str(data.get("error") or "no reason was given, which is how an embedding timeout looks")
            if time.monotonic() >= deadline:
                return f"still {status} after {seconds:.0f} s"
            await asyncio.sleep(_POLL_SECONDS)

    async def create_knowledge(self, name: str, description: str) -> str:
        answer = await self._json("POST", "/api/v1/knowledge/create", body={"name": name, "description": description})
        return _identifier(answer, "knowledge base")

    async def add_file(self, knowledge_id: str, file_id: str) -> None:
        await self._json("POST", f"/api/v1/knowledge/{knowledge_id}/file/add", body={"file_id": file_id})

    async def find_files(self, prefix: str) -> list[str]:
        """The ids of the files whose name begins like this."""
        params = {"filename": f"{prefix}*", "content": "false"}
        reply = await self._send("GET", "/api/v1/files/search", params=params)
        if reply.status == 404:
            return []
        return [str(item["id"]) for item in reply.expect() if str(item.get("filename", "")).startswith(prefix)]

    async def find_knowledge(self, name: str) -> list[str]:
        """The ids of the knowledge bases with exactly this name."""
        answer = await self._json("GET", "/api/v1/knowledge/search", params={"query": name})
        return [str(item["id"]) for item in answer.get("items") or [] if item.get("name") == name]

    async def delete_file(self, file_id: str) -> None:
        await self._delete(f"/api/v1/files/{file_id}")

    async def delete_knowledge(self, knowledge_id: str) -> None:
        await self._delete(f"/api/v1/knowledge/{knowledge_id}/delete")

    # -- retrieval -----------------------------------------------------------------------------------------------

    async def query_collection(self, collection: str, query: str, hybrid: bool) -> Hits:
        """The way a chat searches a knowledge base."""
        body = {"collection_names": [collection], "query": query, "hybrid": hybrid}
        return Hits.parse(await self._send("POST", "/api/v1/retrieval/query/collection", body=body))

    async def query_vector(self, collection: str, query: str, k: int) -> Hits:
        """Plain vector search: only this endpoint heeds ``hybrid: false``."""
        body = {"collection_name": collection, "query": query, "k": k, "hybrid": False}
        return Hits.parse(await self._send("POST", "/api/v1/retrieval/query/doc", body=body))

    # -- requests ------------------------------------------------------------------------------------------------

    async def sign_in(self) -> str:
        """The administrator's token."""
        if self._token is None:
            self._token = asyncio.ensure_future(self._sign_in())
        # A shield: the check that happened to ask first may be cancelled while others wait for the same token.
        return await asyncio.shield(self._token)

    async def _sign_in(self) -> str:
        body = {"email": self._email, "password": self._password}
        reply = await self._http.request("POST", f"{self._url}/api/v1/auths/signin", body=body)
        reasons = {
            400: "the e-mail address or the password is wrong",
            403: "password sign-in is switched off (ENABLE_PASSWORD_AUTH)",
            429: "too many sign-ins within three minutes; wait and run again",
        }
        if not reply.ok:
            reason = reasons.get(reply.status, reply.excerpt)
            raise SignInError(f"{reply.resource} answered {reply.status} for {self._email}: {reason}")
        answer = reply.json()
        token = answer.get("token") if isinstance(answer, dict) else None
        if not token:
            step = answer.get("next_step") if isinstance(answer, dict) else None
            raise SignInError(
                f"{reply.resource} gave no token for {self._email}: multi-factor sign-in asks for the step {step!r}"
            )
        if answer.get("role") != "admin":
            raise SignInError(f"{self._email} is signed in as {answer.get('role')!r}, not as an administrator")
        return str(token)

    async def _public(self, path: str) -> dict[str, Any]:
        return _object((await self._http.request("GET", self._url + path)), path)

    async def _send(self, method: str, path: str, **arguments: Any) -> Reply:
        return await self._http.request(method, self._url + path, key=await self.sign_in(), **arguments)

    async def _json(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        return _object(await self._send(method, path, **arguments), path)

    async def _delete(self, path: str) -> None:
        reply = await self._send("DELETE", path)
        if not reply.ok and "could not find" not in reply.excerpt:
            reply.expect()


class Hits:
    """The answer of a query: best first, as Open WebUI ordered it."""

    def __init__(self, documents: list[str], scores: list[float | None], metadata: list[dict[str, Any]]) -> None:
        self.documents = documents
        self.scores = scores
        self.metadata = metadata

    @classmethod
    def parse(cls, reply: Reply) -> Hits:
        answer = reply.expect()
        if answer is None:
            raise ServiceError(f"{reply.resource} answered null: the vector store's search failed")
        try:
            rows = [list((answer.get(name) or [[]])[0]) for name in ("documents", "distances", "metadatas")]
        except (AttributeError, IndexError, TypeError):
            raise ServiceError(f"{reply.resource} answered in an unknown shape: {reply.excerpt}") from None
        return cls(*rows)


def _object(reply: Reply, path: str) -> dict[str, Any]:
    answer = reply.expect()
    if not isinstance(answer, dict):
        raise ServiceError(f"{reply.resource} answered {path} without an object: {reply.excerpt}")
    return answer


def _identifier(answer: dict[str, Any], what: str) -> str:
    if not answer.get("id"):
        raise ServiceError(f"Open WebUI made no {what}")
    return str(answer["id"])
