# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole installation behind httpx.MockTransport: engine, proxy, reranker and Open WebUI, each open to faults.

The shapes of the answers are those that Open WebUI 0.12.4, LiteLLM 1.106.12 and the bundled engine gave when asked.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import hashlib
import json
import math
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import httpx

from ansible_collections.plumbline.rag.plugins.module_utils import _evaluation, _pgvector, _vectors
from ansible_collections.plumbline.rag.plugins.module_utils._checks import _context, _run
from ansible_collections.plumbline.rag.plugins.module_utils._docker import Container
from ansible_collections.plumbline.rag.plugins.module_utils._http import Http, ServiceError
from ansible_collections.plumbline.rag.plugins.module_utils._open_webui import OpenWebUI

DIMENSIONS = 64
MODEL = "toy/bag-of-words"
RERANK_MODEL = "toy/overlap"
SECRETS = {
    "embedder_api_key": "canary-embedder",
    "reranker_api_key": "canary-reranker",
    "litellm_master_key": "sk-canary-litellm",
    "open_webui_admin_password": "canary-password",
    "postgres_password": "canary-postgres",
}
SETTINGS: dict[str, Any] = {
    "embedding": {
        "RAG_EMBEDDING_ENGINE": "openai",
        "RAG_EMBEDDING_MODEL": MODEL,
        "RAG_EMBEDDING_BATCH_SIZE": 16,
        "ENABLE_ASYNC_EMBEDDING": True,
        "RAG_EMBEDDING_CONCURRENT_REQUESTS": 4,
        "openai_config": {"url": "http://rag-litellm:4000/v1"},
    },
    "retrieval": {
        "TOP_K": 20,
        "TOP_K_RERANKER": 5,
        "ENABLE_RAG_HYBRID_SEARCH": True,
        "RAG_RERANKING_MODEL": RERANK_MODEL,
        "RAG_EXTERNAL_RERANKER_URL": "http://rag-litellm:4000/v1/rerank",
        "RAG_EXTERNAL_RERANKER_TIMEOUT": "30",
    },
    "secret_fields": {
        "openai_config.key": "litellm_master_key",
        "RAG_EXTERNAL_RERANKER_API_KEY": "litellm_master_key",
    },
}
PLAN: dict[str, Any] = {
    "host": "box",
    "depth": "standard",
    "eval_set": None,
    "embedder": {
        "engine": "bundled",
        "model": MODEL,
        "served_name": MODEL,
        "dimensions": DIMENSIONS,
        "normalized": True,
        "max_batch": 32,
        "max_input_tokens": 512,
        "truncates": False,
        "languages": ["en", "de"],
        "query_prefix": "query: ",
        "document_prefix": "passage: ",
        "base_url": "http://rag-embedder:8000/v1",
        "api_key_secret": "embedder_api_key",
        "container": "rag-embedder",
        "fixtures": [],
        "tolerance": 0.001,
    },
    "reranker": {
        "engine": "bundled",
        "model": RERANK_MODEL,
        "served_name": RERANK_MODEL,
        "url": "http://rag-reranker:8000/v1/rerank",
        "api_key_secret": "reranker_api_key",
        "container": "rag-reranker",
        "kind": "cosine",
        "max_input_tokens": 512,
        "truncates": False,
        "languages": ["multilingual"],
        "score_range": [-1.0, 1.0],
    },
    "proxy": {
        "base_url": "http://rag-litellm:4000/v1",
        "rerank_url": "http://rag-litellm:4000/v1/rerank",
        "api_key_secret": "litellm_master_key",
        "container": "rag-litellm",
        "version": "1.106.12",
        "floor": "1.94.0",
        "embedding_model": MODEL,
        "rerank_model": RERANK_MODEL,
    },
    "open_webui": {
        "url": "http://rag-open-webui:8080",
        "container": "rag-open-webui",
        "version": "0.12.4",
        "floor": "0.11.1",
        "variant": "slim",
        "admin_email": "admin@example.test",
        "admin_password_secret": "open_webui_admin_password",
        "embedding_base_url": "http://rag-litellm:4000/v1",
        "embedding_model": MODEL,
        "rerank_url": "http://rag-litellm:4000/v1/rerank",
        "rerank_model": RERANK_MODEL,
        "rerank_key_secret": "litellm_master_key",
        "hybrid": True,
        "top_k": 20,
        "top_k_reranker": 5,
        "config_owner": "inventory",
        "env": {"RAG_EMBEDDING_QUERY_PREFIX": "query: ", "RAG_EMBEDDING_CONTENT_PREFIX": "passage: "},
        "settings": SETTINGS,
    },
    "vector_store": {
        "kind": "pgvector",
        "host": "rag-postgres",
        "port": 5432,
        "user": "open_webui",
        "database": "open_webui",
        "password_secret": "postgres_password",
        "container": "rag-postgres",
        "table": "document_chunk",
        "dimensions": DIMENSIONS,
        "pgvector_floor": "0.8.0",
    },
}
EVALUATION: dict[str, Any] = {
    "questions": [
        {"text": "when is the red kite seen", "language": "en", "answers": ["kite"]},
        {"text": "how is the blue jar fired", "language": "en", "answers": ["jar"]},
        {"text": "wann blüht der alte Flieder", "language": "de", "answers": ["flieder"]},
        {"text": "wie wird der kleine Kahn geteert", "language": "de", "answers": ["kahn"]},
    ],
    "passages": {
        "kite": "the red kite is seen in spring",
        "kite-2": "red feathers of a bird",
        "kite-3": "a bird nests in tall trees",
        "jar": "the blue jar is fired twice",
        "jar-2": "blue glaze has cobalt",
        "jar-3": "clay comes out of pits",
        "flieder": "der alte Flieder blüht im Mai",
        "flieder-2": "alte Hecken schneidet man spät",
        "flieder-3": "im Garten stehen Bänke",
        "kahn": "der kleine Kahn wird innen geteert",
        "kahn-2": "kleine Boote haben Ruder",
        "kahn-3": "am Ufer liegen Netze",
    },
}
Rows = list[list[float]]


def unit(vector: Iterable[float]) -> list[float]:
    numbers = list(vector)
    length = _vectors.norm(numbers)
    return [number / length for number in numbers]


def word_vector(word: str) -> list[float]:
    raw = b"".join(hashlib.sha256(f"{word}{part}".encode()).digest() for part in range(DIMENSIONS // 32))
    return [(byte - 127.5) / 127.5 for byte in raw]


def toy(text: str) -> list[float]:
    """A text as the sum of its words: similar texts share words, and a prefix is a word like others."""
    words = [word_vector(word) for word in re.findall(r"\S+", text) or [""]]
    return unit(map(math.fsum, zip(*words)))


class Stack:
    """A healthy installation; tests change its attributes to break it."""

    def __init__(self) -> None:
        self.plan = copy.deepcopy(PLAN)
        self.embed: Callable[[str, list[str]], Rows] = lambda _hop, texts: [toy(text) for text in texts]
        self.embedding_answer: Callable[[str, dict[str, Any], dict[str, Any]], Any] = lambda _hop, _body, answer: answer
        self.rerank_answer: Callable[[str, dict[str, Any]], Any] = lambda _hop, answer: answer
        self.dead: set[str] = set()  # hosts that nothing answers at
        self.open_hops: set[str] = set()  # answer without a key
        self.replies: dict[tuple[str, str], httpx.Response] = {}  # (method, end of the path) -> answer
        self.any_model = False
        self.version = "0.12.4"
        self.litellm_version = "1.106.12"
        self.features = {"slim": True}
        self.public: dict[str, Any] = {}
        self.signin: dict[str, Any] = {"token": "a-token", "role": "admin"}
        self.content_prefix, self.query_prefix = "passage: ", "query: "
        self.noted_model = MODEL
        self.process_error: str | None = None
        self.search_order: Callable[[list[Any]], list[Any]] = lambda hits: hits
        self.chat_scores: Callable[[list[float]], list[float | None]] = list
        embedding, retrieval = copy.deepcopy(SETTINGS["embedding"]), copy.deepcopy(SETTINGS["retrieval"])
        embedding["openai_config"]["key"] = SECRETS["litellm_master_key"]
        retrieval["RAG_EXTERNAL_RERANKER_API_KEY"] = SECRETS["litellm_master_key"]
        self.stored: dict[str, dict[str, Any]] = {
            "embedding": embedding,
            "retrieval": retrieval,
            "admin": {"ENABLE_SIGNUP": False, "ENABLE_MFA": False, "ADMIN_EMAIL": None, "WEBUI_URL": ""},
        }
        self.keep: Callable[[str, dict[str, Any]], dict[str, Any]] = lambda _form, sent: sent
        self.environment = dict(PLAN["open_webui"]["env"])
        self.files: dict[str, tuple[str, str]] = {}
        self.knowledge: dict[str, str] = {}
        self.collections: dict[str, list[_pgvector.Chunk]] = {}
        self.store: Any = Store(self)
        self.max_tokens: int | None = 512  # longer texts are refused
        self.longest_document: int | None = None
        self.refuse_empty = False
        self.most_documents = 1000  # a request with more of them is not answered in time
        self.in_flight: Counter[str] = Counter()  # requests at once, by host
        self.log = ""
        self.accepted: tuple[str, ...] = ()
        self.sent: list[tuple[str, str, Any]] = []

    # -- running -------------------------------------------------------------------------------------------------

    def run(self, budget: int = 0) -> dict[str, Any]:
        """All checks against this installation."""
        return asyncio.run(self._run(budget))

    async def _run(self, budget: int) -> dict[str, Any]:
        async with self.http(budget) as http:
            webui = self.plan["open_webui"]
            client = OpenWebUI(http, webui["url"], webui["admin_email"], SECRETS["open_webui_admin_password"])
            store = self.store if self.plan["vector_store"] else None
            entries = tuple(f"{name}={value}" for name, value in self.environment.items())
            container = Container("rag-open-webui", True, "open-webui:1", "sha256:1", (), {}, {}, entries)
            labelled = _evaluation.parse(EVALUATION)
            context = _context.Context(
                self.plan,
                SECRETS,
                http,
                {"rag-open-webui": container},
                client,
                store,
                probes=labelled,
                evaluation=labelled,
                logs=lambda _name, _lines: self.log,
            )
            return await _run.run(context, self.accepted)

    def http(self, budget: int = 0) -> Http:
        return Http(
            secrets=SECRETS.values(),
            transport=httpx.MockTransport(self._concurrently),
            budget=budget,
            connect_retries=0,
        )

    async def _concurrently(self, request: httpx.Request) -> httpx.Response:
        """Answer once all that is sent at once has arrived."""
        self.in_flight[request.url.host] += 1
        try:
            await asyncio.sleep(0)
            return self.answer(request)
        finally:
            self.in_flight[request.url.host] -= 1

    def answer(self, request: httpx.Request) -> httpx.Response:
        """One request to whichever service the host names."""
        if request.url.host in self.dead:
            raise httpx.ConnectError("connection refused")
        path, key = request.url.path, request.headers.get("authorization", "").removeprefix("Bearer ")
        is_json = "json" in request.headers.get("content-type", "")
        body = json.loads(request.content) if is_json else request.content
        self.sent.append((request.method, path, body))
        for (method, end), reply in self.replies.items():
            if request.method == method and f"{request.url.host}{path}".endswith(end):
                return reply
        service = {"rag-embedder": self._engine, "rag-litellm": self._proxy, "rag-reranker": self._reranker}
        return service.get(request.url.host, self._open_webui)(request.method, path, key, body, request)

    # -- engines and proxy ---------------------------------------------------------------------------------------

    def _engine(self, _method: str, path: str, key: str, body: Any, _request: Any) -> httpx.Response:
        if key != SECRETS["embedder_api_key"] and "engine" not in self.open_hops:
            return error(401, "Invalid API key")
        if path == "/info":
            return ok({"version": "0.1.0", "max_client_batch_size": 32})
        return self._embeddings("engine", body)

    def _reranker(self, _method: str, path: str, key: str, body: Any, _request: Any) -> httpx.Response:
        if key != SECRETS["reranker_api_key"] and "reranker" not in self.open_hops:
            return error(401, "Invalid API key")
        if path == "/info":
            return ok({"version": "0.1.0"})
        return self._rerank("reranker", body)

    def _proxy(self, _method: str, path: str, key: str, body: Any, _request: Any) -> httpx.Response:
        if key != SECRETS["litellm_master_key"] and "proxy" not in self.open_hops:
            return error(401, "Authentication Error, No api key passed in.")
        if path == "/health/readiness/details":
            return ok({"status": "healthy", "litellm_version": self.litellm_version})
        return self._rerank("proxy", body) if path.endswith("rerank") else self._embeddings("proxy", body)

    def _embeddings(self, hop: str, body: dict[str, Any]) -> httpx.Response:
        if body["model"] != MODEL and not self.any_model:
            return error(404, f"The model `{body['model']}` does not exist.")
        if body.get("encoding_format", "float") not in ("float", "base64"):
            return error(400, "encoding_format must be 'float' or 'base64'")
        tokens = [len(text.split()) + 2 for text in body["input"]]
        if self.max_tokens and max(tokens) > self.max_tokens:
            return error(400, "This model's maximum context length is exceeded.")
        rows: list[Any] = self.embed(hop, body["input"])
        if body.get("encoding_format") == "base64":
            rows = [base64.b64encode(struct.pack(f"<{len(row)}f", *row)).decode() for row in rows]
        data = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)]
        given = {"object": "list", "model": MODEL, "data": data, "usage": {"prompt_tokens": sum(tokens)}}
        answer = self.embedding_answer(hop, body, given)
        return answer if isinstance(answer, httpx.Response) else ok(answer)

    def scores(self, query: str, documents: list[str]) -> list[float]:
        return [_vectors.cosine(toy(query), toy(document)) for document in documents]

    def _rerank(self, hop: str, body: dict[str, Any]) -> httpx.Response:
        if len(body["documents"]) > self.most_documents:
            raise httpx.ReadTimeout("")
        longest = max((len(document.split()) for document in body["documents"]), default=0)
        if (self.longest_document and longest > self.longest_document) or (
            self.refuse_empty and "" in body["documents"]
        ):
            return error(400, "a document cannot be scored")
        scores = self.scores(body["query"], body["documents"])
        order = sorted(range(len(scores)), key=lambda index: -scores[index])
        results = [{"index": index, "relevance_score": scores[index]} for index in order]
        answer = self.rerank_answer(hop, {"model": RERANK_MODEL, "results": results})
        return answer if isinstance(answer, httpx.Response) else ok(answer)

    # -- Open WebUI ----------------------------------------------------------------------------------------------

    def _open_webui(self, method: str, path: str, key: str, body: Any, request: httpx.Request) -> httpx.Response:
        if path == "/ready":
            return ok({"status": True})
        if path == "/api/config":
            return ok({"version": self.version, "features": self.features, **self.public})
        if path == "/api/v1/auths/signin":
            right = body["password"] == SECRETS["open_webui_admin_password"]
            return ok(self.signin) if right else error(400, "The email or password provided is incorrect.")
        if key != "a-token":
            return error(401, "Not authenticated")
        forms = {
            "/api/v1/retrieval/embedding": "embedding",
            "/api/v1/retrieval/embedding/update": "embedding",
            "/api/v1/retrieval/config": "retrieval",
            "/api/v1/retrieval/config/update": "retrieval",
            "/api/v1/auths/admin/config": "admin",
        }
        if path in forms:
            if method == "POST":
                self.stored[forms[path]].update(self.keep(forms[path], body))
            return ok(self.stored[forms[path]])
        if path.startswith("/api/v1/files"):
            return self._files(method, path, request)
        if path.startswith("/api/v1/knowledge"):
            return self._knowledge(method, path, body)
        if path.startswith("/api/v1/retrieval/query"):
            return self._query(path, body)
        return httpx.Response(200, text="<!doctype html>")  # as Open WebUI answers unknown paths

    def _files(self, method: str, path: str, request: httpx.Request) -> httpx.Response:
        if path.endswith("/search"):
            start = request.url.params["filename"].rstrip("*")
            found = [{"id": i, "filename": name} for i, (name, _text) in self.files.items() if name.startswith(start)]
            return ok(found) if found else error(404, "No files found matching the pattern.")
        file_id = path.removeprefix("/api/v1/files/").split("/")[0]
        if method == "DELETE":
            del self.files[file_id]
            self.collections.pop(f"file-{file_id}", None)
            return ok({"message": "File deleted successfully"})
        if method == "POST":
            return self._upload(request)
        state = "failed" if self.process_error else "completed"
        return ok({"status": state} if path.endswith("status") else {"data": {"error": self.process_error}})

    def _upload(self, request: httpx.Request) -> httpx.Response:
        part = request.content.decode().replace("\r\n", "\n")
        found = re.search(r'filename="([^"]+)".*?\n\n(.*?)\n--', part, re.DOTALL)
        assert found is not None
        file_id = f"f{len(self.files)}"
        self.files[file_id] = (found[1], found[2].strip())
        if not self.process_error:
            self.collections[f"file-{file_id}"] = [self._chunk(file_id)]
        return ok({"id": file_id, "status": True})

    def _chunk(self, file_id: str) -> _pgvector.Chunk:
        name, text = self.files[file_id]
        (vector,) = self.embed("proxy", [self.content_prefix + text.replace("\n", " ")])
        noted = str({"engine": "openai", "model": self.noted_model})
        return _pgvector.Chunk(text, vector, {"name": name, "file_id": file_id, "embedding_config": noted})

    def _knowledge(self, method: str, path: str, body: Any) -> httpx.Response:
        if path.endswith("/search"):
            return ok({"items": [{"id": i, "name": name} for i, name in self.knowledge.items()]})
        if path.endswith("/create"):
            self.knowledge["kb"] = body["name"]
            self.collections["kb"] = []
            return ok({"id": "kb", "name": body["name"]})
        if method == "DELETE":
            del self.knowledge["kb"]
            self.collections.pop("kb", None)
            return ok(True)
        self.collections["kb"].append(self._chunk(body["file_id"]))
        return ok({"id": "kb"})

    def _query(self, path: str, body: dict[str, Any]) -> httpx.Response:
        chunks = self.collections["kb"]
        (query,) = self.embed("proxy", [self.query_prefix + body["query"]])
        hits = [((1 + _vectors.cosine(query, chunk.vector)) / 2, chunk) for chunk in chunks]
        if path.endswith("collection"):
            hits = list(zip(self.scores(body["query"], [chunk.text for chunk in chunks]), chunks))
        hits = self.search_order(sorted(hits, key=lambda hit: -hit[0]))
        scores: list[Any] = [score for score, _chunk in hits]
        answer = {
            "distances": [self.chat_scores(scores) if path.endswith("collection") else scores],
            "documents": [[chunk.text for _score, chunk in hits]],
            "metadatas": [[chunk.metadata for _score, chunk in hits]],
        }
        return ok(answer)


class Store:
    """The stack's vectors, as `_pgvector.Pgvector` reads them."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.description = _pgvector.Store("18.4", "0.8.5", "vector", DIMENSIONS)
        self.error: str | None = None
        self.width = DIMENSIONS
        self.empty = False

    async def describe(self) -> _pgvector.Store:
        self._check()
        return self.description

    async def chunks(self, collection: str) -> list[_pgvector.Chunk]:
        self._check()
        found = [] if self.empty else self.stack.collections.get(collection, [])
        padded = [(chunk, [*chunk.vector, *[0.0] * self.width][: self.width]) for chunk in found]
        return [_pgvector.Chunk(chunk.text, vector, chunk.metadata) for chunk, vector in padded]

    async def count(self, collections: Iterable[str]) -> int:
        self._check()
        return sum(len(self.stack.collections.get(collection, [])) for collection in collections)

    def _check(self) -> None:
        if self.error:
            raise ServiceError(self.error)


def ok(content: Any) -> httpx.Response:
    # Python writes NaN as servers do that were not asked to stay within the standard.
    return httpx.Response(200, headers={"content-type": "application/json"}, text=json.dumps(content))


def error(status: int, message: str) -> httpx.Response:
    return httpx.Response(status, json={"error": {"message": message, "code": status}})
