# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on secrets and on who decides a setting. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ansible_collections.plumbline.rag.plugins.module_utils import _wiring
from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, NOTE, Finding, register
from ansible_collections.plumbline.rag.plugins.module_utils._rules._subject import Subject

WEAK_SECRET = register(
    "PL170",
    ERROR,
    "A secret is missing, empty, well known or of the wrong length",
    "An empty secret is replaced by one that is lost with the container; a well-known one is no secret; and an admin "
    "password of more than 72 bytes creates no admin and leaves sign-up open to the next stranger.",
    "Remove the variable to have a secret generated, or give one of 16 to 72 bytes; LiteLLM's master key begins with sk-.",
    example="rag_litellm_master_key: sk-1234",
    source="BerriAI/litellm#42019, open-webui/open-webui#27645; Open WebUI hashes passwords with bcrypt",
    acknowledgeable=False,
)
ENV_CONFLICT = register(
    "PL171",
    ERROR,
    "rag_open_webui_env sets what the plan sets",
    "Two places would decide the same variable, and verification would expect the other value.",
    "Remove it from rag_open_webui_env and use the rag_ variable for it.",
    example="rag_open_webui_env:\n  RAG_TOP_K: 3    # rag_top_k: 3",
    source="Osmantic/ODS#1937",
)
ENV_VALUE = register(
    "PL172",
    ERROR,
    "rag_open_webui_env has a value that is no environment value",
    "An environment value is text; a list, a mapping or nothing arrives as something else, and an empty number stops the start.",
    "Give a string, number or boolean, or remove the variable.",
    example="rag_open_webui_env:\n  CHUNK_SIZE:",
    source="ansible-collections/community.docker#156; Open WebUI parses most numbers when it is imported",
    acknowledgeable=False,
)
OPEN_ROUTES = register(
    "PL194",
    NOTE,
    "An engine listens on the network with routes that no key guards",
    "vLLM's key guards the paths below /v1, /v2, /inference and /cohere. /rerank, /score, /pooling and /tokenize answer anybody who "
    "reaches the port.",
    "Let a firewall admit only the hosts of the proxy and of Open WebUI.",
    example="rag_embedders: {hosts: {gpu1: }}    # and Open WebUI on another host",
    source="vLLM 0.33.0 entrypoints: the guard is a prefix of the path",
)
WELL_KNOWN = frozenset({"sk-1234", "changeme", "password", "secret", "admin", "t0p-s3cr3t", "postgres"})
LIMITS = {
    "rag_litellm_master_key": (16, 256),
    "rag_litellm_salt_key": (16, 256),
    "rag_open_webui_secret_key": (16, 256),
    "rag_open_webui_admin_password": (8, 72),
}


def weak_secret(subject: Subject) -> Iterator[Finding]:
    for variable, (least, most) in LIMITS.items():
        value = subject.secrets.get(variable)
        if value is None:
            continue
        length = len(value.encode())
        problem = None
        if not value.strip():
            problem = "is empty"
        elif value.lower() in WELL_KNOWN:
            problem = "is a publicly known default"
        elif not least <= length <= most:
            problem = f"has {length} bytes; {least} to {most} are right"
        elif variable == "rag_litellm_master_key" and not value.startswith("sk-"):
            problem = "does not begin with sk-"
        if problem is not None:
            yield WEAK_SECRET.finding(f"{variable} {problem}.", variable=variable)
    keys = [(name, subject.secrets[name]) for name in LIMITS if subject.secrets.get(name, "").strip()]
    for position, (name, value) in enumerate(keys):
        same = next((other for other, earlier in keys[:position] if earlier == value), None)
        if same is not None:
            message = f"{name} is the same as {same}: whoever learns one of them has both."
            yield WEAK_SECRET.finding(message, "Give each its own value, or remove them.", variable=name)
    for service, engine in (("embedder", subject.choice.embedder_engine), ("reranker", subject.choice.reranker_engine)):
        variable = f"rag_{service}_api_key"
        needed = subject.catalog.engines.get(engine or "", {}).get("key") == "required"
        if needed and not subject.secrets.get(variable, "").strip():
            yield WEAK_SECRET.finding(
                f"{variable} is not set, and {engine} answers nobody without a key.",
                f"Set {variable}.",
                variable=variable,
            )


def env(subject: Subject) -> Iterator[Finding]:
    extra = subject.spec["rag_open_webui_env"]
    settings = _wiring.open_webui_settings(subject.spec, subject.choice, "http://x/v1", "x", "http://x/v1/rerank", "x")
    bare = dataclasses.replace(subject.spec, values={**subject.spec.values, "rag_open_webui_env": {}})
    planned = set(_wiring.open_webui_env(bare, subject.choice, settings))
    planned |= {
        "WEBUI_SECRET_KEY",
        "WEBUI_ADMIN_PASSWORD",
        "DATABASE_URL",
        "PGVECTOR_DB_URL",
        "RAG_OPENAI_API_KEY",
        "RAG_EXTERNAL_RERANKER_API_KEY",
        "RAG_EMBEDDING_QUERY_PREFIX",
        "RAG_EMBEDDING_CONTENT_PREFIX",
        "RAG_EMBEDDING_OPENAI_BATCH_SIZE",
        "RAG_EXTERNAL_RERANKER_URL",
        "RAG_EXTERNAL_RERANKER_TIMEOUT",
        "PGVECTOR_INDEX_METHOD",
        "PGVECTOR_USE_HALFVEC",
        "PGVECTOR_INITIALIZE_MAX_VECTOR_LENGTH",
        "RAG_TEXT_SPLITTER",
        "CONTENT_EXTRACTION_ENGINE",
        "USE_SLIM_DOCKER",
    }
    for name, value in extra.items():
        if name in planned:
            yield ENV_CONFLICT.finding(
                f"rag_open_webui_env sets {name}, which the plan decides.", variable="rag_open_webui_env"
            )
        elif value is None or isinstance(value, (list, tuple, dict)):
            yield ENV_VALUE.finding(f"rag_open_webui_env.{name} has no text value.", variable="rag_open_webui_env")


def open_routes(subject: Subject) -> Iterator[Finding]:
    for service in subject.services():
        if "key_guards" not in service.engine or subject.plan is None:
            continue
        for host, services in subject.plan["hosts"].items():
            publish = services.get(service.kind, {}).get("publish")
            if publish:
                message = f"{service.name} publishes {publish['address']}:{publish['port']} for other hosts."
                yield OPEN_ROUTES.finding(message, variable=f"rag_{service.kind}_engine", host=host)
                break


RULES = (weak_secret, env, open_routes)
