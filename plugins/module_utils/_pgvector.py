# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read-only client of a pgvector store. Vectors are read as text, so that no package beyond psycopg is needed."""

from __future__ import annotations

import json
from collections.abc import Sequence
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

    async def chunks(self, collection: str) -> list[Chunk]:
        """The chunks of one collection."""
        query = sql.SQL("SELECT text, vector::text, vmetadata FROM {} WHERE collection_name = %s").format(
            sql.Identifier(self._table)
        )
        rows = await self._rows(query, (collection,))
        return [
            Chunk(
                text if isinstance(text, str) else None,
                json.loads(vector or "[]"),
                metadata if isinstance(metadata, dict) else {},
            )
            for text, vector, metadata in rows
        ]

    async def count(self, collections: Sequence[str]) -> int:
        """How many chunks these collections hold together."""
        query = sql.SQL("SELECT count(*) FROM {} WHERE collection_name = ANY(%s)").format(sql.Identifier(self._table))
        rows = await self._rows(query, (list(collections),))
        return int(rows[0][0])

    async def _rows(self, query: Any, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        try:
            async with await psycopg.AsyncConnection.connect(**self._parameters) as connection:
                cursor = await connection.execute(query, parameters)
                return list(await cursor.fetchall())
        except psycopg.Error as error:
            detail = " ".join(self._redact(str(error)).split()) or type(error).__name__
            raise ServiceError(f"{self._where}: {detail}") from None
