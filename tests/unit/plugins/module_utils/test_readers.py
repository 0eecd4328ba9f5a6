# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading containers and stored vectors, on answers recorded from the Docker Engine and PostgreSQL."""

from __future__ import annotations

import asyncio
from typing import Any

import docker.errors
import psycopg
import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _docker, _pgvector
from ansible_collections.plumbline.rag.plugins.module_utils._http import ServiceError

ATTRS = {
    "Image": "sha256:bb9f",
    "State": {"Running": True, "StartedAt": "2026-01-01T00:00:00.123456789Z"},
    "Config": {
        "Image": "ghcr.io/open-webui/open-webui:v0.12.4-slim",
        "Env": ["RAG_EMBEDDING_QUERY_PREFIX=query: ", "A=b=c", "EMPTY=", "broken"],
        "Labels": {"org.plumbline.installation": "default"},
    },
    "NetworkSettings": {"Networks": {"rag": {"IPAddress": "172.18.0.5"}, "other": {"IPAddress": ""}}},
}


class Engine:
    """The part of the SDK's client that is used."""

    def __init__(self, error: Exception | None = None) -> None:
        self.containers = self.api = self
        self.attrs = ATTRS
        self.error = error
        self.renamed: str | None = "sha256:bb9f"

    def get(self, name: str) -> Engine:
        if self.error:
            raise self.error
        if name != "rag-open-webui":
            raise docker.errors.NotFound("no such container")
        return self

    def logs(self, **asked: Any) -> bytes:
        self.asked = asked
        return b"a line\n\xff\n"

    def inspect_image(self, image: str) -> dict[str, Any]:
        if image == "sha256:bb9f":
            return {"Id": image, "RepoDigests": ["open-webui@sha256:1234"]}
        if self.renamed is None:
            raise docker.errors.NotFound("no such image")
        return {"Id": self.renamed}


def test_container() -> None:
    container = _docker.Docker(Engine()).container("rag-open-webui")
    assert container is not None
    assert container.environment == {"RAG_EMBEDDING_QUERY_PREFIX": "query: ", "A": "b=c", "EMPTY": ""}
    assert container.environment_bytes["RAG_EMBEDDING_QUERY_PREFIX"] == b"query: "
    assert (container.running, container.digests) == (True, ("open-webui@sha256:1234",))


@pytest.mark.parametrize("now", ["sha256:bb9f", "sha256:cc00", None])
def test_what_the_name_of_the_image_means_now(now: str | None) -> None:
    engine = Engine()
    engine.renamed = now
    container = _docker.Docker(engine).container("rag-open-webui")
    assert container is not None
    assert (container.image_id, container.named_id) == ("sha256:bb9f", now)


def test_containers_of_other_hosts_are_left_out() -> None:
    found = _docker.Docker(Engine()).containers(["rag-open-webui", "elsewhere"])
    assert list(found) == ["rag-open-webui"]
    assert _docker.addresses(found, "rag") == {"rag-open-webui": "172.18.0.5"}
    assert _docker.addresses(found, "unknown") == {"rag-open-webui": "172.18.0.5"}


def test_a_failing_engine_is_a_service_error() -> None:
    with pytest.raises(ServiceError, match="container x cannot be inspected: 500"):
        _docker.Docker(Engine(docker.errors.APIError("500"))).container("x")


STARTED = 1767225600


@pytest.mark.parametrize(("since", "begun"), [(0.0, STARTED), (STARTED + 9.5, STARTED + 10)])
def test_logs(since: float, begun: int) -> None:
    engine = Engine()
    assert (
        _docker.Docker(engine).logs("rag-open-webui", 5, since, STARTED + 20.9) == "a line\n\N{REPLACEMENT CHARACTER}\n"
    )
    assert engine.asked == {"tail": 5, "since": begun, "until": STARTED + 20, "stdout": True, "stderr": True}


def test_logs_that_cannot_be_read() -> None:
    with pytest.raises(ServiceError, match="the log of container x cannot be read: 500"):
        _docker.Docker(Engine(docker.errors.APIError("500"))).logs("x", 5, 0.0, 1.0)


def store(monkeypatch: pytest.MonkeyPatch, answers: list[Any]) -> _pgvector.Pgvector:
    async def rows(_self: Any, _query: Any, _parameters: Any) -> Any:
        return answers.pop(0)

    monkeypatch.setattr(_pgvector.Pgvector, "_rows", rows)
    return pgvector()


def pgvector() -> _pgvector.Pgvector:
    return _pgvector.Pgvector(
        host="127.0.0.1", port=1, user="open_webui", database="rag", password="canary-password", table="document_chunk"
    )


def test_describe(monkeypatch: pytest.MonkeyPatch) -> None:
    found = asyncio.run(store(monkeypatch, [[("0.8.5",)], [(384, "vector")], [("18.4 (Debian)",)]]).describe())
    assert found == _pgvector.Store("18.4", "0.8.5", "vector", 384)


def test_describe_before_the_first_upload(monkeypatch: pytest.MonkeyPatch) -> None:
    found = asyncio.run(store(monkeypatch, [[], [], [("16.1",)]]).describe())
    assert found == _pgvector.Store("16.1", None, None, None)


def test_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("file-1", "text", "[0.5,-1e-3]", {"name": "a"}), ("file-1", b"\x01", None, b"\x02")]
    found = asyncio.run(store(monkeypatch, [rows]).chunks(["file-1", "file-2"]))
    chunks = [_pgvector.Chunk("text", [0.5, -0.001], {"name": "a"}), _pgvector.Chunk(None, [], {})]
    assert found == {"file-1": chunks, "file-2": []}


def test_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [[("text", "[1]", {})], []]
    asked = store(monkeypatch, answers)
    assert asyncio.run(asked.chunk("user-memory-1", "m")) == _pgvector.Chunk("text", [1], {})
    assert asyncio.run(asked.chunk("user-memory-1", "n")) is None


def test_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [
        [("idx", "hnsw", "vector_cosine_ops", True)],
        [("{'model': 'm'}", 7, 2, ["a", "b"])],
        [(100, 3, 9, 1)],
        [(20, 1, 1)],
    ]
    asked = store(monkeypatch, answers)
    assert asyncio.run(asked.indexes()) == [_pgvector.Index("idx", "hnsw", "vector_cosine_ops", True)]
    assert asyncio.run(asked.sources()) == [_pgvector.Source("{'model': 'm'}", 7, 2, ("a", "b"))]
    assert asyncio.run(asked.connections()) == _pgvector.Connections(100, 3, 9, 1)
    assert asyncio.run(asked.misfits(20, 1536, 384)) == _pgvector.Misfits(20, 1, 1)


@pytest.mark.parametrize(
    ("answers", "rows"),
    [([[]], 0), ([[(250_000,)]], 250_000), ([[(-1,)], [(12,)]], 12), ([[(90_000,)], [(100_000,)]], 100_000)],
)
def test_rows(monkeypatch: pytest.MonkeyPatch, answers: list[Any], rows: int) -> None:
    assert asyncio.run(store(monkeypatch, answers).rows()) == rows


def test_count(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asyncio.run(store(monkeypatch, [[(7,)]]).count(["a", "b"])) == 7


def test_errors_name_the_database_and_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect(**_parameters: Any) -> Any:
        raise psycopg.OperationalError("password canary-password\n  refused")

    monkeypatch.setattr(psycopg.AsyncConnection, "connect", connect)
    with pytest.raises(ServiceError) as raised:
        asyncio.run(pgvector().describe())
    assert str(raised.value) == "PostgreSQL at 127.0.0.1:1, database rag: password ******** refused"
