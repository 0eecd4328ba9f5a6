"""Command line: python -m bundled_engine --task embed"""

from __future__ import annotations

import argparse
import os

import uvicorn

from .app import Settings, create_app
from .model import NAME, Model


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bundled_engine", allow_abbrev=False)
    parser.add_argument("--model", default=NAME, choices=[NAME])
    parser.add_argument("--served-model-name", default=NAME)
    parser.add_argument("--task", default="embed", choices=["embed", "rerank"])
    parser.add_argument("--max-client-batch-size", type=int, default=32)
    parser.add_argument("--host", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=8000)
    return parser.parse_args(arguments)


def main() -> None:
    given = parse()
    settings = Settings(given.served_model_name, given.task, given.max_client_batch_size, os.environ.get("API_KEY", ""))
    uvicorn.run(create_app(settings, Model()), host=given.host, port=given.port, access_log=False)


if __name__ == "__main__":
    main()
