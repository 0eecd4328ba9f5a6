# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read-only client of a pgvector store. Vectors are read as text, so that no package beyond psycopg is needed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._http import Redactor, ServiceError

try:
    import psycopg
    from psycopg import sql

    PSYCOPG_ERROR: Exception | None = None
except ImportError as error:
    PSYCOPG_ERROR = error

# Open WebUI creates the extension when it first stores something: until then, what can be created counts.
_EXTENSION = """
SELECT coalesce(installed_version, default_version) FROM pg_available_extensions WHERE name = 'vector'
"""
_COLUMN = """
SELECT a.atttypmod, t.typname FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = to_regclass(%s) AND a.attname = 'vector'
"""
_INDEXES = """
SELECT c.relname, m.amname, o.opcname, i.indisvalid AND i.indisready
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam
JOIN pg_opclass o ON o.oid = i.indclass[0]
WHERE i.indrelid = to_regclass(%s) AND m.amname IN ('hnsw', 'ivfflat')
"""
# A table that was never analysed says -1, and a count of a large one takes long.
_ROWS = "SELECT reltuples::bigint FROM pg_class WHERE oid = to_regclass(%s)"
# Of other users' sessions only the database is shown; our own are told apart by their name.
_CONNECTIONS = """
SELECT current_setting('max_connections')::int,
  current_setting('superuser_reserved_connections')::int + coalesce(current_setting('reserved_connections', true), '0')::int,
  count(*), count(DISTINCT client_addr) FILTER (WHERE usename = current_user)
FROM pg_stat_activity WHERE datid IS NOT NULL AND application_name IS DISTINCT FROM current_setting('application_name')
"""
_COUNTED_ROWS = 100_000
_SAMPLED_ROWS = 20_000
_SAMPLE_TIMEOUT = "5s"
# A real vector does not end in so many zeros.
_TAIL = 8
_SAME_DISTANCE = 1e-6


@dataclass(frozen=True)
class Chunk:
    """A stored chunk: its text, its vector and what Open WebUI noted about it; encrypted text is None."""

    text: str | None
    vector: list[float]
    metadata: dict[str, Any]


@dataclass(frozen=True)
class Store:
    """What the database says of itself."""

    postgres: str
    pgvector: str | None
    column_type: str | None
    column_dimensions: int | None


@dataclass(frozen=True)
class Index:
    """A vector index; one that is not valid is kept up to date and never used."""

    name: str
    method: str
    opclass: str
    valid: bool


@dataclass(frozen=True)
class Connections:
    """How many connections the server takes, keeps back for administrators and has now, and from how many addresses
    the user of the table has any."""

    most: int
    reserved: int
    used: int
    clients: int


@dataclass(frozen=True)
class Source:
    """Rows with the same note about the model that made them."""

    noted: str | None
    rows: int
    collections: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class Recall:
    """Searches as Open WebUI makes them against exact ones: how many of the nearest rows they return."""

    searches: int
    by_index: int
    wanted: int
    found: int


@dataclass(frozen=True)
class Misfits:
    """Rows without a vector, or with one that another dimension made."""

    rows: int
    misfits: int
    collections: int


class Pgvector:
    """Connection parameters and the questions asked with them; each question is one read-only transaction."""

    def __init__(self, *, host: str, port: int, user: str, database: str, password: str, table: str) -> None:
        self._parameters: dict[str, Any] = {
            "host": host,
            "port": port,
            "user": user,
            "dbname": database,
            "password": password,
            "connect_timeout": 5,
            "application_name": "plumbline",
            "options": "-c default_transaction_read_only=on -c statement_timeout=20000",
        }
        self._table = table
        self._where = f"PostgreSQL at {host}:{port}, database {database}"
        self._redact = Redactor([password])

    async def describe(self) -> Store:
        """Versions and the width of the vector column; the column is None until Open WebUI has stored something."""
        extension = await self._rows(_EXTENSION, ())
        column = await self._rows(_COLUMN, (self._table,))
        server = await self._rows("SHOW server_version", ())
        return Store(
            postgres=str(server[0][0]).split()[0],
            pgvector=str(extension[0][0]) if extension else None,
            column_type=str(column[0][1]) if column else None,
            column_dimensions=int(column[0][0]) if column else None,
        )

    async def chunks(self, collections: Sequence[str]) -> dict[str, list[Chunk]]:
        """The chunks of each of these collections."""
        query = self._on(
            "SELECT collection_name, text, vector::text, vmetadata FROM {} WHERE collection_name = ANY(%s)"
        )
        found: dict[str, list[Chunk]] = {collection: [] for collection in collections}
        for collection, *row in await self._rows(query, (list(collections),)):
            found[collection].append(_chunk(*row))
        return found

    async def chunk(self, collection: str, chunk_id: str) -> Chunk | None:
        """One chunk of a collection whose other chunks are none of our business."""
        query = self._on("SELECT text, vector::text, vmetadata FROM {} WHERE collection_name = %s AND id = %s")
        rows = await self._rows(query, (collection, chunk_id))
        return _chunk(*rows[0]) if rows else None

    async def count(self, collections: Sequence[str]) -> int:
        """How many chunks these collections hold together."""
        query = self._on("SELECT count(*) FROM {} WHERE collection_name = ANY(%s)")
        rows = await self._rows(query, (list(collections),))
        return int(rows[0][0])

    async def indexes(self) -> list[Index]:
        """The vector indexes of the table."""
        return [Index(*row) for row in await self._rows(_INDEXES, (self._table,))]

    async def rows(self) -> int:
        """How many rows the table has; exact for a small one."""
        estimate = await self._rows(_ROWS, (self._table,))
        if not estimate:
            return 0
        if estimate[0][0] > _COUNTED_ROWS:
            return int(estimate[0][0])
        counted = await self._rows(
            self._on("SELECT count(*) FROM (SELECT 1 FROM {} LIMIT %s) AS few"), (_COUNTED_ROWS,)
        )
        return int(counted[0][0])

    async def connections(self) -> Connections:
        """The server's limit of connections and their use."""
        (row,) = await self._rows(_CONNECTIONS, ())
        return Connections(*map(int, row))

    async def sources(self) -> list[Source]:
        """The rows by what Open WebUI noted about their model; those of memories and names carry no note."""
        query = self._on(
            "SELECT vmetadata->>'embedding_config', count(*), count(DISTINCT collection_name), "
            "(array_agg(DISTINCT collection_name))[1:3] FROM {} GROUP BY 1 ORDER BY 2 DESC"
        )
        return [Source(noted, rows, kinds, tuple(some)) for noted, rows, kinds, some in await self._rows(query, ())]

    async def misfits(self, rows: int, width: int, dimension: int) -> Misfits:
        """Rows, in a sample of a large table, that are no vectors of this dimension filled up to the column's width."""
        tail = min(_TAIL, dimension)
        bad = f"vector IS NULL OR vector_norm(subvector(vector::vector, {dimension - tail + 1}, {tail})) = 0"
        if width > dimension:
            bad += f" OR vector_norm(subvector(vector::vector, {dimension + 1}, {width - dimension})) > 0"
        query = self._on(
            f"SELECT count(*), count(*) FILTER (WHERE bad), count(DISTINCT collection_name) FILTER (WHERE bad) "
            f"FROM (SELECT collection_name, {bad} AS bad FROM {{}} TABLESAMPLE SYSTEM (%s)) AS sample"
        )
        (row,) = await self._rows(query, (_share(rows, _SAMPLED_ROWS),))
        return Misfits(*map(int, row))

    async def recall(self, store: Store, index: Index, iterative: str, rows: int, searches: int, k: int) -> Recall:
        """Search with the table's own vectors, with the index and without, in one transaction."""
        cast = sql.SQL(f"%(vector)s::{'halfvec' if store.column_type == 'halfvec' else 'vector'}")
        search = sql.SQL(
            "SELECT vector <=> {cast} FROM {table} WHERE collection_name = %(collection)s ORDER BY vector <=> {cast} LIMIT {k}"
        ).format(cast=cast, table=sql.Identifier(self._table), k=sql.Literal(k))
        sample = self._on(
            "SELECT collection_name AS collection, vector::text AS vector FROM {} TABLESAMPLE SYSTEM (%s) REPEATABLE (0) "
            "WHERE vector_norm(vector::vector) > 0 ORDER BY md5(id) LIMIT %s"
        )
        by_index = wanted = found = 0
        async with self._transaction() as connection:
            await connection.execute(f"SET LOCAL statement_timeout = '{_SAMPLE_TIMEOUT}'")
            if iterative != "off":
                await connection.execute(f"SET LOCAL {index.method}.iterative_scan = {iterative}")
            cursor = await connection.execute(sample, (_share(rows, 20 * searches), searches))
            asked = [{"collection": collection, "vector": vector} for collection, vector in await cursor.fetchall()]
            for values in asked:
                await connection.execute("SET LOCAL enable_indexscan = on")
                plan = await (await connection.execute(sql.SQL("EXPLAIN ") + search, values)).fetchall()
                by_index += any(index.name in line for (line,) in plan)
                near = [distance for (distance,) in await (await connection.execute(search, values)).fetchall()]
                await connection.execute("SET LOCAL enable_indexscan = off")
                exact = [distance for (distance,) in await (await connection.execute(search, values)).fetchall()]
                if exact:
                    wanted += len(exact)
                    found += min(len(exact), sum(distance <= exact[-1] + _SAME_DISTANCE for distance in near))
        return Recall(len(asked), by_index, wanted, found)

    def _on(self, query: str) -> Any:
        return sql.SQL(query).format(sql.Identifier(self._table))

    @contextlib.asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Any]:
        try:
            async with await psycopg.AsyncConnection.connect(**self._parameters) as connection:
                yield connection
        except psycopg.Error as error:
            detail = " ".join(self._redact(str(error)).split()) or type(error).__name__
            raise ServiceError(f"{self._where}: {detail}") from None

    async def _rows(self, query: Any, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        async with self._transaction() as connection:
            cursor = await connection.execute(query, parameters)
            return list(await cursor.fetchall())


def _chunk(text: Any, vector: str | None, metadata: Any) -> Chunk:
    return Chunk(
        text if isinstance(text, str) else None,
        json.loads(vector or "[]"),
        metadata if isinstance(metadata, dict) else {},
    )


def _share(rows: int, wanted: int) -> float:
    """The percentage of a table that holds about so many rows."""
    return 100.0 if rows <= wanted else 100.0 * wanted / rows
