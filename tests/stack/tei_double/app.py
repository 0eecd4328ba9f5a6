"""TEI's HTTP face: routes, shapes, status codes and error types of its versions before and after 1.9.0."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio.to_thread
from bundled_engine.model import MAX_TOKENS, Model
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException

from .cli import since

EMBEDDER = "intfloat/multilingual-e5-small"
RERANKER = "plumbline-tests/e5-small-reranker"
DIMENSIONS = 384
OPEN = ("/", "/health", "/ping", "/metrics", "/docs", "/api-doc/openapi.json")
OPENAI = ("/v1/embeddings", "/embeddings")
FACTS = json.loads(Path(__file__).with_name("openapi_facts.json").read_text(encoding="utf-8"))
# error type -> label of the failure in the metrics
_LABELS = {
    "Validation": "validation",
    "Empty": "validation",
    "Tokenizer": "tokenization",
    "Overloaded": "overloaded",
    "Backend": "inference",
}


class StartError(Exception):
    """TEI ends at start, with this message."""


class Refusal(Exception):
    """A request that TEI answers with one of its error types."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Rejection(Exception):
    """A body that TEI's web framework rejects before TEI sees it: plain text."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclasses.dataclass(frozen=True)
class Settings:
    version: str = "1.9.3"
    model: str = EMBEDDER
    revision: str | None = None
    served_name: str = EMBEDDER
    dtype: str = "float32"
    pooling: str = "mean"
    max_concurrent: int = 512
    max_batch_tokens: int = 16384
    max_batch_requests: int | None = None
    max_client_batch: int = 32
    auto_truncate: bool = True
    prompt: str = ""
    payload_limit: int = 2_000_000
    api_key: str = ""
    workers: int = 2
    reranks: bool = False

    @property
    def max_input_length(self) -> int:
        return min(MAX_TOKENS, self.max_batch_tokens)


def _model_of(model_id: str) -> str:
    """The model behind a name, or behind a folder, whose configuration names it: the weights are the double's own."""
    folder = Path(model_id)
    if not folder.is_dir():
        return model_id
    for part in ("config.json", "tokenizer.json"):
        if not (folder / part).is_file():
            raise StartError(f"`{part}` not found")
    return str(json.loads((folder / "config.json").read_text(encoding="utf-8")).get("_name_or_path"))


def settings_from(options: dict[str, Any], version: str) -> Settings:
    """What the command line asks for; raises StartError where TEI would not start."""
    model = _model_of(options["model_id"])
    if model not in (EMBEDDER, RERANKER):
        raise StartError("Could not download model artifacts")
    if options["default_prompt_name"] is not None:
        raise StartError("the model has no prompts, so that `--default-prompt-name` names none")
    if not options["auto_truncate"] and options["max_batch_tokens"] < MAX_TOKENS:
        raise StartError(
            f"`--max-batch-tokens` is less than the {MAX_TOKENS} tokens of the model and it must not truncate"
        )
    return Settings(
        version=version,
        model=options["model_id"],
        revision=options["revision"],
        served_name=options.get("served_model_name") or options["model_id"],
        dtype=options["dtype"] or "float32",
        pooling=(options["pooling"] or "mean").replace("-", "_"),
        max_concurrent=options["max_concurrent_requests"],
        max_batch_tokens=options["max_batch_tokens"],
        max_batch_requests=options["max_batch_requests"],
        max_client_batch=options["max_client_batch_size"],
        auto_truncate=options["auto_truncate"],
        prompt=options["default_prompt"] or "",
        payload_limit=options["payload_limit"],
        api_key=options["api_key"] or "",
        workers=options["tokenization_workers"] or 2,
        reranks=model == RERANKER,
    )


class Engine:
    """The model behind TEI's admission, validation and truncation."""

    def __init__(self, settings: Settings, model: Model) -> None:
        self.settings = settings
        self.model = model
        self.free = settings.max_concurrent

    @contextlib.contextmanager
    def permits(self, inputs: int) -> Iterator[None]:
        """Every input takes a permit at once or the whole request is refused."""
        if inputs > self.free:
            raise Refusal("Overloaded", "Model is overloaded")
        self.free -= inputs
        try:
            yield
        finally:
            self.free += inputs

    def batch(self, field: str, inputs: list[str]) -> None:
        limit = self.settings.max_client_batch
        if not inputs:
            raise Refusal("Empty", f"`{field}` cannot be empty")
        if len(inputs) > limit:
            raise Refusal("Validation", f"batch size {len(inputs)} > maximum allowed batch size {limit}")

    async def vectors(self, texts: list[str], truncate: bool | None, direction: str) -> tuple[Any, int]:
        """One normalised row a text, and their tokens."""
        for text in texts:
            if not text:
                raise Refusal("Empty", "`inputs` cannot be empty")
        return await anyio.to_thread.run_sync(self._compute, texts, truncate, direction)

    def _compute(self, texts: list[str], truncate: bool | None, direction: str) -> tuple[Any, int]:
        allowed = self.settings.auto_truncate if truncate is None else truncate
        fitting = [self._fit(text, allowed, direction) for text in texts]
        return self.model.embed(fitting), sum(self.model.count(text) for text in fitting)

    def _fit(self, text: str, truncate: bool, direction: str) -> str:
        limit, tokens = self.settings.max_input_length, self.model.count(text)
        if tokens <= limit:
            return text
        if not truncate:
            raise Refusal("Validation", f"`inputs` must have less than {limit} tokens. Given: {tokens}")
        least, most = 0, len(text)
        while most - least > 1:
            middle = (least + most) // 2
            part = text[:middle] if direction == "right" else text[-middle:]
            least, most = (middle, most) if self.model.count(part) <= limit else (least, middle)
        return text[:least] if direction == "right" else text[-least:]

    async def scores(self, pairs: Sequence[Sequence[str]], truncate: bool | None, direction: str) -> list[float]:
        """The cosine of each pair, brought into 0 to 1: what stands in for a cross-encoder's probability."""
        texts = [text for query, document in pairs for text in (f"query: {query}", f"passage: {document}")]
        rows, _tokens = await self.vectors(texts, truncate, direction)
        return [(1 + float(rows[i] @ rows[i + 1])) / 2 for i in range(0, len(texts), 2)]


def logit(score: float) -> float:
    """The raw score whose sigmoid is ``score``."""
    bounded = min(max(score, 1e-7), 1 - 1e-7)
    return math.log(bounded / (1 - bounded))


async def read(request: Request, required: str, limit: int) -> dict[str, Any]:
    raw = await request.body()
    if len(raw) > limit:
        raise Rejection(413, "Failed to buffer the request body: length limit exceeded")
    if not request.headers.get("content-type", "").startswith("application/json"):
        raise Rejection(415, "Expected request with `Content-Type: application/json`")
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise Rejection(400, f"Failed to parse the request body as JSON: {error}") from None
    if not isinstance(body, dict) or required not in body:
        raise wrong_type(f"missing field `{required}`")
    return body


def wrong_type(reason: str) -> Rejection:
    return Rejection(422, f"Failed to deserialize the JSON body into the target type: {reason}")


def texts_of(value: Any, field: str) -> list[str]:
    """One text or several, as the routes for embeddings take them."""
    inputs = value if isinstance(value, list) else [value]
    if any(not isinstance(text, str) for text in inputs):
        raise wrong_type(f"{field}: data did not match any variant of untagged enum Input")
    return inputs


def truncation(body: dict[str, Any]) -> tuple[bool | None, str]:
    truncate, direction = body.get("truncate"), body.get("truncation_direction", "right")
    if truncate is not None and not isinstance(truncate, bool):
        raise wrong_type("truncate: invalid type, expected a boolean")
    if direction not in ("left", "right", "Left", "Right"):
        raise wrong_type(f"truncation_direction: unknown variant `{direction}`, expected `Left` or `Right`")
    return truncate, direction.lower()


def create_app(settings: Settings, model: Model) -> FastAPI:
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    engine = Engine(settings, model)
    counters: Counter[str] = Counter()
    statuses = {"Backend": 424, "Overloaded": 429, "Tokenizer": 422, "Empty": 400}
    statuses["Validation"] = 422 if since(settings.version, "1.9.0") else 413

    @app.middleware("http")
    async def guard(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        is_open = request.method == "GET" and request.url.path in OPEN
        if settings.api_key and not is_open and request.headers.get("authorization") != f"Bearer {settings.api_key}":
            return Response(status_code=401)
        return await call_next(request)

    @app.exception_handler(HTTPException)
    def no_route(request: Request, error: HTTPException) -> Response:
        return Response(status_code=error.status_code, headers=error.headers)

    @app.exception_handler(Rejection)
    def rejected(request: Request, rejection: Rejection) -> PlainTextResponse:
        return PlainTextResponse(str(rejection), rejection.status)

    @app.exception_handler(Refusal)
    def refused(request: Request, refusal: Refusal) -> JSONResponse:
        counters[f'te_request_failure{{err="{_LABELS[refusal.kind]}"}}'] += 1
        prefixes = {"Validation": "Input validation error: ", "Backend": "Backend error: "}
        message, status = str(refusal), statuses[refusal.kind]
        if not message.startswith("batch size"):
            message = prefixes.get(refusal.kind, "") + message
        if request.url.path in OPENAI:
            return JSONResponse({"message": message, "code": status, "type": refusal.kind}, status)
        return JSONResponse({"error": message, "error_type": refusal.kind}, status)

    def answer(content: Any, inputs: list[str], tokens: int, started: float, route: str) -> JSONResponse:
        counters[f'te_request_count{{method="{"batch" if len(inputs) > 1 else "single"}"}}'] += 1
        counters[f'te_request_success{{method="{"batch" if len(inputs) > 1 else "single"}"}}'] += 1
        counters[f"te_{route}_count"] += len(inputs)
        milliseconds = str(round((time.monotonic() - started) * 1000))
        headers = {
            "x-compute-type": "cpu",
            "x-compute-time": milliseconds,
            "x-compute-characters": str(sum(len(text) for text in inputs)),
            "x-compute-tokens": str(tokens),
            "x-total-time": milliseconds,
            "x-tokenization-time": "0",
            "x-queue-time": "0",
            "x-inference-time": milliseconds,
        }
        return JSONResponse(content, headers=headers)

    def needs(reranker: bool) -> None:
        if settings.reranks != reranker:
            raise Refusal(
                "Backend", "model is not a re-ranker model" if reranker else "Model is not an embedding model"
            )

    def cut(rows: Any, dimensions: Any, normalize: bool = True) -> Any:
        if dimensions is None:
            return rows
        if not isinstance(dimensions, int) or isinstance(dimensions, bool) or dimensions < 0:
            raise wrong_type("dimensions: invalid value, expected usize")
        if not 0 < dimensions <= DIMENSIONS:
            raise Refusal("Validation", "`dimensions` should be smaller than the maximum embedding dimension.")
        short = rows[:, :dimensions]
        return short / (short**2).sum(axis=1, keepdims=True) ** 0.5 if normalize else short

    def prompted(body: dict[str, Any], inputs: list[str]) -> list[str]:
        if body.get("prompt_name") is not None:
            raise Refusal("Tokenizer", f"tokenizer error the model has no prompt `{body['prompt_name']}`")
        return [settings.prompt + text if text else text for text in inputs]

    @app.post("/embed")
    async def embed(request: Request) -> JSONResponse:
        started = time.monotonic()
        body = await read(request, "inputs", settings.payload_limit)
        inputs, how = texts_of(body["inputs"], "inputs"), truncation(body)
        needs(reranker=False)
        engine.batch("inputs", inputs)
        with engine.permits(len(inputs)):
            rows, tokens = await engine.vectors(prompted(body, inputs), *how)
        vectors = cut(rows, body.get("dimensions"), body.get("normalize", True))
        return answer(vectors.tolist(), inputs, tokens, started, "embed")

    @app.post("/embeddings")
    @app.post("/v1/embeddings")
    async def embeddings(request: Request) -> JSONResponse:
        started = time.monotonic()
        body = await read(request, "input", settings.payload_limit)
        inputs, form = texts_of(body["input"], "input"), body.get("encoding_format", "float")
        if form is None:
            raise Rejection(400, "Failed to parse the request body as JSON: encoding_format: expected value at line 1")
        if form not in ("float", "base64"):
            raise wrong_type(f"encoding_format: unknown variant `{form}`, expected `float` or `base64`")
        needs(reranker=False)
        engine.batch("inputs", inputs)
        with engine.permits(len(inputs)):
            rows, tokens = await engine.vectors(prompted({}, inputs), None, "right")
        vectors = cut(rows, body.get("dimensions"))
        packed = [base64.b64encode(row.astype("<f4").tobytes()).decode() for row in vectors]
        encoded = packed if form == "base64" else vectors.tolist()
        data = [{"object": "embedding", "embedding": vector, "index": i} for i, vector in enumerate(encoded)]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        content = {"object": "list", "data": data, "model": settings.served_name, "usage": usage}
        return answer(content, inputs, tokens, started, "embed")

    @app.post("/rerank")
    async def rerank(request: Request) -> JSONResponse:
        started = time.monotonic()
        body = await read(request, "query", settings.payload_limit)
        if "texts" not in body:
            raise wrong_type("missing field `texts`")
        texts, how = body["texts"], truncation(body)
        if not isinstance(texts, list) or any(not isinstance(text, str) for text in [body["query"], *texts]):
            raise wrong_type("texts: invalid type, expected a sequence of strings")
        needs(reranker=True)
        engine.batch("texts", texts)
        with engine.permits(len(texts)):
            scores = await engine.scores([(body["query"], text) for text in texts], *how)
        final = [logit(score) for score in scores] if body.get("raw_scores", False) else scores
        ranks = [{"index": i, "score": final[i]} for i in sorted(range(len(texts)), key=lambda i: -final[i])]
        if body.get("return_text", False):
            ranks = [{**rank, "text": texts[rank["index"]]} for rank in ranks]
        return answer(ranks, texts, 0, started, "predict")

    @app.post("/predict")
    async def predict(request: Request) -> JSONResponse:
        started = time.monotonic()
        body = await read(request, "inputs", settings.payload_limit)
        given, how = body["inputs"], truncation(body)
        pairs = given if isinstance(given, list) and given and isinstance(given[0], list) else [given]
        if any(not isinstance(pair, list) or [type(part) for part in pair] != [str, str] for pair in pairs):
            raise wrong_type("inputs: `inputs` must be a pair of strings or a batch of pairs")
        if not settings.reranks:
            raise Refusal("Backend", "model is not a classifier model")
        engine.batch("inputs", pairs)
        with engine.permits(len(pairs)):
            scores = await engine.scores(pairs, *how)
        final = [logit(score) for score in scores] if body.get("raw_scores", False) else scores
        predictions = [[{"score": score, "label": "LABEL_0"}] for score in final]
        content = predictions if pairs is given else predictions[0]
        return answer(content, [text for pair in pairs for text in pair], 0, started, "predict")

    @app.post("/similarity")
    async def similarity(request: Request) -> JSONResponse:
        started = time.monotonic()
        body = await read(request, "inputs", settings.payload_limit)
        given, parameters = body["inputs"], body.get("parameters") or {}
        for field in ("source_sentence", "sentences"):
            if not isinstance(given, dict) or field not in given:
                raise wrong_type(f"inputs: missing field `{field}`")
        inputs, how = [given["source_sentence"], *texts_of(given["sentences"], "sentences")], truncation(parameters)
        needs(reranker=False)
        engine.batch("inputs.sentences", inputs[1:])
        with engine.permits(len(inputs)):
            rows, tokens = await engine.vectors(prompted(parameters, inputs), *how)
        return answer((rows[1:] @ rows[0]).tolist(), inputs, tokens, started, "embed")

    @app.get("/info")
    def info() -> dict[str, Any]:
        labels = {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
        described = {
            "model_id": settings.model,
            "model_sha": settings.revision,
            "model_dtype": settings.dtype,
            "served_model_name": settings.served_name,
            "model_type": {"reranker": labels} if settings.reranks else {"embedding": {"pooling": settings.pooling}},
            "max_concurrent_requests": settings.max_concurrent,
            "max_input_length": settings.max_input_length,
            "max_batch_tokens": settings.max_batch_tokens,
            "max_batch_requests": settings.max_batch_requests,
            "max_client_batch_size": settings.max_client_batch,
            "auto_truncate": settings.auto_truncate,
            "tokenization_workers": settings.workers,
            "version": settings.version,
            "sha": None,
            "docker_label": "tei-double",
        }
        if not since(settings.version, "1.9.0"):
            del described["served_model_name"]
        return described

    @app.get("/")
    @app.get("/ping")
    @app.get("/health")
    def health() -> Response:
        return Response()

    @app.get("/metrics")
    def metrics() -> PlainTextResponse:
        lines = [f"{name} {value}" for name, value in sorted(counters.items())]
        return PlainTextResponse("\n".join([*lines, "te_queue_size 0", ""]))

    @app.get("/api-doc/openapi.json")
    def description() -> dict[str, Any]:
        paths = {
            path: {entry["method"]: {"responses": {code: {} for code in entry["responses"]}}}
            for path, entry in FACTS["paths"].items()
        }
        title = {"title": "Text Embeddings Inference", "version": settings.version}
        return {"openapi": "3.0.3", "info": title, "paths": paths}

    return app
