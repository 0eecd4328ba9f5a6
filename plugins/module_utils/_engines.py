# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients of embedding and reranking servers: bundled, vLLM, TEI, and whatever speaks the same shapes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _vectors
from ansible_collections.plumbline.rag.plugins.module_utils._http import Http, Reply, ServiceError


class ShapeError(ServiceError):
    """An answer came, and is not what the callers of this server understand."""


@dataclass(frozen=True)
class Embeddings:
    """An OpenAI-shaped embeddings route."""

    http: Http
    base_url: str
    model: str
    key: str | None
    dimensions: int | None = None
    fields: Mapping[str, str] = field(default_factory=dict)  # what a backend has to be told beside the text

    @property
    def url(self) -> str:
        # Open WebUI concatenates in the same way, so that a trailing slash fails here as it does there.
        return f"{self.base_url}/embeddings"

    def body(self, texts: Sequence[str], **more: Any) -> dict[str, Any]:
        """A request for vectors of the planned dimension; ``more`` are further fields."""
        reduced = {} if self.dimensions is None else {"dimensions": self.dimensions}
        return {"input": list(texts), "model": self.model, **self.fields, **reduced, **more}

    async def post(self, body: dict[str, Any], *, key: bool = True, timeout: float | None = None) -> Reply:
        """Send a body as it is; for the requests that are meant to fail."""
        return await self.http.request("POST", self.url, key=self.key if key else None, body=body, timeout=timeout)

    async def embed(self, texts: Sequence[str], encoding_format: str | None = None) -> list[list[float]]:
        """The vectors in the order of the answer, which is the order that Open WebUI stores."""
        more = {} if encoding_format is None else {"encoding_format": encoding_format}
        return vectors(await self.post(self.body(texts, **more)))


def vectors(reply: Reply) -> list[list[float]]:
    """Read an embeddings answer; raises ShapeError when it is not one. What is null becomes an unusable vector."""
    answer = reply.expect()
    rows = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        raise ShapeError(f"{reply.resource} answered without a list in `data`: {reply.excerpt}")
    return [_vector(row, reply) for row in rows]


def positions(reply: Reply) -> list[Any]:
    """The `index` of each row, in the order of the answer."""
    return [row.get("index") for row in reply.expect()["data"]]


def _vector(row: Any, reply: Reply) -> list[float]:
    value = row.get("embedding", "") if isinstance(row, dict) else ""
    try:
        if value is None:
            return []
        if isinstance(value, str):
            return _vectors.decode_base64(value)
        if isinstance(value, list):
            return [math.nan if number is None else float(number) for number in value]
    except (TypeError, ValueError):
        pass
    raise ShapeError(f"{reply.resource} answered with an embedding that is not a row of numbers: {reply.excerpt}")


@dataclass(frozen=True)
class Reranker:
    """A rerank route. ``dialect`` is ``cohere`` (what Open WebUI speaks) or ``tei``."""

    http: Http
    url: str
    model: str
    key: str | None
    dialect: str = "cohere"

    async def post(
        self, query: str, documents: Sequence[str], *, key: bool = True, timeout: float | None = None
    ) -> Reply:
        """The request of Open WebUI's external reranker, byte for byte, or its TEI counterpart."""
        body: dict[str, Any]
        if self.dialect == "tei":
            body = {"query": query, "texts": list(documents)}
        else:
            body = {"model": self.model, "query": query, "documents": list(documents), "top_n": len(documents)}
        return await self.http.request("POST", self.url, key=self.key if key else None, body=body, timeout=timeout)

    def results(self, reply: Reply) -> list[tuple[Any, Any]]:
        """Pairs of index and score as they came; raises ShapeError for what Open WebUI would not understand."""
        answer = reply.expect()
        name = "score" if self.dialect == "tei" else "relevance_score"
        rows = answer if self.dialect == "tei" else answer.get("results") if isinstance(answer, dict) else None
        if isinstance(answer, list) and self.dialect != "tei":
            raise ShapeError(f"{reply.resource} answered with a bare list instead of an object with `results`")
        if not isinstance(rows, list):
            raise ShapeError(f"{reply.resource} answered without a list in `results`: {reply.excerpt}")
        if any(not isinstance(row, dict) or "index" not in row or name not in row for row in rows):
            raise ShapeError(f"{reply.resource} answered with results that lack `index` or `{name}`: {reply.excerpt}")
        return [(row["index"], row[name]) for row in rows]

    async def scores(self, query: str, documents: Sequence[str]) -> list[float]:
        """One score a document, in the order of the documents; for use once the route is known to be right."""
        reply = await self.post(query, documents)
        results = self.results(reply)
        if not _vectors.is_permutation([index for index, _score in results], len(documents)):
            raise ShapeError(f"{reply.resource} did not score every document: {reply.excerpt}")
        return [float(score) for _index, score in sorted(results)]


async def models(http: Http, base_url: str, key: str | None) -> list[dict[str, Any]]:
    """The models that an OpenAI-shaped server reports."""
    answer = (await http.request("GET", f"{base_url}/models", key=key)).expect()
    rows = answer.get("data") if isinstance(answer, dict) else None
    return [row for row in rows or [] if isinstance(row, dict)]


async def info(http: Http, engine: str, base_url: str, key: str | None) -> dict[str, Any]:
    """What an engine says of itself: version, model, limits; empty for engines that say nothing."""
    root = base_url[: -len("/v1")] if base_url.endswith("/v1") else base_url
    path = {"tei": "/info", "bundled": "/info", "vllm": "/version"}.get(engine)
    if path is None:
        return {}
    answer = (await http.request("GET", root + path, key=key)).expect()
    return answer if isinstance(answer, dict) else {}
