# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait until a container does its work, and say why it does not."""

from __future__ import annotations

import time
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _symptoms
from ansible_collections.plumbline.rag.plugins.module_utils._findings import Finding

# So many restarts, and one more under way, is a container that cannot start.
RESTARTS = 3
# One that ends slowly does not get there within a minute: two restarts are enough by then.
SLOW_RESTARTS = 2
PATIENCE = 50
LOG_LINES = 40
# A traceback may be long, and its cause stands above it.
READ_LINES = 400
CONFLICT = 409


class NotReady(Exception):
    """The container does not do its work; the message says how that shows, ``state`` is the engine's of its last end."""

    def __init__(self, message: str, state: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.state = state or {}


def judge(inspected: Mapping[str, Any]) -> bool:
    """Whether an inspected container has to be waited for; False when it is healthy. Raises NotReady when waiting is in vain."""
    state = inspected["State"]
    if (state.get("Health") or {}).get("Status") == "healthy":
        return False
    restarts = int(inspected.get("RestartCount") or 0)
    if state.get("Restarting") and restarts >= RESTARTS:
        raise NotReady(_ended(restarts + 1, state), state)
    if state.get("Status") in ("exited", "dead"):
        raise NotReady(f"it has ended with exit code {state.get('ExitCode')}", state)
    return True


def mask(text: str, secrets: Iterable[str]) -> str:
    """The text without secrets, also as they look inside a URL."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        for form in (secret, urllib.parse.quote(secret, safe=""), urllib.parse.quote(secret)):
            text = text.replace(form, "********")
    return text


def wait(
    api: Any,
    name: str,
    timeout: float,
    pause: float = 1.0,
    clock: Callable[[], float] = time.monotonic,
    engine: bool = False,
) -> float:
    """Return the seconds after which the container's own health check succeeds; ``api`` is the low-level Docker client.

    The check is run from here as well, because the engine runs it only at its own, slower pace. ``engine`` says that the
    log is one that can be read: a restart whose cause it tells is not waited out.
    """
    started = clock()
    first: int | None = None
    seen, since = 0, started
    ended: Mapping[str, Any] = {}
    while True:
        inspected = api.inspect_container(name)
        if not inspected["State"].get("Running"):
            ended = inspected["State"]
        if not judge(inspected) or _probe(api, inspected):
            return clock() - started
        restarts = int(inspected.get("RestartCount") or 0)
        first = restarts if first is None else first
        grown = restarts - first
        if grown > seen:
            since = clock() if seen == 0 else since
            seen = grown
            found = _symptoms.recognise(_lines(api, name)) if engine else None
            if found is not None and grown > found[0].passing:
                raise NotReady(_ended(restarts, ended), ended)
        if grown >= SLOW_RESTARTS and clock() - since >= PATIENCE:
            raise NotReady(_ended(restarts, ended), ended)
        if clock() - started > timeout:
            raise NotReady(f"its health check does not succeed within {timeout:.0f} seconds", ended)
        time.sleep(pause)


def explain(api: Any, name: str, error: NotReady, secrets: Iterable[str], engine: bool = False) -> Finding:
    """The finding for a container that is not ready: from its log where that can be read, else from how it ended."""
    lines = mask("\n".join(_lines(api, name)), secrets).splitlines() if engine else []
    return _symptoms.explain(name, str(error), error.state, lines)


def _ended(times: int, state: Mapping[str, Any]) -> str:
    """How often it has ended; a container that runs again has no exit code."""
    how = f", last with exit code {state['ExitCode']}" if state.get("ExitCode") is not None else ""
    return f"it has ended {'once' if times == 1 else f'{times} times'}{how}"


def _probe(api: Any, inspected: Mapping[str, Any]) -> bool:
    if not inspected["State"].get("Running"):
        return False
    kind, *command = inspected["Config"]["Healthcheck"]["Test"]
    return _run(api, inspected["Id"], command if kind == "CMD" else ["/bin/sh", "-c", *command])


def _run(api: Any, container: str, command: list[str]) -> bool:
    """Whether a command inside the container succeeds."""
    try:
        identifier = api.exec_create(container, command)["Id"]
        api.exec_start(identifier)
        return bool(api.exec_inspect(identifier)["ExitCode"] == 0)
    except Exception as error:
        # a conflict: it has ended since it was inspected
        if getattr(error, "status_code", None) != CONFLICT:
            raise
        return False


def log_end(api: Any, name: str, secrets: Iterable[str]) -> str:
    """The last lines of the container's log, masked."""
    return mask("\n".join(_lines(api, name, LOG_LINES)), secrets)


def _lines(api: Any, name: str, number: int = READ_LINES) -> list[str]:
    raw: bytes = api.logs(name, tail=number)
    return raw.decode("utf-8", "replace").rstrip().splitlines()


def answers(
    api: Any,
    name: str,
    command: list[str],
    timeout: float,
    pause: float = 1.0,
    clock: Callable[[], float] = time.monotonic,
) -> float:
    """Return the seconds after which ``command``, which asks a healthy container for real work, succeeds inside it."""
    started = clock()
    while not _run(api, name, command):
        judge(api.inspect_container(name))
        if clock() - started > timeout:
            raise NotReady(f"it is healthy, and a real request does not succeed within {timeout:.0f} seconds")
        time.sleep(pause)
    return clock() - started
