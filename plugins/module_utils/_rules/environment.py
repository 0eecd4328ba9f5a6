# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on the extra environment of Open WebUI: what a value does when it arrives. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, NOTE, WARNING, Finding, register
from ansible_collections.plumbline.rag.plugins.module_utils._rules._subject import Subject, truthy
from ansible_collections.plumbline.rag.plugins.module_utils._spec import nearest, shown

VARIABLE = "rag_open_webui_env"
RESET = register(
    "PL173",
    ERROR,
    "Open WebUI deletes its settings at every start",
    "RESET_CONFIG_ON_START is a tool for one start: left on, whatever was set in the interface or over the API is gone after "
    "each restart, and sign-up is open again.",
    "Remove RESET_CONFIG_ON_START from rag_open_webui_env.",
    example="rag_open_webui_env:\n  RESET_CONFIG_ON_START: true",
    source="Open WebUI 0.12.4 models/config.py: Config.clear() runs at every start",
)
NOT_PERSISTENT = register(
    "PL174",
    ERROR,
    "Settings live in one process only",
    "With ENABLE_PERSISTENT_CONFIG=false the admin API writes into the memory of the process that answers. A restart forgets it "
    "and other processes never see it, so that what this collection sets and reads back is not what all users get.",
    "Remove ENABLE_PERSISTENT_CONFIG from rag_open_webui_env.",
    example="rag_open_webui_env:\n  ENABLE_PERSISTENT_CONFIG: false",
    source="Osmantic/ODS#1937, rwlove/home-ops#11958",
)
PRIVACY = register(
    "PL175",
    WARNING,
    "Open WebUI shows or sends more than it should",
    "Debug logs hold questions and keys, ENV=dev opens the API documentation, and forwarded headers tell each backend who asks.",
    "Remove the variable, or acknowledge it for a test.",
    example="rag_open_webui_env:\n  GLOBAL_LOG_LEVEL: DEBUG",
    source="BerriAI/litellm#12448; Open WebUI logs the question at each rerank",
)
ACCESS = register(
    "PL176",
    ERROR,
    "Access checks of knowledge are switched off",
    "Every user can then search every collection, whoever owns it.",
    "Remove the variable from rag_open_webui_env.",
    example="rag_open_webui_env:\n  BYPASS_RETRIEVAL_ACCESS_CONTROL: true",
    source="Open WebUI 0.11.1 and 0.12.2 release notes: fixes of collections that everybody could search",
)
MISREAD = register(
    "PL177",
    ERROR,
    "An environment value is read otherwise than it looks",
    "Open WebUI takes only the word true for true, reads numbers before anything else, and strips neither quotes nor blanks. A "
    "wrong value of the first start is stored in the database, where a corrected variable does not reach it.",
    "Write true or false, a number, or the text without quotes of its own.",
    example="rag_open_webui_env:\n  ENABLE_WEB_SEARCH: 'yes'    # true",
    source="ansible-collections/community.docker#156, docker/compose#11058; Open WebUI 0.11.4 with a quoted engine name",
)
MISSPELT = register(
    "PL180",
    WARNING,
    "An environment variable looks misspelt",
    "Open WebUI ignores names that it does not know.",
    "Correct the name, or acknowledge it.",
    example="rag_open_webui_env:\n  RAG_FILE_MAXSIZE: 50    # RAG_FILE_MAX_SIZE",
    source="Open WebUI 0.11.4 and 0.12.4: the variables that config.py and env.py read",
)
TLS_OFF = register(
    "PL181",
    WARNING,
    "Certificates are not checked",
    "Anybody on the way can read documents and keys. Embedding and reranking use two HTTP clients with a setting each.",
    "Give the CA with AIOHTTP_CLIENT_SSL_CERT_FILE and REQUESTS_CA_BUNDLE instead.",
    example="rag_open_webui_env:\n  REQUESTS_VERIFY: false",
    source="Open WebUI 0.11.4: AIOHTTP_CLIENT_* for embeddings and Docling, REQUESTS_* for reranking and Tika",
)
RETRIEVAL_OFF = register(
    "PL196",
    WARNING,
    "Retrieval is switched off",
    "Whole documents go to the language model then: embedder and reranker are deployed and never asked.",
    "Remove the variable from rag_open_webui_env.",
    example="rag_open_webui_env:\n  RAG_FULL_CONTEXT: true",
    source="Open WebUI 0.11.4 config.py",
)


def reset(subject: Subject) -> Iterator[Finding]:
    if truthy(subject.env.get("RESET_CONFIG_ON_START")):
        yield RESET.finding(f"{VARIABLE} sets RESET_CONFIG_ON_START.", variable=VARIABLE)


def not_persistent(subject: Subject) -> Iterator[Finding]:
    value = subject.env.get("ENABLE_PERSISTENT_CONFIG", True)
    if not truthy(value):
        owner = subject.spec["rag_config_owner"]
        severity = ERROR if owner == "inventory" or subject.processes() > 1 else WARNING
        message = f"{VARIABLE} sets ENABLE_PERSISTENT_CONFIG to {shown(value)} and rag_config_owner is {owner}."
        yield NOT_PERSISTENT.finding(message, severity=severity, variable=VARIABLE)


def privacy(subject: Subject) -> Iterator[Finding]:
    env = subject.env
    if str(env.get("GLOBAL_LOG_LEVEL", "")).upper() in ("DEBUG", "TRACE"):
        yield PRIVACY.finding(f"{VARIABLE} sets GLOBAL_LOG_LEVEL to {env['GLOBAL_LOG_LEVEL']}.", variable=VARIABLE)
    if str(env.get("ENV", "prod")).lower() != "prod":
        yield PRIVACY.finding(f"{VARIABLE} sets ENV to {shown(env['ENV'])}.", variable=VARIABLE)
    outside = {service.name for service in subject.services() if service.hosted}
    if truthy(env.get("ENABLE_FORWARD_USER_INFO_HEADERS")) and outside:
        message = (
            f"{VARIABLE} sets ENABLE_FORWARD_USER_INFO_HEADERS, and {', '.join(sorted(outside))} is told who asks."
        )
        yield PRIVACY.finding(message, severity=NOTE, variable=VARIABLE)


def access(subject: Subject) -> Iterator[Finding]:
    for name in ("BYPASS_RETRIEVAL_ACCESS_CONTROL", "ENABLE_RETRIEVAL_UNSCOPED_COLLECTIONS"):
        if truthy(subject.env.get(name)):
            yield ACCESS.finding(f"{VARIABLE} sets {name}.", variable=VARIABLE)


def _known(subject: Subject, kind: str) -> set[str]:
    """Names of Open WebUI's variables of one kind: whole, switches or others."""
    return set(subject.catalog.versions["open_webui"]["env"][kind])


def _misread(subject: Subject, name: str, value: object) -> str | None:
    if isinstance(value, str) and len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return "carries its own quotes"
    if isinstance(value, str) and value != value.strip() and not name.endswith(("_TEMPLATE", "_PROMPT", "_PREFIX")):
        return "has blanks at its ends, which are kept"
    switch = name.startswith("ENABLE_") or name in _known(subject, "switches")
    if switch and str(value).strip().lower() not in ("true", "false"):
        return f"is {shown(value)}, which means false"
    if name in _known(subject, "whole") and not re.fullmatch(r"-?[0-9]{1,10}", str(value).strip()):
        return f"is {shown(value)}, which is no whole number"
    return None


def misread(subject: Subject) -> Iterator[Finding]:
    for name, value in subject.env.items():
        problem = None if value is None or isinstance(value, (list, tuple, dict)) else _misread(subject, name, value)
        if problem is not None:
            yield MISREAD.finding(f"{VARIABLE}.{name} {problem}.", variable=VARIABLE)


def misspelt(subject: Subject) -> Iterator[Finding]:
    names = _known(subject, "whole") | _known(subject, "switches") | _known(subject, "others")
    for name in subject.env:
        if name.startswith(("RAG_", "PGVECTOR_", "CHUNK_")) and name not in names:
            close = nearest(name, names)
            yield MISSPELT.finding(
                f"Open WebUI has no variable {name}.", f"Did you mean {close}?" if close else None, variable=VARIABLE
            )


def tls_off(subject: Subject) -> Iterator[Finding]:
    for name in ("AIOHTTP_CLIENT_SESSION_SSL", "REQUESTS_VERIFY"):
        value = subject.env.get(name, True)
        if str(value).lower() == "false":
            yield TLS_OFF.finding(f"{VARIABLE} sets {name} to {shown(value)}.", variable=VARIABLE)


def retrieval_off(subject: Subject) -> Iterator[Finding]:
    for name in ("BYPASS_EMBEDDING_AND_RETRIEVAL", "RAG_FULL_CONTEXT"):
        if truthy(subject.env.get(name)):
            yield RETRIEVAL_OFF.finding(f"{VARIABLE} sets {name}.", variable=VARIABLE)


RULES = (reset, not_persistent, privacy, access, misread, misspelt, tls_off, retrieval_off)
