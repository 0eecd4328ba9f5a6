# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The vector store: its index and what it finds, who made the rows, and room for connections."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _pgvector
from ansible_collections.plumbline.rag.plugins.module_utils._checks import store

from .rag_stack import MODEL, Stack
from .test_verification import Change, assign

NAME = "idx_document_chunk_vector"
COSINE = "vector_cosine_ops"
OTHER = str({"engine": "openai", "model": "other/model"})
OURS = str({"engine": "openai", "model": MODEL})

FAULTS: dict[str, tuple[str, str, str, Change]] = {
    "no index": (
        "PL479",
        "warning",
        "Table document_chunk has 20000 rows and no vector index; the plan has ivfflat. Every search reads all rows of its "
        "knowledge base.",
        assign(store__table_indexes=[]),
    ),
    "no hnsw index on a small table": (
        "PL479",
        "warning",
        "Table document_chunk has 12 rows and no vector index; the plan has hnsw. Every search reads all rows of its "
        "knowledge base.",
        assign(
            store__table_indexes=[],
            store__table_rows=12,
            plan__open_webui__env__PGVECTOR_INDEX_METHOD="hnsw",
            environment__PGVECTOR_INDEX_METHOD="hnsw",
        ),
    ),
    "invalid index": (
        "PL479",
        "error",
        f"Index {NAME} of table document_chunk is not valid: its building was interrupted, and no search uses it.",
        assign(store__table_indexes=[_pgvector.Index(NAME, "ivfflat", COSINE, False)]),
    ),
    "another kind": (
        "PL479",
        "error",
        f"Index {NAME} of table document_chunk is hnsw; the plan has ivfflat, and Open WebUI refuses to start or to search.",
        assign(store__table_indexes=[_pgvector.Index(NAME, "hnsw", COSINE, True)]),
    ),
    "another distance": (
        "PL479",
        "warning",
        f"Index {NAME} of table document_chunk is made for vector_l2_ops; Open WebUI searches by cosine, which needs "
        "vector_cosine_ops.",
        assign(store__table_indexes=[_pgvector.Index(NAME, "ivfflat", "vector_l2_ops", True)]),
    ),
    "rows are missed": (
        "PL480",
        "warning",
        "20 searches in table document_chunk, as Open WebUI makes them, return 80% of the 10 nearest rows; 15 of them used "
        f"the ivfflat index {NAME}.",
        assign(store__table_recall=_pgvector.Recall(20, 15, 200, 160)),
    ),
    "most rows are missed": (
        "PL480",
        "error",
        "20 searches in table document_chunk, as Open WebUI makes them, return 4% of the 10 nearest rows; 20 of them used "
        f"the ivfflat index {NAME}.",
        assign(store__table_recall=_pgvector.Recall(20, 20, 200, 8)),
    ),
    "some rows of another model": (
        "PL487",
        "warning",
        "300 of 1300 rows of table document_chunk were made by other/model; the plan has toy/bag-of-words. They are in 2 "
        "collections, as a, b.",
        assign(store__table_sources=[_pgvector.Source(OURS, 1000, 9, ()), _pgvector.Source(OTHER, 300, 2, ("a", "b"))]),
    ),
    "most rows of another model": (
        "PL487",
        "error",
        "300 of 400 rows of table document_chunk were made by other/model; the plan has toy/bag-of-words. They are in 1 "
        "collection, as a.",
        assign(store__table_sources=[_pgvector.Source(OTHER, 300, 1, ("a",)), _pgvector.Source(OURS, 100, 9, ())]),
    ),
    "pools beyond the server": (
        "PL488",
        "warning",
        "Open WebUI is connected from 4 addresses and may open 30 connections from each; PostgreSQL takes 97 besides 3 for "
        "administrators (max_connections).",
        assign(store__server=_pgvector.Connections(100, 3, 9, 4)),
    ),
    "server nearly full": (
        "PL488",
        "warning",
        "90 of 97 connections of PostgreSQL are in use (max_connections).",
        assign(store__server=_pgvector.Connections(100, 3, 90, 1)),
    ),
    "rows of another dimension": (
        "PL489",
        "warning",
        "7 of 900 rows of table document_chunk, in 1 collection, hold no vector of 256 numbers: they are empty, end in zeros, "
        "or go on where the column should be filled up with zeros.",
        assign(store__table_misfits=_pgvector.Misfits(900, 7, 1)),
    ),
}


@pytest.mark.parametrize(
    ("rule_id", "severity", "message", "plant"),
    [pytest.param(*row, id=name, marks=pytest.mark.rule(row[0], fires=True)) for name, row in FAULTS.items()],
)
def test_fault(rule_id: str, severity: str, message: str, plant: Change) -> None:
    stack = Stack()
    plant(stack)
    found = [(one["id"], one["severity"], one["message"], one["where"]["hop"]) for one in stack.run()["findings"]]
    assert found == [(rule_id, severity, message, "vector_store")]


@pytest.mark.rule("PL479", "PL480", "PL487", "PL488", "PL489", fires=False)
def test_healthy() -> None:
    result = Stack().run()
    assert result["findings"] == []
    measured = result["measurements"]
    assert measured["recall of the index"] == {"searches": 20, "by_index": 20, "recall": 0.98}
    assert measured["connections of the vector store"] == {
        "most": 100,
        "reserved": 3,
        "used": 9,
        "clients": 1,
        "each": 30,
    }
    assert measured["models of the rows"]["models"][0] == {"model": MODEL, "rows": 19000, "collections": 40}


def skipped(stack: Stack) -> list[str]:
    result = stack.run()
    assert result["findings"] == []
    return [reason for check in result["checks"] for reason in check["skipped"]]


def test_a_small_table_is_searched_exactly() -> None:
    stack = Stack()
    stack.store.table_rows, stack.store.table_indexes = 999, []
    assert "recall of index search: 999 rows are too few; from 1000 on it is measured" in skipped(stack)
    stack.store.table_rows = 4999
    assert "recall of index search: there is no index, so that every search is exact" in skipped(stack)


def test_there_may_be_no_table_yet() -> None:
    stack = Stack()
    empty = dataclasses.replace(stack.store.description, column_type=None, column_dimensions=None)
    stack.store.description, stack.store.table_rows = empty, 0
    assert skipped(stack).count("table document_chunk does not exist until something is stored") == 2


def test_a_question_that_the_server_refuses_is_said() -> None:
    stack = Stack()

    async def slow() -> Any:
        raise _pgvector.ServiceError("canceling statement due to statement timeout")

    stack.store.sources = slow
    assert "canceling statement due to statement timeout" in skipped(stack)


@pytest.mark.parametrize(
    ("env", "connections"),
    [
        ({}, 30),
        ({"UVICORN_WORKERS": "4"}, 120),
        ({"DATABASE_POOL_SIZE": "10", "DATABASE_POOL_MAX_OVERFLOW": "5", "PGVECTOR_POOL_SIZE": "3"}, 18),
        ({"DATABASE_POOL_SIZE": "0"}, None),
        ({"PGVECTOR_POOL_SIZE": "many"}, 30),
    ],
)
def test_pools(env: dict[str, str], connections: int | None) -> None:
    assert store.pool(env) == connections


@pytest.mark.parametrize(
    ("env", "method", "pgvector", "mode"),
    [
        ({}, "ivfflat", "0.8.5", "relaxed_order"),
        ({"PGVECTOR_ITERATIVE_SCAN": "strict_order"}, "hnsw", "0.8.0", "strict_order"),
        ({"PGVECTOR_ITERATIVE_SCAN": "strict_order"}, "ivfflat", "0.8.0", "relaxed_order"),
        ({"PGVECTOR_ITERATIVE_SCAN": "off"}, "hnsw", "0.8.5", "off"),
        ({}, "hnsw", "0.7.4", "off"),
    ],
)
def test_the_search_goes_on_as_open_webui_lets_it(env: dict[str, str], method: str, pgvector: str, mode: str) -> None:
    found = store.iterative_scan({"open_webui": {"env": env}}, _pgvector.Index(NAME, method, COSINE, True), pgvector)
    assert found == mode


@pytest.mark.parametrize(
    ("env", "halfvec", "method"),
    [({}, False, "ivfflat"), ({}, True, "hnsw"), ({"PGVECTOR_INDEX_METHOD": "ivfflat"}, True, "ivfflat")],
)
def test_planned_method(env: dict[str, str], halfvec: bool, method: str) -> None:
    assert store.planned_method({"open_webui": {"env": env}, "vector_store": {"halfvec": halfvec}}) == method
