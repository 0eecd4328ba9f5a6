# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on dimensions and the vector store. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, WARNING, Finding, register
from ansible_collections.plumbline.rag.plugins.module_utils._rules._subject import Subject, number

DIMENSIONS = register(
    "PL160",
    ERROR,
    "The dimension does not fit the model or the vector store",
    "pgvector pads shorter vectors with zeros and cuts longer ones, silently; a model that was not trained for a shorter "
    "vector gives a useless one.",
    "Remove rag_embedder_dimensions, or use one of the model's own; above 2000 dimensions use half precision.",
    example="rag_embedder: BAAI/bge-m3\nrag_embedder_dimensions: 256",
    source="open-webui/open-webui#8270, pgvector/pgvector#461, vllm-project/vllm#15465",
)
TOO_LONG = register(
    "PL161",
    ERROR,
    "Vectors are too long for an index",
    "pgvector indexes 2000 dimensions, and 4000 at half precision. Beyond that each search reads the whole table.",
    "Use a reduced dimension of the model, or another model.",
    example="rag_embedder: Qwen/Qwen3-Embedding-8B    # 4096",
    source="pgvector/pgvector#849, open-webui/open-webui#19158",
)
IVFFLAT = register(
    "PL162",
    WARNING,
    "The ivfflat index loses passages",
    "Before 0.11.4 Open WebUI built it on an empty table, so that searches miss passages without a word; and a search among "
    "collections that share a table needs the scan of pgvector 0.8 to return enough rows.",
    "Set rag_pgvector_index: hnsw, and rebuild an index that was made before.",
    example='rag_open_webui_version: "0.11.1"\nrag_pgvector_index: ivfflat',
    source="Open WebUI 0.11.4 release notes; pgvector/pgvector#259",
)
DATABASE_URL = register(
    "PL164",
    ERROR,
    "rag_database_url is not a PostgreSQL URL that both of its users take",
    "Open WebUI hands it to its own database layer and to pgvector. Only the first repairs postgres://; slim knows no other "
    "server.",
    "Write postgresql://user:password@host:5432/database, with special characters of the password percent-encoded.",
    example="rag_database_url: postgres://u:p@db/webui    # postgresql://",
    source="Open WebUI config.py: the rewrite is applied to DATABASE_URL only",
    acknowledgeable=False,
)
CONNECTIONS = register(
    "PL165",
    ERROR,
    "Open WebUI may open more connections than the database takes",
    "Each process has a pool for its tables and one for vectors. Beyond max_connections the database answers: sorry, too many "
    "clients already.",
    "Lower the pools in rag_open_webui_env or the number of processes, or use a database with more connections.",
    example="rag_open_webui_env:\n  DATABASE_POOL_SIZE: 80\n  PGVECTOR_POOL_SIZE: 40",
    source="langgenius/dify#21437, mdn/mdn-http-observatory#386",
)


def dimensions(subject: Subject) -> Iterator[Finding]:
    choice, spec = subject.choice, subject.spec
    entry = choice.embedder
    if choice.dimensions != entry.dimensions and choice.dimensions not in entry.matryoshka:
        allowed = ", ".join(str(size) for size in (*entry.matryoshka, entry.dimensions))
        message = f"rag_embedder_dimensions is {choice.dimensions}; {entry.id} has {allowed}."
        yield DIMENSIONS.finding(message, variable="rag_embedder_dimensions")
    if spec["rag_vector_store"] == "pgvector" and choice.dimensions > 2000 and spec["rag_pgvector_halfvec"] is False:
        message = f"rag_pgvector_halfvec is false and the vectors have {choice.dimensions} dimensions; pgvector indexes 2000 at full precision."
        yield DIMENSIONS.finding(message, variable="rag_pgvector_halfvec")


def too_long(subject: Subject) -> Iterator[Finding]:
    size = subject.choice.dimensions
    if subject.spec["rag_vector_store"] == "pgvector" and size > 4000:
        message = f"{subject.choice.embedder.id} has {size} dimensions; pgvector indexes 4000 at most."
        yield TOO_LONG.finding(message, variable="rag_embedder_dimensions")


def ivfflat(subject: Subject) -> Iterator[Finding]:
    spec, method = subject.spec, subject.spec["rag_pgvector_index"]
    if spec["rag_vector_store"] != "pgvector":
        return
    since = subject.catalog.versions["open_webui"]["deferred_ivfflat_from"]
    # Open WebUI takes ivfflat unless vectors have half precision
    implied = method is None and not (spec["rag_pgvector_halfvec"] or subject.choice.dimensions > 2000)
    if subject.older("open_webui", since) and (method == "ivfflat" or implied):
        message = f"Open WebUI {subject.version('open_webui')} builds the ivfflat index on an empty table; {since} is the first that does not."
        yield IVFFLAT.finding(message, variable="rag_pgvector_index")


def database_url(subject: Subject) -> Iterator[Finding]:
    url = subject.secrets.get("rag_database_url")
    if url is None:
        return
    try:
        parts = urlsplit(url)
        complete = bool(parts.hostname) and len(parts.path) > 1 and (parts.port is None or parts.port > 0)
    except ValueError:
        complete = False
        parts = urlsplit("")
    if not complete:
        message = "rag_database_url is not of the form postgresql://user:password@host:port/database."
        yield DATABASE_URL.finding(message, variable="rag_database_url")
    elif parts.scheme != "postgresql":
        message = f"rag_database_url begins with {parts.scheme}://."
        yield DATABASE_URL.finding(message, variable="rag_database_url")


def connections(subject: Subject) -> Iterator[Finding]:
    env = subject.env
    names = ("DATABASE_POOL_SIZE", "DATABASE_POOL_MAX_OVERFLOW", "PGVECTOR_POOL_SIZE", "PGVECTOR_POOL_MAX_OVERFLOW")
    if not any(name in env for name in names):
        return
    each = sum(number(env.get(name)) or 0 for name in names)
    total, limit = each * subject.processes(), subject.catalog.versions["postgres"]["max_connections"]
    if total > limit - 10:  # migrations, backups and an administrator
        given = subject.spec["rag_database_url"] is not None
        message = (
            f"{subject.processes()} processes with up to {each} connections are {total}; PostgreSQL takes {limit}"
            f"{' unless it is told otherwise' if given else ''}, and 10 are for maintenance."
        )
        yield CONNECTIONS.finding(message, severity=WARNING if given else ERROR, variable="rag_open_webui_env")


RULES = (dimensions, too_long, ivfflat, database_url, connections)
