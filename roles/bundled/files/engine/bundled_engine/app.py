"""The HTTP face: OpenAI embeddings or Cohere-style rerank, one task a process."""

from __future__ import annotations

import base64
import dataclasses
import hmac
import json
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import anyio.to_thread
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CollectorRegistry, Counter, generate_latest

from . import __version__
from .limits import Refusal, check_batch, check_model, check_texts, count_tokens
from .model import DTYPE, MAX_TOKENS, NAME, Model

OPEN = ("/health", "/metrics")


@dataclasses.dataclass(frozen=True)
class Settings:
    served_name: str = NAME
    task: str = "embed"
    max_batch: int = 32
    api_key: str = ""


def create_app(settings: Settings, model: Model) -> FastAPI:
    app = FastAPI(title="bundled engine", version=__version__, docs_url=None, redoc_url=None)
    registry = CollectorRegistry()
    requests = Counter("bundled_requests", "Requests by route and status", ["route", "status"], registry=registry)
    texts = Counter("bundled_texts", "Texts embedded, by route", ["route"], registry=registry)

    @app.middleware("http")
    async def guard(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        given = request.headers.get("authorization", "").encode()
        expected = f"Bearer {settings.api_key}".encode()
        if settings.api_key and request.url.path not in OPEN and not hmac.compare_digest(given, expected):
            response: Response = refused(request, Refusal(401, "Invalid API key"))
        else:
            response = await call_next(request)
        route = request.scope.get("route")
        requests.labels(getattr(route, "path", "other"), response.status_code).inc()
        return response

    @app.exception_handler(Refusal)
    def refused(request: Request, refusal: Refusal) -> JSONResponse:
        return JSONResponse(refusal.body(), refusal.status)

    def embed(inputs: list[str]) -> tuple[list[list[float]], list[bytes], int]:
        tokens = count_tokens(inputs, MAX_TOKENS, model.count, "input")
        vectors = model.embed(inputs)
        return vectors.tolist(), [vector.astype("<f4").tobytes() for vector in vectors], tokens

    def score(query: str, documents: list[str]) -> tuple[list[float], int]:
        inputs = [f"query: {query}", *(f"passage: {document}" for document in documents)]
        tokens = count_tokens(inputs, MAX_TOKENS, model.count, "documents")
        vectors = model.embed(inputs)
        return (vectors[1:] @ vectors[0]).tolist(), tokens

    @app.post("/embeddings")
    @app.post("/v1/embeddings")
    async def embeddings(request: Request) -> dict[str, Any]:
        require("embed", "embeddings")
        body = await read(request)
        check_model(body.get("model"), settings.served_name)
        form = body.get("encoding_format", "float")
        if form not in ("float", "base64"):
            raise Refusal(400, f"encoding_format must be 'float' or 'base64', not {form!r}", "encoding_format")
        if body.get("dimensions") is not None:
            raise Refusal(400, f"Model {settings.served_name} does not support Matryoshka dimensions", "dimensions")
        given = body.get("input")
        inputs = check_texts(given if isinstance(given, list) else [given], "input")
        check_batch(len(inputs), settings.max_batch)
        floats, raw, tokens = await anyio.to_thread.run_sync(embed, inputs)
        texts.labels("/v1/embeddings").inc(len(inputs))
        encoded = floats if form == "float" else [base64.b64encode(vector).decode() for vector in raw]
        return {
            "object": "list",
            "model": settings.served_name,
            "data": [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(encoded)],
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }

    @app.post("/rerank")
    @app.post("/v1/rerank")
    @app.post("/v2/rerank")
    async def rerank(request: Request) -> dict[str, Any]:
        require("rerank", "rerank")
        body = await read(request)
        check_model(body.get("model"), settings.served_name)
        (query,) = check_texts([body.get("query")], "query")
        given = body.get("documents")
        # one refused document would cost Open WebUI the order of all others
        documents = check_texts(given if isinstance(given, list) else [given], "documents", empty=True)
        check_batch(len(documents), settings.max_batch)
        top = body.get("top_n", len(documents))
        if not isinstance(top, int) or isinstance(top, bool) or top < 1:
            raise Refusal(400, f"top_n must be a positive integer, not {top!r}", "top_n")
        scores, tokens = await anyio.to_thread.run_sync(score, query, documents)
        texts.labels("/v1/rerank").inc(len(documents))
        order = sorted(range(len(documents)), key=lambda i: -scores[i])[:top]
        return {
            "id": f"rerank-{uuid.uuid4().hex}",
            "model": settings.served_name,
            "usage": {"total_tokens": tokens},
            "results": [{"index": i, "document": {"text": documents[i]}, "relevance_score": scores[i]} for i in order],
        }

    @app.get("/info")
    def info() -> dict[str, Any]:
        return {
            "model_id": NAME,
            "model_sha": model.sha256,
            "model_dtype": DTYPE,
            "served_model_name": settings.served_name,
            "max_input_length": MAX_TOKENS,
            "max_client_batch_size": settings.max_batch,
            "auto_truncate": False,
            "task": settings.task,
            "scores": "cosine of the embedding model, not a cross-encoder",
            "version": __version__,
        }

    @app.get("/v1/models")
    def models() -> dict[str, Any]:
        entry = {"id": settings.served_name, "object": "model", "root": NAME, "max_model_len": MAX_TOKENS}
        return {"object": "list", "data": [entry]}

    @app.get("/health")
    def health() -> Response:
        return Response()

    @app.get("/metrics")
    def metrics() -> PlainTextResponse:
        return PlainTextResponse(generate_latest(registry))

    @app.get("/version")
    def version() -> dict[str, str]:
        return {"version": __version__}

    def require(task: str, route: str) -> None:
        if settings.task != task:
            raise Refusal(400, f"This server runs the task {settings.task} and does not support {route}")

    return app


async def read(request: Request) -> dict[str, Any]:
    try:
        body = json.loads(await request.body())
    except ValueError:
        raise Refusal(400, "The body is not valid JSON") from None
    if not isinstance(body, dict):
        raise Refusal(400, "The body must be a JSON object")
    return body
