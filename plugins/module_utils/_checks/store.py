# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The vector store itself, only read: its index, what the index finds, who made the rows, and room for connections."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._checks import _context, _faults
from ansible_collections.plumbline.rag.plugins.module_utils._checks.ingestion import noted_model
from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, WARNING, Finding
from ansible_collections.plumbline.rag.plugins.module_utils._http import ServiceError
from ansible_collections.plumbline.rag.plugins.module_utils._pgvector import (
    Connections,
    Index,
    Misfits,
    Pgvector,
    Recall,
    Source,
)

HOP = _context.VECTOR_STORE
_TABLE = "vector store"
# Open WebUI makes an ivfflat index at its start once the table holds so many rows for each of its lists.
_TRAINING_ROWS = 50
_FEWEST_ROWS = 1000
_SEARCHES = 20
_NEAREST = 10
_GOOD_RECALL, _POOR_RECALL = 0.9, 0.5
_FULL = 0.9
# SQLAlchemy's own, which Open WebUI leaves alone unless a size is set: a pool of 5 and 10 above it.
_DEFAULT_POOL = 15
_POOLS = (
    ("DATABASE_POOL_SIZE", "DATABASE_POOL_MAX_OVERFLOW"),
    ("PGVECTOR_POOL_SIZE", "PGVECTOR_POOL_MAX_OVERFLOW"),
)


def _reading(check: Callable[[_context.Context, Pgvector, _context.Outcome], Awaitable[None]]) -> _context.Check:
    """A check of a store that can be read and holds a table; a failed question is said, for others may still be answered."""

    async def run(context: _context.Context, before: _context.Before) -> _context.Outcome:
        if before[_TABLE].failed or context.store is None:
            return _context.Outcome(skipped=["the vector store cannot be read"])
        outcome = _context.Outcome()
        try:
            await check(context, context.store, outcome)
        except ServiceError as error:
            outcome.skipped.append(str(error))
        return outcome

    return run


@_reading
async def index(context: _context.Context, store: Pgvector, outcome: _context.Outcome) -> None:
    """There is a valid index of the planned kind, where there has to be one."""
    described, rows, found = await store.describe(), await store.rows(), await store.indexes()
    if described.column_type is None:
        outcome.skipped.append(_no_table(context))
        return
    outcome.measurements.update(
        rows=rows, indexes=[{"name": one.name, "method": one.method, "valid": one.valid} for one in found]
    )
    outcome.findings += judge_indexes(found, rows, planned_method(context.plan), described.column_type, context.plan)


@_reading
async def recall(context: _context.Context, store: Pgvector, outcome: _context.Outcome) -> None:
    """Searches as Open WebUI makes them return the nearest rows."""
    described, rows, found = await store.describe(), await store.rows(), await store.indexes()
    usable = [one for one in found if one.valid]
    if rows < _FEWEST_ROWS:
        outcome.skipped.append(
            f"recall of index search: {rows} rows are too few; from {_FEWEST_ROWS} on it is measured"
        )
    elif not usable:
        outcome.skipped.append("recall of index search: there is no index, so that every search is exact")
    else:
        iterative = iterative_scan(context.plan, usable[0], described.pgvector)
        measured = await store.recall(described, usable[0], iterative, rows, _SEARCHES, _NEAREST)
        outcome.measurements.update(searches=measured.searches, by_index=measured.by_index)
        outcome.measurements["recall"] = measured.found / measured.wanted if measured.wanted else 1.0
        outcome.findings += judge_recall(measured, usable[0], context.plan)


@_reading
async def rows(context: _context.Context, store: Pgvector, outcome: _context.Outcome) -> None:
    """The rows were made by the planned model, with its dimension."""
    described = await store.describe()
    if described.column_type is None:
        outcome.skipped.append(_no_table(context))
        return
    plan = context.plan
    width, dimension = described.column_dimensions or 0, plan["embedder"]["dimensions"]
    if width >= dimension:
        misfits = await store.misfits(await store.rows(), width, dimension)
        outcome.measurements.update(looked_at=misfits.rows, misfits=misfits.misfits)
        outcome.findings += judge_misfits(misfits, dimension, plan)
    sources = await store.sources()
    outcome.measurements["models"] = [
        {"model": noted_model(source.noted), "rows": source.rows, "collections": source.collections}
        for source in sources
    ]
    outcome.findings += judge_sources(sources, plan["open_webui"]["embedding_model"], plan)


@_reading
async def connections(context: _context.Context, store: Pgvector, outcome: _context.Outcome) -> None:
    """The server has room for all pools of Open WebUI."""
    found = await store.connections()
    each = pool(context.plan["open_webui"]["env"])
    outcome.measurements.update(
        most=found.most, reserved=found.reserved, used=found.used, clients=found.clients, each=each
    )
    outcome.findings += judge_connections(found, each)


def planned_method(plan: Mapping[str, Any]) -> str:
    """The kind of index that Open WebUI makes: ivfflat, unless told otherwise or with half precision."""
    method = plan["open_webui"]["env"].get("PGVECTOR_INDEX_METHOD")
    return str(method or ("hnsw" if plan["vector_store"].get("halfvec") else "ivfflat"))


def iterative_scan(plan: Mapping[str, Any], found: Index, pgvector: str | None) -> str:
    """How Open WebUI lets an index search go on until it has enough rows; pgvector can from 0.8 on."""
    mode = str(plan["open_webui"]["env"].get("PGVECTOR_ITERATIVE_SCAN") or "relaxed_order")
    if mode == "off" or pgvector is None or pgvector.startswith(("0.5.", "0.6.", "0.7.")):
        return "off"
    return "strict_order" if mode == "strict_order" and found.method == "hnsw" else "relaxed_order"


def judge_indexes(
    found: Sequence[Index], rows: int, method: str, column_type: str, plan: Mapping[str, Any]
) -> Iterator[Finding]:
    """What is wrong with the indexes of a table with so many rows."""
    table = plan["vector_store"]["table"]

    def finding(message: str, severity: str | None = None) -> Finding:
        return _faults.INDEX.finding(message, severity=severity, variable="rag_pgvector_index", hop=HOP)

    lists = int(plan["open_webui"]["env"].get("PGVECTOR_IVFFLAT_LISTS") or 100)
    wanted = method == "hnsw" or rows >= _TRAINING_ROWS * lists
    if not found and wanted:
        message = (
            f"Table {table} has {rows} rows and no vector index; the plan has {method}. Every search reads all rows of its "
            "knowledge base."
        )
        yield finding(message, WARNING)
    for one in found:
        opclass, where = f"{column_type}_cosine_ops", f"Index {one.name} of table {table}"
        if not one.valid:
            yield finding(f"{where} is not valid: its building was interrupted, and no search uses it.")
        elif one.method != method:
            yield finding(
                f"{where} is {one.method}; the plan has {method}, and Open WebUI refuses to start or to search."
            )
        elif one.opclass != opclass:
            message = f"{where} is made for {one.opclass}; Open WebUI searches by cosine, which needs {opclass}."
            yield finding(message, WARNING)


def judge_recall(found: Recall, used: Index, plan: Mapping[str, Any]) -> Iterator[Finding]:
    """Too few of the nearest rows are found."""
    share = found.found / found.wanted if found.wanted else 1.0
    if share >= _GOOD_RECALL:
        return
    message = (
        f"{found.searches} searches in table {plan['vector_store']['table']}, as Open WebUI makes them, return {share:.0%} of the "
        f"{_NEAREST} nearest rows; {found.by_index} of them used the {used.method} index {used.name}."
    )
    severity = ERROR if share < _POOR_RECALL else WARNING
    yield _faults.RECALL.finding(message, severity=severity, variable="rag_pgvector_index", hop=HOP)


def judge_misfits(found: Misfits, dimension: int, plan: Mapping[str, Any]) -> Iterator[Finding]:
    """Rows that no search can rank rightly."""
    if not found.misfits:
        return
    where = f"table {plan['vector_store']['table']}, in {_counted(found.collections, 'collection')}"
    message = (
        f"{found.misfits} of {found.rows} rows of {where}, hold no vector of {dimension} numbers: they are empty, end in zeros, "
        "or go on where the column should be filled up with zeros."
    )
    yield _faults.MISFITS.finding(message, variable="rag_embedder_dimensions", hop=HOP)


def judge_sources(found: Sequence[Source], model: str, plan: Mapping[str, Any]) -> Iterator[Finding]:
    """Rows that another model made: an error when they are the majority of those that say."""
    told = [(noted, source) for source in found if (noted := noted_model(source.noted)) is not None]
    total = sum(source.rows for _noted, source in told)
    others = sum(source.rows for noted, source in told if noted != model)
    for noted, source in told:
        if noted == model:
            continue
        some = ", ".join(source.examples)
        message = (
            f"{source.rows} of {total} rows of table {plan['vector_store']['table']} were made by {noted}; the plan has {model}. "
            f"They are in {_counted(source.collections, 'collection')}, as {some}."
        )
        severity = ERROR if 2 * others > total else WARNING
        yield _faults.FOREIGN.finding(message, severity=severity, variable="rag_embedder", hop=HOP)


def judge_connections(found: Connections, each: int | None) -> Iterator[Finding]:
    """All pools together, or what is in use now, exceed what the server takes."""
    free = found.most - found.reserved
    if each is not None and found.clients * each > free:
        message = (
            f"Open WebUI is connected from {_counted(found.clients, 'address')} and may open {each} connections from each; "
            f"PostgreSQL takes {free} besides {found.reserved} for administrators (max_connections)."
        )
        yield _faults.CONNECTIONS.finding(message, variable="rag_open_webui_env", hop=HOP)
    elif found.used > _FULL * free:
        message = f"{found.used} of {free} connections of PostgreSQL are in use (max_connections)."
        yield _faults.CONNECTIONS.finding(message, variable="rag_open_webui_env", hop=HOP)


def pool(env: Mapping[str, Any]) -> int | None:
    """The most connections of one container of Open WebUI; None when a pool has no bound."""
    total = 0
    for size_name, overflow_name in _POOLS:
        size = _number(env.get(size_name))
        if size == 0:
            return None
        total += _DEFAULT_POOL if size is None else size + (_number(env.get(overflow_name)) or 0)
    return total * (_number(env.get("UVICORN_WORKERS")) or 1)


def _number(value: Any) -> int | None:
    text = str(value)
    return int(text) if text.isdecimal() else None


def _counted(number: int, name: str) -> str:
    plural = f"{name}es" if name.endswith("s") else f"{name}s"
    return f"{number} {name if number == 1 else plural}"


def _no_table(context: _context.Context) -> str:
    return f"table {context.plan['vector_store']['table']} does not exist until something is stored"
