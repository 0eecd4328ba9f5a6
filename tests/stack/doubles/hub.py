"""A test double of the model hub: the routes and headers that its client uses, over files that a test gives.

What it is held to, as huggingface_hub 1.8 reads it and the public hub answers:

* ``GET /api/models/ID/revision/REV?blobs=True`` gives ``sha`` and ``siblings`` with ``rfilename``, ``size``, ``blobId`` and, of a
  file in LFS, ``lfs`` with ``sha256`` and ``size``. A gated model's is public.
* ``HEAD /ID/resolve/REV/FILE`` has ``X-Repo-Commit``; of a file in LFS it is a redirect to another path, with ``X-Linked-Etag``
  (the SHA-256) and ``X-Linked-Size``; of another one it has ``ETag`` (the id that Git gives it).
* ``GET`` of either takes ``Range: bytes=N-`` and answers it with 206.
* A model that does not exist is 401 without a token and 404 with one, an unknown revision 404, a gated one 401 without a token
  and 403 with one that has no access; ``X-Error-Code`` says which.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

LARGE = (".safetensors", ".bin", ".onnx", ".model")


@dataclasses.dataclass
class Repository:
    """A model: its files by commit, the names of commits, and whether a token is needed to read it."""

    files: dict[str, dict[str, bytes]]
    refs: dict[str, str]
    gated: bool = False


@dataclasses.dataclass
class HubDouble:
    """The hub's state: what it holds, who may read, where it breaks off, and what it was asked."""

    models: dict[str, Repository] = dataclasses.field(default_factory=dict)
    tokens: frozenset[str] = frozenset()
    members: frozenset[str] = frozenset()
    cut: dict[str, int] = dataclasses.field(default_factory=dict)
    asked: list[tuple[str, str, str | None]] = dataclasses.field(default_factory=list)
    url: str = ""

    def ranges(self, file: bytes) -> list[str | None]:
        """The ranges that were asked of a large file."""
        path = f"/blobs/{hashlib.sha256(file).hexdigest()}"
        return [asked for method, where, asked in self.asked if (method, where) == ("GET", path)]


def git_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    hub: HubDouble

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = urlsplit(self.path).path
        self.hub.asked.append((self.command, path, self.headers.get("Range")))
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        api = path.startswith("/api/models/")
        name, _word, rest = path.removeprefix("/api/models").strip("/").partition("/revision/" if api else "/resolve/")
        revision, _slash, file = (unquote(part) for part in rest.partition("/"))
        model = self.hub.models.get(unquote(name))
        commit = "" if model is None else model.refs.get(revision, revision)
        if token and token not in self.hub.tokens:
            self._refuse(401, "", "Invalid credentials in Authorization header")
        elif path.startswith("/blobs/"):
            self._send(self._blob(path.rpartition("/")[2]))
        elif model is None:
            self._refuse(404 if token else 401, "RepoNotFound" if token else "", "Repository not found")
        elif commit not in model.files:
            self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        elif api:
            self._info(unquote(name), commit, model)
        elif model.gated and token not in self.hub.members:
            self._refuse(403 if token else 401, "GatedRepo", "Access to model is restricted")
        elif file not in model.files[commit]:
            self._refuse(404, "EntryNotFound", "Entry not found")
        elif file.endswith(LARGE):
            self._redirect(model.files[commit][file], commit)
        else:
            content = model.files[commit][file]
            self._send(content, {"X-Repo-Commit": commit, "ETag": f'"{git_id(content)}"'})

    def _info(self, name: str, commit: str, model: Repository) -> None:
        sized = "blobs" in parse_qs(urlsplit(self.path).query)
        siblings: list[dict[str, Any]] = []
        for file, content in model.files[commit].items():
            entry: dict[str, Any] = {"rfilename": file}
            if sized:
                entry |= {"size": len(content), "blobId": git_id(content)}
                if file.endswith(LARGE):
                    digest = hashlib.sha256(content).hexdigest()
                    entry["lfs"] = {"sha256": digest, "size": len(content), "pointerSize": 134}
            siblings.append(entry)
        self._send(json.dumps({"id": name, "sha": commit, "siblings": siblings}).encode())

    def _redirect(self, content: bytes, commit: str) -> None:
        digest = hashlib.sha256(content).hexdigest()
        self.send_response(302)
        self.send_header("Location", f"{self.hub.url}/blobs/{digest}")
        self.send_header("X-Repo-Commit", commit)
        self.send_header("X-Linked-Etag", f'"{digest}"')
        self.send_header("X-Linked-Size", str(len(content)))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _blob(self, digest: str) -> bytes:
        contents = (c for m in self.hub.models.values() for files in m.files.values() for c in files.values())
        return next(content for content in contents if hashlib.sha256(content).hexdigest() == digest)

    def _refuse(self, status: int, code: str, message: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Message", message)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, content: bytes, headers: dict[str, str] | None = None) -> None:
        start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").partition("-")[0])
        self.send_response(206 if start else 200)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        if self.command == "HEAD":
            return
        limit = self.hub.cut.pop(hashlib.sha256(content).hexdigest(), None)
        self.wfile.write(content[start:limit])
        if limit is not None:
            self.close_connection = True


@contextmanager
def serving(hub: HubDouble) -> Iterator[HubDouble]:
    """The double at ``hub.url``, for as long as the context lasts."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("BoundHandler", (Handler,), {"hub": hub}))
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def safetensors(name: str, values: int) -> bytes:
    """A valid file of that format with one tensor of single-precision numbers, which differ from file to file."""
    header = json.dumps({name: {"dtype": "F32", "shape": [values], "data_offsets": [0, 4 * values]}}).encode()
    block = hashlib.sha512(name.encode()).digest()
    return len(header).to_bytes(8, "little") + header + (block * (4 * values // len(block) + 1))[: 4 * values]


def small_model(name: str, values: int = 300_000) -> dict[str, bytes]:
    """The files of a small embedding model in two shards, with those of other programs beside them."""
    first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    index = {"metadata": {"total_size": 8 * values}, "weight_map": {"a": first, "b": second}}
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
    ]
    documents: dict[str, Any] = {
        "config.json": {"_name_or_path": name, "model_type": "bert"},
        "tokenizer.json": {"version": "1.0"},
        "tokenizer_config.json": {},
        "modules.json": modules,
        "1_Pooling/config.json": {"pooling_mode_mean_tokens": True},
        "model.safetensors.index.json": index,
    }
    return {
        **{file: json.dumps(content).encode() for file, content in documents.items()},
        first: safetensors("a", values),
        second: safetensors("b", values),
        "README.md": b"# a model card",
        "pytorch_model.bin": b"the same weights in another format",
        "onnx/model.onnx": b"the same weights for another program",
        "openvino/openvino_model.bin": b"and for a third one",
    }
