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
import dataclasses
import email
import functools
import hashlib
import io
import json
import math
import re
import struct
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import httpx

from ansible_collections.plumbline.rag.plugins.module_utils import _evaluation, _open_webui, _pgvector, _vectors
from ansible_collections.plumbline.rag.plugins.module_utils._checks import _context, _run
from ansible_collections.plumbline.rag.plugins.module_utils._docker import Container
from ansible_collections.plumbline.rag.plugins.module_utils._http import Http, ServiceError
from ansible_collections.plumbline.rag.plugins.module_utils._open_webui import OpenWebUI

_open_webui._FIRST_POLL_SECONDS = 0.0  # files are processed at once here
DIMENSIONS = 256
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
        "CHUNK_SIZE": 493,
        "CHUNK_OVERLAP": 100,
        "TEXT_SPLITTER": "",
        "CONTENT_EXTRACTION_ENGINE": "",
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
    "images": {"rag-open-webui": "open-webui:1"},
    "embedder": {
        "engine": "bundled",
        "model": MODEL,
        "served_name": MODEL,
        "revision": None,
        "pooling": "mean",
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


@functools.lru_cache(None)
def word_vector(word: str) -> tuple[float, ...]:
    raw = b"".join(hashlib.sha256(f"{word}{part}".encode()).digest() for part in range(DIMENSIONS // 32))
    # Short words say little, except in Chinese and Japanese, where each character is a word.
    weight = 0.3 if len(word) < 4 and word.isascii() else 1.0
    return tuple(weight * (byte - 127.5) / 127.5 for byte in raw)


@functools.lru_cache(None)
def _toy(text: str) -> tuple[float, ...]:
    words = [word_vector(word) for word in re.findall(r"[\u3040-\u9fff]|[^\s\u3040-\u9fff]+", text) or [""]]
    return tuple(unit(map(math.fsum, zip(*words))))


def toy(text: str) -> list[float]:
    """A text as the sum of its words: similar texts share words, and a prefix is a word like others."""
    return list(_toy(text))


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
        self.image, self.named_id = "open-webui:1", "sha256:1"
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
        retrieval.update(ENABLE_MARKDOWN_HEADER_TEXT_SPLITTER=True, CHUNK_MIN_SIZE_TARGET=0, FILE_MAX_SIZE=None)
        self.stored: dict[str, dict[str, Any]] = {
            "embedding": embedding,
            "retrieval": retrieval,
            "admin": {"ENABLE_SIGNUP": False, "ENABLE_MFA": False, "ADMIN_EMAIL": None, "WEBUI_URL": ""},
        }
        self.keep: Callable[[str, dict[str, Any]], dict[str, Any]] = lambda _form, sent: sent
        self.environment = dict(PLAN["open_webui"]["env"])
        self.files: dict[str, tuple[str, str]] = {}
        self.numbered = 0
        self.refusing = ""  # kind of file that may not be uploaded
        self.failing: dict[str, str] = {}  # kind of file -> why it cannot be read
        self.failed: dict[str, str] = {}  # file -> reason
        self.owners: dict[str, str] = {}  # file -> token of who uploaded it
        self.extract: Callable[[str, str], str] = lambda _name, text: text
        self.split: Callable[[str, list[str]], list[str]] = lambda _name, pieces: pieces
        self.link = True  # files get into the knowledge base that they are sent to
        self.knowledge: dict[str, str] = {}
        self.readers: dict[str, str] = {}  # knowledge base -> user
        self.users: dict[str, str] = {}
        self.memories: dict[str, str] = {}
        self.memory_prefixes: tuple[str, str] | None = None  # those of files, unless set
        self.memories_on = True
        self.open_to_all = False
        self.empty_is_fine = self.too_large_is_fine = False
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
            container = Container("rag-open-webui", True, self.image, "sha256:1", (), {}, {}, entries, self.named_id)
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
        if not body["documents"]:
            return error(400, "documents must not be empty")
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
        if key != "a-token" and key not in self.users:
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
            return self._files(method, path, key, request)
        if path.startswith("/api/v1/knowledge"):
            return self._knowledge(method, path, key, body)
        if path.startswith("/api/v1/retrieval/query"):
            return self._query(path, key, body)
        if path.startswith("/api/v1/memories"):
            return self._memories(method, path, body)
        if path == "/api/v1/auths/add":
            self.users["u1"] = body["name"]
            return ok({"id": "u1", "token": "u1", "role": body["role"]})
        if path == "/api/v1/users/search":
            return ok({"users": [{"id": i, "name": name} for i, name in self.users.items()]})
        if path.startswith("/api/v1/users/"):
            del self.users[path.rsplit("/", 1)[1]]
            return ok(True)
        return httpx.Response(200, text="<!doctype html>")  # as Open WebUI answers unknown paths

    def _files(self, method: str, path: str, key: str, request: httpx.Request) -> httpx.Response:
        if path.endswith("/search"):
            start = request.url.params["filename"].rstrip("*")
            found = [
                self._listed(i)
                for i, (name, _text) in self.files.items()
                if name.startswith(start) and self._may(key, i)
            ]
            return ok(found) if found else error(404, "No files found matching the pattern.")
        if method == "POST":
            return self._upload(key, request)
        file_id = path.removeprefix("/api/v1/files/").split("/")[0]
        if not self._may(key, file_id):
            return error(404, "We could not find what you're looking for :/")
        if method == "DELETE":
            self._forget(file_id)
            return ok({"message": "File deleted successfully"})
        return ok(self._listed(file_id))

    def _may(self, key: str, file_id: str) -> bool:
        return key == "a-token" or self.owners.get(file_id) == key or self.open_to_all

    def _listed(self, file_id: str) -> dict[str, Any]:
        name, text = self.files[file_id]
        reason = self.process_error or self.failed.get(file_id)
        data = {"status": "failed" if reason else "completed", "error": reason, "content": text}
        return {"id": file_id, "filename": name, "data": data}

    def _forget(self, file_id: str) -> None:
        del self.files[file_id]
        self.collections.pop(f"file-{file_id}", None)

    def _upload(self, key: str, request: httpx.Request) -> httpx.Response:
        head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode()
        parts = {
            str(part.get_param("name", header="content-disposition")): part
            for part in email.message_from_bytes(head + request.content).get_payload()
        }
        name, raw = parts["file"].get_filename(), parts["file"].get_payload(decode=True)
        if name.rsplit(".", 1)[1] == self.refusing:
            return error(400, "Error uploading file")
        limit = self.stored["retrieval"]["FILE_MAX_SIZE"]
        if limit and len(raw) > limit * 1024 * 1024 and not self.too_large_is_fine:
            return error(413, "The file is too large.")
        if not raw and not self.empty_is_fine:
            return error(400, "The content provided is empty.")
        self.numbered += 1
        file_id = f"f{self.numbered}"
        pieces = extracted(name, raw, self.stored["retrieval"]["CHUNK_SIZE"])
        text = self.extract(name, " ".join(pieces))
        self.files[file_id] = (name, text)
        self.owners[file_id] = key
        if not text.strip() and not self.empty_is_fine:
            self.failed[file_id] = "The content provided is empty."
        if name.rsplit(".", 1)[1] in self.failing:
            self.failed[file_id] = self.failing[name.rsplit(".", 1)[1]]
        if name.endswith((".pdf", ".docx")) and self.features.get("slim"):
            self.failed[file_id] = "503: This file type requires an external document extractor in slim."
        if not self.process_error and file_id not in self.failed:
            chunks = [self._chunk(file_id, piece) for piece in self.split(name, pieces)]
            self.collections[f"file-{file_id}"] = chunks
            knowledge = (
                json.loads(parts["metadata"].get_payload(decode=True))["knowledge_id"] if "metadata" in parts else None
            )
            if knowledge and self.link:
                self.collections[knowledge] += chunks
        return ok({"id": file_id, "status": True})

    def _chunk(self, file_id: str, text: str) -> _pgvector.Chunk:
        (vector,) = self.embed("proxy", [self.content_prefix + text.replace("\n", " ")])
        noted = str({"engine": "openai", "model": self.noted_model})
        name = self.files[file_id][0]
        return _pgvector.Chunk(text, vector, {"name": name, "file_id": file_id, "embedding_config": noted})

    def _knowledge(self, method: str, path: str, key: str, body: Any) -> httpx.Response:
        if path.endswith("/search"):
            return ok({"items": [{"id": i, "name": name} for i, name in self.knowledge.items()]})
        if path.endswith("/create"):
            self.numbered += 1
            knowledge = f"kb{self.numbered}"
            self.knowledge[knowledge] = body["name"]
            self.collections[knowledge] = []
            for grant in body.get("access_grants", []):
                self.readers[knowledge] = grant["principal_id"]
            return ok({"id": knowledge, "name": body["name"]})
        knowledge = path.split("/")[4]
        if key not in ("a-token", self.readers.get(knowledge)) and not self.open_to_all:
            return error(401, "You do not have permission to access this resource.")
        inside = {chunk.metadata["file_id"] for chunk in self.collections[knowledge]}
        if method == "DELETE":
            del self.knowledge[knowledge]
            self.collections.pop(knowledge, None)
            return ok(True)
        if path.endswith("/sync/cleanup"):
            for file_id in inside.intersection(body["file_ids"]):
                self._forget(file_id)
            return ok({"status": True})
        return ok({"items": [{"id": file_id, "filename": self.files[file_id][0]} for file_id in sorted(inside)]})

    def _query(self, path: str, key: str, body: dict[str, Any]) -> httpx.Response:
        asked = body.get("collection_names") or [body["collection_name"]]
        allowed = [
            name
            for name in asked
            if key in ("a-token", self.readers.get(name), self.owners.get(name.removeprefix("file-")))
            or self.open_to_all
        ]
        if len(allowed) < len(asked):
            return error(403, "You do not have permission to access this resource.")
        chunks = [chunk for name in asked for chunk in self.collections.get(name, [])]
        (query,) = self.embed("proxy", [self.query_prefix + body["query"]])
        cosines = [_vectors.cosine(query, chunk.vector) for chunk in chunks]
        scores: list[Any] = [(1 + cosine) / 2 for cosine in cosines]
        if path.endswith("collection") and self.plan["open_webui"]["hybrid"]:
            reranked = self.plan["open_webui"]["rerank_url"]
            scores = self.scores(body["query"], [str(chunk.text) for chunk in chunks]) if reranked else cosines
        hits = self.search_order(sorted(zip(scores, chunks), key=lambda hit: -hit[0]))
        hits = hits[: body.get("k") or 20]
        scores = [score for score, _chunk in hits]
        answer = {
            "distances": [self.chat_scores(scores) if path.endswith("collection") else scores],
            "documents": [[chunk.text for _score, chunk in hits]],
            "metadatas": [[chunk.metadata for _score, chunk in hits]],
        }
        return ok(answer)

    def _memories(self, method: str, path: str, body: Any) -> httpx.Response:
        if not self.memories_on:
            return error(404, "We could not find what you're looking for :/")
        document, query = self.memory_prefixes or (self.content_prefix, self.query_prefix)
        if method == "DELETE":
            memory = path.rsplit("/", 1)[1]
            del self.memories[memory]
            self.collections.pop("user-memory-a1")
            return ok(True)
        if path.endswith("/search"):
            return ok([{"id": i, "content": text} for i, text in self.memories.items() if body["query"] in text])
        if path.endswith("/add"):
            self.memories["m1"] = body["content"]
            (vector,) = self.embed("proxy", [document + body["content"]])
            self.collections["user-memory-a1"] = [_pgvector.Chunk(body["content"], vector, {"id": "m1"})]
            return ok({"id": "m1", "user_id": "a1", "content": body["content"]})
        (vector,) = self.embed("proxy", [query + body["content"]])
        hits = [((1 + _vectors.cosine(vector, c.vector)) / 2, c) for c in self.collections["user-memory-a1"]]
        names = {
            "documents": [c.text for _s, c in hits],
            "distances": [s for s, _c in hits],
            "metadatas": [{} for _h in hits],
        }
        return ok({name: [values] for name, values in names.items()})


def extracted(name: str, raw: bytes, size: int) -> list[str]:
    """What Open WebUI's own loaders read from our samples, in the pieces in which it is stored."""
    kind = name.rsplit(".", 1)[1]
    if kind == "pdf":
        pages = raw.decode().split("stream\n")[1::2]
        return [" ".join(re.findall(r"\((.*?)\) Tj", page)) for page in pages]
    if kind == "docx":
        document = zipfile.ZipFile(io.BytesIO(raw)).read("word/document.xml").decode()
        return [" ".join(re.findall("<w:t>(.*?)</w:t>", document))]
    text = raw.decode()
    if kind == "csv":
        head, *rows = [line.split(",") for line in text.split("\n") if line]
        return ["\n".join(f"{key}: {value}" for key, value in zip(head, row)) for row in rows]
    if kind == "md":
        return [f"#{part}".strip() for part in text.split("#") if part]
    if kind == "html":
        paragraphs, pieces = re.findall("<p>(.*?)</p>", text), [""]
        for paragraph in paragraphs:
            fits = len(pieces[-1]) + len(paragraph) < size
            pieces = [*pieces[:-1], f"{pieces[-1]}\n{paragraph}".strip()] if fits else [*pieces, paragraph]
        return pieces
    return [text.strip()]


class Store:
    """The stack's vectors, as `_pgvector.Pgvector` reads them."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.description = _pgvector.Store("18.4", "0.8.5", "vector", DIMENSIONS)
        self.error: str | None = None
        self.width = DIMENSIONS
        self.empty = False
        self.table_rows = 20000
        self.table_indexes = [_pgvector.Index("idx_document_chunk_vector", "ivfflat", "vector_cosine_ops", True)]
        self.table_recall = _pgvector.Recall(20, 20, 200, 196)
        noted = str({"engine": "openai", "model": MODEL})
        self.table_sources = [
            _pgvector.Source(noted, 19000, 40, ("kb",)),
            _pgvector.Source(None, 1000, 2, ("knowledge-bases",)),
        ]
        self.table_misfits = _pgvector.Misfits(20000, 0, 0)
        self.server = _pgvector.Connections(100, 3, 9, 1)

    async def describe(self) -> _pgvector.Store:
        self._check()
        return self.description

    async def chunks(self, collections: Iterable[str]) -> dict[str, list[_pgvector.Chunk]]:
        self._check()
        found = {name: [] if self.empty else self.stack.collections.get(name, []) for name in collections}
        return {name: [self._padded(chunk) for chunk in chunks] for name, chunks in found.items()}

    async def chunk(self, collection: str, _chunk_id: str) -> _pgvector.Chunk | None:
        self._check()
        return self._padded(self.stack.collections[collection][0])

    def _padded(self, chunk: _pgvector.Chunk) -> _pgvector.Chunk:
        return dataclasses.replace(chunk, vector=[*chunk.vector, *[0.0] * self.width][: self.width])

    async def indexes(self) -> list[_pgvector.Index]:
        self._check()
        return self.table_indexes

    async def rows(self) -> int:
        self._check()
        return self.table_rows

    async def connections(self) -> _pgvector.Connections:
        self._check()
        return self.server

    async def sources(self) -> list[_pgvector.Source]:
        self._check()
        return self.table_sources

    async def misfits(self, _rows: int, _width: int, _dimension: int) -> _pgvector.Misfits:
        self._check()
        return self.table_misfits

    async def recall(self, *_given: Any) -> _pgvector.Recall:
        self._check()
        return self.table_recall

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
