"""A test double: the bundled engine with one fault, to prove that verification finds it.

Runs inside the bundled engine's image: python3 faulty_engine.py FAULT [arguments of the engine].
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import uvicorn
from bundled_engine.__main__ import parse
from bundled_engine.app import Settings, create_app
from bundled_engine.model import Model

PREFIXES = ("query: ", "passage: ")


def drop_prefix(body: dict[str, Any]) -> dict[str, Any]:
    """The request without the prefixes of its texts: what a server does that knows better."""

    def bare(text: str) -> str:
        return next((text.removeprefix(prefix) for prefix in PREFIXES if text.startswith(prefix)), text)

    texts = body.get("input")
    return {**body, "input": [bare(text) for text in texts] if isinstance(texts, list) else bare(texts)}


def bare_list(answer: dict[str, Any]) -> Any:
    """The answer in TEI's shape, which Open WebUI cannot read."""
    results = answer.get("results")
    return answer if results is None else [{"index": r["index"], "score": r["relevance_score"]} for r in results]


REQUESTS: dict[str, Callable[[dict[str, Any]], Any]] = {"drop-prefix": drop_prefix}
ANSWERS: dict[str, Callable[[dict[str, Any]], Any]] = {"bare-list": bare_list}


class Fault:
    """ASGI middleware that changes the JSON of a POST on its way in or out."""

    def __init__(self, app: Any, fault: str) -> None:
        self.app = app
        self.request = REQUESTS.get(fault, lambda body: body)
        self.answer = ANSWERS.get(fault, lambda body: body)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        changed = json.dumps(self.request(json.loads(body))).encode()
        headers = [(name, value) for name, value in scope["headers"] if name != b"content-length"]
        scope = {**scope, "headers": [*headers, (b"content-length", str(len(changed)).encode())]}
        start: dict[str, Any] = {}
        answer = b""

        async def changed_receive() -> dict[str, Any]:
            return {"type": "http.request", "body": changed, "more_body": False}

        async def changed_send(message: dict[str, Any]) -> None:
            nonlocal start, answer
            if message["type"] == "http.response.start":
                start = message
                return
            answer += message.get("body", b"")
            if message.get("more_body"):
                return
            sent = json.dumps(self.answer(json.loads(answer))).encode()
            kept = [(name, value) for name, value in start["headers"] if name != b"content-length"]
            await send({**start, "headers": [*kept, (b"content-length", str(len(sent)).encode())]})
            await send({"type": "http.response.body", "body": sent})

        await self.app(scope, changed_receive, changed_send)


def main() -> None:
    fault, arguments = sys.argv[1], sys.argv[2:]
    if fault not in (*REQUESTS, *ANSWERS):
        sys.exit(f"no such fault: {fault}")
    given = parse(arguments)
    settings = Settings(given.served_model_name, given.task, given.max_client_batch_size, os.environ.get("API_KEY", ""))
    uvicorn.run(Fault(create_app(settings, Model()), fault), host=given.host, port=given.port, access_log=False)


if __name__ == "__main__":
    main()
