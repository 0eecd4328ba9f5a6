"""A double of hosted backends: it answers in the form of the path that is asked, and prints what reached it."""

from __future__ import annotations

import http.server
import json
from typing import Any


def answer(path: str, body: dict[str, Any]) -> dict[str, Any]:
    if path.endswith("/embed"):  # Cohere's own
        rows = [[0.1, 0.2] for _text in body["texts"]]
        return {"id": "e", "embeddings": {"float": rows}, "meta": {"billed_units": {"input_tokens": 2}}}
    usage = {"prompt_tokens": 2, "total_tokens": 2}
    if path.endswith("/embeddings"):
        rows = [{"object": "embedding", "index": i, "embedding": [0.1, 0.2]} for i, _text in enumerate(body["input"])]
        return {"object": "list", "model": body["model"], "data": rows, "usage": usage}
    scores = [{"index": i, "relevance_score": 0.5} for i, _document in enumerate(body["documents"])]
    if "top_k" in body:  # Voyage's own
        return {"object": "list", "data": scores, "model": body["model"], "usage": {"total_tokens": 2}}
    return {"id": "r", "results": scores, "meta": {}, "usage": {"total_tokens": 2}}


class Handler(http.server.BaseHTTPRequestHandler):
    """One POST after the other, each on a line of its own."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        print(self.path, json.dumps(body), flush=True)
        content = json.dumps(answer(self.path, body)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing but the requests is printed."""


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("0.0.0.0", 9000), Handler).serve_forever()
