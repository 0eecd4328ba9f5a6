# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on several processes of Open WebUI over one database, and on ports that services share. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, WARNING, Finding, register
from ansible_collections.plumbline.rag.plugins.module_utils._rules._subject import Subject, truthy

SEVERAL = register(
    "PL186",
    ERROR,
    "Several processes of Open WebUI lack what they need to agree",
    "Without Redis each process keeps its own settings and sockets, embedded Chroma ends workers, and two migrations at once "
    "leave a database between two versions. A change over the API reaches the process that answers, and the others answer with "
    "the old model until they restart.",
    "Use one container with one worker, or set REDIS_URL, WEBSOCKET_MANAGER: redis and rag_vector_store: pgvector.",
    example="rag_open_webui_env:\n  UVICORN_WORKERS: 4\nrag_open_webui_variant: full\nrag_vector_store: chroma",
    source="open-webui/helm-charts#334, open-webui/open-webui#10278, open-webui/open-webui#21349",
)
PORT_TAKEN = register(
    "PL178",
    ERROR,
    "Two services publish the same port of a host",
    "The container that starts second does not start.",
    "Give one of them another port, or another host.",
    example="rag_open_webui_port: 8000    # beside an embedder that publishes 8000",
    source="Docker: bind for a port failed, port is already allocated",
    acknowledgeable=False,
)


def _missing(subject: Subject) -> Iterator[tuple[str, str]]:
    """What several processes lack, as the variable and the words."""
    env, variable = subject.env, "rag_open_webui_env"
    for name in ("REDIS_URL", "WEBSOCKET_MANAGER"):
        if not str(env.get(name) or "").strip():
            yield variable, f"{name} is not set"
    if subject.spec["rag_vector_store"] == "chroma" and "CHROMA_HTTP_HOST" not in env:
        yield "rag_vector_store", "rag_vector_store is chroma, which runs inside one process"
    if not truthy(env.get("ENABLE_PERSISTENT_CONFIG", True)):
        yield variable, "ENABLE_PERSISTENT_CONFIG is not true"
    if not truthy(env.get("ENABLE_WEBSOCKET_SUPPORT", True)):
        yield variable, "ENABLE_WEBSOCKET_SUPPORT is not true"
    oauth = any(name.startswith(("OAUTH_", "OPENID_")) or name.endswith("_CLIENT_ID") for name in env)
    if oauth and "OAUTH_SESSION_TOKEN_ENCRYPTION_KEY" not in env:
        yield variable, "OAUTH_SESSION_TOKEN_ENCRYPTION_KEY is not set, and each process would make one"


def several(subject: Subject) -> Iterator[Finding]:
    if subject.processes() == 1:
        return
    for variable, text in _missing(subject):
        message = f"{subject.processes()} processes of Open WebUI share a database, and {text}."
        yield SEVERAL.finding(message, variable=variable)
    if subject.spec["rag_open_webui_replicas"] > 1:
        message = f"rag_open_webui_replicas is {subject.spec['rag_open_webui_replicas']}; this release runs one container of Open WebUI on a host."
        yield SEVERAL.finding(message, "Put more hosts into rag_open_webui.", variable="rag_open_webui_replicas")
    if subject.workers() > 1:
        message = f"UVICORN_WORKERS is {subject.workers()}: a change of the settings reaches one worker until the container restarts."
        yield SEVERAL.finding(message, severity=WARNING, variable="rag_open_webui_env")


def ports(plans: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    """Ports that two services, of one installation or of two, publish on one host; ``plans`` by installation."""
    taken: dict[tuple[str, int], list[tuple[str, str, str]]] = {}
    for installation, plan in plans.items():
        for host, services in plan["hosts"].items():
            for name, service in services.items():
                publish = None if name == "images" else service["publish"]
                if publish is None:
                    continue
                mine = (publish["address"], installation, name)
                for other in taken.setdefault((host, publish["port"]), []):
                    if other[0] == mine[0] or "0.0.0.0" in (other[0], mine[0]):
                        message = f"{other[2]} of {other[1]} and {name} of {installation} both publish port {publish['port']} of {host}."
                        variable = "rag_open_webui_port" if "open_webui" in (name, other[2]) else "rag_installation"
                        yield PORT_TAKEN.finding(message, variable=variable, host=host)
                taken[host, publish["port"]].append(mine)


RULES = (several,)
