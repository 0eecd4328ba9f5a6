# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""all-MiniLM-L6-v2 over HTTP, as TEI and OpenAI spell it: engine.py PORT FOLDER FAULT. Runs in the venv with torch."""

from __future__ import annotations

import base64
import json
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling

# How long a server waits for more requests to compute together.
WINDOW = 0.02
MANY = 4


class Engine:
    """The model with one fault, or with the fault `none`."""

    def __init__(self, folder: str, fault: str) -> None:
        self.fault = fault
        self.model = SentenceTransformer(folder, device="cpu")
        self.model.max_seq_length = 256
        if fault == "pooling":
            self.model[1] = Pooling(384, pooling_mode="cls")
        if fault == "norm":
            del self.model[2]
        self.compute = threading.Lock()
        self.counting = threading.Lock()
        self.waiting = 0
        self.most = 0

    def embed(self, texts: list[str], packed: bool = False) -> list[list[float]]:
        with self.counting:
            self.waiting += 1
            self.most = self.waiting if self.waiting == 1 else max(self.most, self.waiting)
        time.sleep(WINDOW)
        together = self.most >= MANY
        try:
            with self.compute:
                rows: list[list[float]] = self.model.encode(texts).tolist()
        finally:
            with self.counting:
                self.waiting -= 1
        if self.fault == "concurrent" and together:
            return [row[1:] + row[:1] for row in rows]
        if self.fault == "order":
            return rows[::-1]
        if self.fault == "base64" and packed:
            return [row[1:] + row[:1] for row in rows]
        return rows

    def tokens(self, texts: list[str]) -> int:
        most = self.model.max_seq_length
        return sum(min(len(self.model.tokenizer(text)["input_ids"]), most) for text in texts)


class Handler(BaseHTTPRequestHandler):
    engine: Engine

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the test reads no log."""

    def do_GET(self) -> None:
        self.answer({"max_input_length": 256, "version": "1.9.3"} if self.path == "/info" else {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/embed":
            self.answer(self.engine.embed(body["inputs"]))
            return
        if body.get("encoding_format", "float") not in ("float", "base64"):
            self.answer({"error": "unknown encoding"}, 422)
            return
        packed = body.get("encoding_format") == "base64"
        rows: list[Any] = self.engine.embed(body["input"], packed)
        if packed:
            rows = [base64.b64encode(struct.pack(f"<{len(row)}f", *row)).decode() for row in rows]
        data = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)]
        self.answer({"data": data, "usage": {"prompt_tokens": self.engine.tokens(body["input"])}})

    def answer(self, content: Any, status: int = 200) -> None:
        payload = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)


class Server(ThreadingHTTPServer):
    request_queue_size = 64


def main() -> None:
    port, folder, fault = sys.argv[1:]
    Handler.engine = Engine(folder, fault)
    Server(("127.0.0.1", int(port)), Handler).serve_forever()


if __name__ == "__main__":
    main()
