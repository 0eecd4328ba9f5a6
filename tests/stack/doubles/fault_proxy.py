"""A test double: a proxy in front of a real service, told at run time what to do wrong.

    python3 fault_proxy.py UPSTREAM PORT

PUT /_fault with a JSON object makes it wrong from then on, GET /_fault says how often it was, DELETE /_fault ends it.
The standard library has to do: it runs inside the image of whatever service it stands in for.
"""

from __future__ import annotations

import base64
import codecs
import dataclasses
import http.client
import http.server
import json
import math
import random
import socket
import struct
import sys
import threading
from collections.abc import Callable
from typing import Any

CONTROL = "/_fault"
SIGN_IN = "/api/v1/auths/signin"
PREFIXES = ("query: ", "passage: ")
Body = dict[str, Any]
Row = list[float]


@dataclasses.dataclass(frozen=True)
class Fault:
    """What is wrong, and which requests it meets: all conditions that are given have to hold."""

    kind: str
    value: Any = None
    method: str = "POST"
    path: str = ""  # the end of the path
    source: str = ""  # address of the client
    every: int = 1  # each second one, each third one
    at_once: int = 0  # only while so many are being answered
    more_than: int = 0  # texts or documents
    longer_than: int = 0  # characters of the longest one
    empty: bool = False  # one text or document is empty
    keyed: bool = False  # only requests with a key

    def meets(self, method: str, path: str, source: str, authorised: bool, body: Any) -> bool:
        texts = texts_of(body)
        return (
            method == self.method
            and path.partition("?")[0].endswith(self.path)
            and self.source in ("", source)
            and (authorised or not self.keyed)
            and (not self.more_than or len(texts) > self.more_than)
            and (not self.longer_than or max(map(len, texts), default=0) > self.longer_than)
            and (not self.empty or "" in texts)
        )


def texts_of(body: Any) -> list[str]:
    given = (body.get("input") or body.get("documents") or []) if isinstance(body, dict) else []
    return [text for text in ([given] if isinstance(given, str) else given) if isinstance(text, str)]


# -- on the way in: what the service is asked ------------------------------------------------------------------------


def each_text(change: Callable[[str], str]) -> Callable[[Body], Body]:
    def changed(body: Body) -> Body:
        given = body.get("input")
        return {**body, "input": change(given) if isinstance(given, str) else [change(text) for text in given or []]}

    return changed


def other_prefix(change: Callable[[str], str], only: str) -> Callable[[Body], Body]:
    """The prefix of a text is changed; ``only`` names one of the two prefixes, or none for both."""

    def one(text: str) -> str:
        found = next((prefix for prefix in PREFIXES if text.startswith(prefix)), "")
        return change(found) + text.removeprefix(found) if found and only in ("", found) else text

    return each_text(one)


def as_field(only: str) -> Callable[[Body], Body]:
    def changed(body: Body) -> Body:
        bare = other_prefix(lambda _prefix: "", only)(body)
        return bare if bare == body else {**bare, "prefix": only}

    return changed


REQUESTS: dict[str, Callable[[Any], Callable[[Body], Body]]] = {
    "drop-prefix": lambda only: other_prefix(lambda _prefix: "", only or ""),
    "other-side": lambda only: other_prefix(lambda prefix: PREFIXES[prefix == PREFIXES[0]], only or ""),
    "lost-blank": lambda only: other_prefix(lambda prefix: prefix.rstrip(), only or ""),
    "quoted": lambda only: other_prefix(lambda prefix: f'"{prefix}"', only or ""),
    "literal-newline": lambda only: other_prefix(lambda prefix: f"{prefix.rstrip()}\\n", only or ""),
    "twice": lambda only: other_prefix(lambda prefix: 2 * prefix, only or ""),
    "other-string": lambda only: other_prefix(lambda _prefix: "search_document: ", only or ""),
    "field": as_field,
    "truncate": lambda length: each_text(lambda text: text[:length]),
    "other-model": lambda _value: each_text(lambda text: codecs.encode(text, "rot13")),
    "prompt": lambda prompt: each_text(lambda text: prompt + text),
    "any-model": lambda name: lambda body: {**body, "model": name},
}


# -- on the way out: what the service answers ------------------------------------------------------------------------


def each_vector(change: Callable[[Row], Row | None]) -> Callable[[Any], Any]:
    def changed(answer: Any) -> Any:
        return {**answer, "data": [{**row, "embedding": like(row["embedding"], change)} for row in answer["data"]]}

    return changed


def like(embedding: Any, change: Callable[[Row], Row | None]) -> Any:
    """A changed vector in the encoding of the given one."""
    if not isinstance(embedding, str):
        return change(embedding)
    raw = base64.b64decode(embedding)
    vector = change(list(struct.unpack(f"<{len(raw) // 4}f", raw))) or []
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def noisy(vector: Row) -> Row:
    return unit([number + random.gauss(0, 0.02) for number in vector])


def unit(moved: Row) -> Row:
    length = math.sqrt(math.fsum(number * number for number in moved))
    return [number / length for number in moved]


def vectors(change: Callable[[list[Any]], list[Any]]) -> Callable[[Any], Any]:
    """The vectors of a batch in other places, numbered as if nothing had happened."""

    def changed(answer: Any) -> Any:
        found = change([row["embedding"] for row in answer["data"]])
        rows = [{"object": "embedding", "index": place, "embedding": vector} for place, vector in enumerate(found)]
        return {**answer, "data": rows}

    return changed


def results(change: Callable[[list[Body]], Any]) -> Callable[[Any], Any]:
    return lambda answer: {**answer, "results": change(answer["results"])}


def each_score(change: Callable[[float], Any]) -> Callable[[Any], Any]:
    return results(lambda rows: [{**row, "relevance_score": change(row["relevance_score"])} for row in rows])


def leaning(rows: list[Body]) -> list[Body]:
    """Scores that grow with the number of documents."""
    return [{**row, "relevance_score": row["relevance_score"] - 0.02 * len(rows)} for row in rows]


def assigned(values: Body) -> Callable[[Any], Any]:
    return lambda answer: {**answer, **values}


def hits(change: Callable[[str, list[Any]], list[Any]]) -> Callable[[Any], Any]:
    """The lists of an answer of Open WebUI's search."""
    names = ("distances", "documents", "metadatas")
    return lambda answer: {**answer, **{name: [change(name, answer[name][0])] for name in names}}


ANSWERS: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "reorder": lambda _value: vectors(lambda rows: rows[::-1]),
    "renumber": lambda _value: lambda answer: {**answer, "data": answer["data"][::-1]},
    "drop": lambda _value: vectors(lambda rows: rows[:-1] if len(rows) > 1 else rows),
    "duplicate": lambda _value: vectors(lambda rows: [rows[0], *rows] if len(rows) > 1 else rows),
    "repeat-first": lambda _value: vectors(lambda rows: [rows[0]] * len(rows)),
    "null-vector": lambda _value: vectors(lambda rows: [None, *rows[1:]]),
    "null-number": lambda _value: each_vector(lambda vector: [None, *vector[1:]]),
    "zero": lambda _value: each_vector(lambda vector: [0.0] * len(vector)),
    "nan": lambda _value: each_vector(lambda vector: [math.nan, *vector[1:]]),
    "overflow": lambda _value: each_vector(lambda vector: [math.inf, *vector[1:]]),
    "shorter": lambda _value: each_vector(lambda vector: vector[: len(vector) // 2]),
    "longer": lambda _value: each_vector(lambda vector: [*vector, *vector]),
    "unnormalised": lambda _value: each_vector(lambda vector: [3 * number for number in vector]),
    "noise": lambda _value: each_vector(noisy),
    "mirrored": lambda _value: each_vector(lambda vector: vector[::-1]),
    "mirrored-base64": lambda _value: (
        lambda answer: (
            each_vector(lambda vector: vector[::-1])(answer)
            if isinstance(answer["data"][0]["embedding"], str)
            else answer
        )
    ),
    "batch-bound": lambda _value: (
        lambda answer: (
            each_vector(lambda vector: unit([vector[0] + 0.2, *vector[1:]]))(answer)
            if len(answer["data"]) > 1
            else answer
        )
    ),
    "bare-list": lambda _value: (
        lambda answer: [{"index": row["index"], "score": row["relevance_score"]} for row in answer["results"]]
    ),
    "score-name": lambda _value: results(
        lambda rows: [{"index": row["index"], "score": row["relevance_score"]} for row in rows]
    ),
    "text-scores": lambda _value: each_score(str),
    "null-scores": lambda _value: each_score(lambda _score: None),
    "fewer": lambda _value: results(lambda rows: rows[:-1]),
    "repeated": lambda _value: results(lambda rows: [rows[0], *rows[:-1]]),
    "equal": lambda _value: each_score(lambda _score: 0.5),
    "inverted": lambda _value: each_score(lambda score: -score),
    "logits": lambda _value: each_score(lambda score: 20 * score),
    "leaning": lambda _value: results(leaning),
    "other-reranker": lambda _value: each_score(lambda score: score / 2),
    "assign": assigned,
    "hits-reversed": lambda _value: hits(lambda _name, rows: rows[::-1]),
    "hits-unscored": lambda _value: hits(lambda name, rows: [None] * len(rows) if name == "distances" else rows),
    "hits-fused": lambda _value: hits(
        lambda name, rows: [1 / (61 + rank) for rank in range(len(rows))] if name == "distances" else rows
    ),
    "hits-none": lambda _value: hits(lambda _name, _rows: []),
}


# -- instead of an answer --------------------------------------------------------------------------------------------

PAGE = b"<!doctype html><title>A page</title>"
TRANSPORT = ("status", "html", "json", "slow", "hang", "cut")
KINDS = (*REQUESTS, *ANSWERS, *TRANSPORT)


class State:
    """The one fault that is set, and what is needed to end it at once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.fault: Fault | None = None
        self.over = threading.Event()
        self.met = self.acted = self.in_flight = 0
        self.signed_in: dict[bytes, bytes] = {}

    def set(self, fault: Fault | None) -> None:
        with self.lock:
            self.over.set()
            self.over = threading.Event()
            self.fault, self.met, self.acted = fault, 0, 0

    def take(self, *request: Any) -> Fault | None:
        """The fault, if this request meets it."""
        with self.lock:
            fault = self.fault
            if fault is None or not fault.meets(*request):
                return None
            self.met += 1
            if self.met % fault.every or self.in_flight < fault.at_once:
                return None
            self.acted += 1
            return fault


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: State
    upstream: tuple[str, int]

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == CONTROL:
            self.control(body)
            return
        with self.state.lock:
            self.state.in_flight += 1
        try:
            self.pass_on(body)
        finally:
            with self.state.lock:
                self.state.in_flight -= 1

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_OPTIONS = answer

    def control(self, body: bytes) -> None:
        if self.command == "PUT":
            fault = Fault(**json.loads(body))
            if fault.kind not in KINDS:
                self.send(400, b"no such fault")
                return
            self.state.set(fault)
        elif self.command == "DELETE":
            self.state.set(None)
        self.send_json(200, {"acted": self.state.acted})

    def pass_on(self, body: bytes) -> None:
        parsed = self.parsed(body)
        authorised = bool(self.headers.get("Authorization"))
        fault = self.state.take(self.command, self.path, self.client_address[0], authorised, parsed)
        if fault is not None and fault.kind in TRANSPORT and not self.instead(fault):
            return
        if fault is not None and fault.kind in REQUESTS and isinstance(parsed, dict):
            body = json.dumps(REQUESTS[fault.kind](fault.value)(parsed)).encode()
        status, kind, answer = self.forwarded(body)
        if fault is not None and fault.kind in ANSWERS and status == 200 and "json" in kind:
            answer = json.dumps(ANSWERS[fault.kind](fault.value)(json.loads(answer))).encode()
        if fault is not None and fault.kind == "cut":
            self.send(status, answer, kind, length=2 * len(answer) + 1)
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send(status, answer, kind)

    def instead(self, fault: Fault) -> bool:
        """Whether the service is still asked."""
        over = self.state.over
        if fault.kind == "status":
            self.send_json(fault.value, {"error": {"message": "planted by the fault proxy", "code": fault.value}})
        elif fault.kind == "html":
            self.send(200, PAGE, "text/html")
        elif fault.kind == "json":
            self.send_json(200, fault.value)
        elif fault.kind == "hang":
            over.wait()
            self.close_connection = True
        else:
            if fault.kind == "slow":
                over.wait(fault.value)
            return True
        return False

    def forwarded(self, body: bytes) -> tuple[int, str, bytes]:
        """The service's answer. Sign-ins are limited in number, so that one that went well is repeated from memory."""
        if self.path == SIGN_IN and body in self.state.signed_in:
            return 200, "application/json", self.state.signed_in[body]
        skipped = ("connection", "content-length", "transfer-encoding", "accept-encoding", "keep-alive")
        headers = {name: value for name, value in self.headers.items() if name.lower() not in skipped}
        connection = http.client.HTTPConnection(*self.upstream, timeout=300)
        try:
            connection.request(self.command, self.path, body, {**headers, "Connection": "close"})
            reply = connection.getresponse()
            answer = reply.read()
        except OSError as error:
            return 502, "text/plain", str(error).encode()
        finally:
            connection.close()
        if self.path == SIGN_IN and reply.status == 200:
            self.state.signed_in[body] = answer
        return reply.status, reply.headers.get("Content-Type", ""), answer

    def parsed(self, body: bytes) -> Any:
        try:
            return json.loads(body) if "json" in self.headers.get("Content-Type", "") else None
        except ValueError:
            return None

    def send_json(self, status: int, content: Any) -> None:
        self.send(status, json.dumps(content).encode(), "application/json")

    def send(self, status: int, body: bytes, kind: str = "text/plain", length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        # Nobody keeps a connection to what stood here before.
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """The log of the service it stands in for is read by the checks."""


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that give up are what slow and hanging faults are for."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def main() -> None:
    host, _colon, port = sys.argv[1].partition(":")
    Handler.state, Handler.upstream = State(), (host, int(port))
    Server(("", int(sys.argv[2])), Handler).serve_forever()


if __name__ == "__main__":
    main()
