# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Client of Open WebUI's admin API; every answer is checked to be JSON, because unknown paths answer 200 with a page."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._http import Http, Reply, ServiceError

# Each look at the state of what is processed is a request: the longer it takes, the more seldom.
_FIRST_POLL_SECONDS = 0.5
_LONGEST_POLL_SECONDS = 30.0
_DONE = ("completed", "failed")
# A search waits for the embedder, and for the reranker until its timeout; how long these take has findings of its own.
_SEARCH_SECONDS = 90.0


@dataclass(frozen=True)
class Upload:
    """A file in Open WebUI: the state of its processing, why it failed, and the text that was read from it."""

    id: str
    name: str
    status: str
    error: str
    content: str

    @property
    def reason(self) -> str | None:
        """Why its processing did not succeed; None when it did."""
        if self.status == "completed":
            return None
        if self.status == "failed":
            return self.error or "no reason was given, which is how an embedding timeout looks"
        return f"still {self.status} when the patience ended"


class SignInError(ServiceError):
    """The administrator could not be signed in."""


class OpenWebUI:
    """One Open WebUI process. The sign-in happens once, at the first call that needs it: sign-ins are rate-limited."""

    def __init__(self, http: Http, url: str, email: str, password: str, token: str | None = None) -> None:
        self._given = token
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

    async def upload(self, name: str, content: bytes, mime: str, knowledge_id: str | None = None) -> str:
        """Store a file and start its processing, which ends in the knowledge base if there is one; returns its id."""
        parts: dict[str, tuple[str | None, bytes, str]] = {"file": (name, content, mime)}
        if knowledge_id:
            parts["metadata"] = (None, json.dumps({"knowledge_id": knowledge_id}).encode(), "application/json")
        answer = await self._json("POST", "/api/v1/files/", params={"process": "true"}, files=parts)
        return _identifier(answer, "file")

    async def try_upload(self, name: str, content: bytes, process: bool) -> Reply:
        """The same for a file that has to be refused; without processing only its size is judged."""
        parts = {"file": (name, content, "text/plain")}
        return await self._send("POST", "/api/v1/files/", params={"process": str(process).lower()}, files=parts)

    async def uploads(self, prefix: str, content: bool = False) -> list[Upload]:
        """The files whose name begins like this."""
        params = {"filename": f"{prefix}*", "content": str(content).lower()}
        reply = await self._send("GET", "/api/v1/files/search", params=params)
        if reply.status == 404:
            return []
        return [_upload(item) for item in reply.expect() if str(item.get("filename", "")).startswith(prefix)]

    async def wait_processed(self, prefix: str, ids: Sequence[str], seconds: float) -> list[Upload]:
        """Wait until these files, whose names begin alike, are processed; in the order of the ids."""
        deadline, pause = time.monotonic() + seconds, _FIRST_POLL_SECONDS
        while True:
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_POLL_SECONDS)
            known = {upload.id: upload for upload in await self.uploads(prefix, content=True)}
            found = [known.get(file_id) or Upload(file_id, "", "unknown", "", "") for file_id in ids]
            if all(upload.status in _DONE for upload in found) or time.monotonic() >= deadline:
                return found

    async def create_knowledge(self, name: str, description: str) -> str:
        answer = await self._json("POST", "/api/v1/knowledge/create", body={"name": name, "description": description})
        return _identifier(answer, "knowledge base")

    async def wait_linked(self, knowledge_id: str, ids: Sequence[str], seconds: float) -> list[str]:
        """Wait until the knowledge base lists these files; returns those that it does not."""
        deadline, pause = time.monotonic() + seconds, _FIRST_POLL_SECONDS
        while True:
            params = {"limit": str(len(ids) + 1)}
            answer = await self._json("GET", f"/api/v1/knowledge/{knowledge_id}/files", params=params)
            listed = {item.get("id") for item in answer.get("items") or []}
            missing = [file_id for file_id in ids if file_id not in listed]
            if not missing or time.monotonic() >= deadline:
                return missing
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_POLL_SECONDS)

    async def share_knowledge(self, name: str, description: str, user_id: str) -> str:
        """A knowledge base that one user may read."""
        grant = {"principal_type": "user", "principal_id": user_id, "permission": "read"}
        body = {"name": name, "description": description, "access_grants": [grant]}
        return _identifier(await self._json("POST", "/api/v1/knowledge/create", body=body), "knowledge base")

    async def find_knowledge(self, name: str) -> list[str]:
        """The ids of the knowledge bases with exactly this name."""
        answer = await self._json("GET", "/api/v1/knowledge/search", params={"query": name})
        return [str(item["id"]) for item in answer.get("items") or [] if item.get("name") == name]

    async def delete_files_of(self, knowledge_id: str, ids: Sequence[str]) -> None:
        """Delete those of the files that are in the knowledge base, in one request; older versions cannot."""
        body = {"file_ids": list(ids), "dir_ids": []}
        await self._send("POST", f"/api/v1/knowledge/{knowledge_id}/sync/cleanup", body=body)

    async def delete_file(self, file_id: str) -> None:
        await self._delete(f"/api/v1/files/{file_id}")

    async def delete_knowledge(self, knowledge_id: str) -> None:
        await self._delete(f"/api/v1/knowledge/{knowledge_id}/delete")

    # -- users and memories --------------------------------------------------------------------------------------

    async def add_user(self, name: str, email: str, password: str) -> tuple[str, OpenWebUI]:
        """Make a user who is no administrator; returns the id and a client that acts as this user."""
        body = {"name": name, "email": email, "password": password, "role": "user"}
        answer = await self._json("POST", "/api/v1/auths/add", body=body)
        token = answer.get("token")
        if not token:
            raise ServiceError(f"Open WebUI gave the new user {email} no token")
        return _identifier(answer, "user"), OpenWebUI(self._http, self._url, email, password, str(token))

    async def find_users(self, name: str) -> list[str]:
        """The ids of the users with exactly this name."""
        answer = await self._json("GET", "/api/v1/users/search", params={"query": name})
        return [str(item["id"]) for item in answer.get("users") or [] if item.get("name") == name]

    async def delete_user(self, user_id: str) -> None:
        await self._delete(f"/api/v1/users/{user_id}")

    async def add_memory(self, content: str) -> tuple[str, str] | None:
        """Ids of a new memory and of its user; None when memories are switched off or not permitted."""
        reply = await self._send("POST", "/api/v1/memories/add", body={"content": content})
        if reply.status in (403, 404):
            return None
        answer = _object(reply, "/api/v1/memories/add")
        return _identifier(answer, "memory"), str(answer.get("user_id"))

    async def find_memories(self, text: str) -> list[str]:
        """The ids of the memories that begin with a text; none when memories are switched off."""
        reply = await self._send("POST", "/api/v1/memories/search", body={"query": text, "limit": 100})
        if reply.status in (403, 404, 405):
            return []
        return [str(item["id"]) for item in reply.expect() if str(item.get("content", "")).startswith(text)]

    async def query_memory(self, text: str, k: int) -> Hits:
        return Hits.parse(await self._send("POST", "/api/v1/memories/query", body={"content": text, "k": k}))

    async def delete_memory(self, memory_id: str) -> None:
        await self._delete(f"/api/v1/memories/{memory_id}")

    # -- retrieval -----------------------------------------------------------------------------------------------

    async def query_collection(self, collection: str, query: str, hybrid: bool, k: int | None = None) -> Hits:
        """The way a chat searches a knowledge base; with as many candidates as it is set to, unless told."""
        body: dict[str, Any] = {"collection_names": [collection], "query": query, "hybrid": hybrid}
        if k is not None:
            body["k"] = k
        return Hits.parse(
            await self._send("POST", "/api/v1/retrieval/query/collection", body=body, timeout=_SEARCH_SECONDS)
        )

    async def attempt(self, method: str, path: str, body: Any = None) -> Reply:
        """A request that may be refused."""
        return await self._send(method, path, body=body)

    async def query_vector(self, collection: str, query: str, k: int) -> Hits:
        """Plain vector search: only this endpoint heeds ``hybrid: false``."""
        body = {"collection_name": collection, "query": query, "k": k, "hybrid": False}
        return Hits.parse(await self._send("POST", "/api/v1/retrieval/query/doc", body=body, timeout=_SEARCH_SECONDS))

    # -- requests ------------------------------------------------------------------------------------------------

    async def sign_in(self) -> str:
        """The token: the administrator's, or the one that was given."""
        if self._given is not None:
            return self._given
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


def _upload(item: dict[str, Any]) -> Upload:
    data = item.get("data") or {}
    texts = (str(data.get(name) or "") for name in ("status", "error", "content"))
    return Upload(str(item["id"]), str(item.get("filename", "")), *texts)


def _identifier(answer: dict[str, Any], what: str) -> str:
    if not answer.get("id"):
        raise ServiceError(f"Open WebUI made no {what}")
    return str(answer["id"])
