# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The running versions, against the plan and its floors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _engines, _litellm, _versions
from ansible_collections.plumbline.rag.plugins.module_utils._checks import _context, _faults
from ansible_collections.plumbline.rag.plugins.module_utils._docker import Container
from ansible_collections.plumbline.rag.plugins.module_utils._findings import Finding
from ansible_collections.plumbline.rag.plugins.module_utils._http import ServiceError, Unreachable

# Parts of the plan that may have a container, with the hop that each belongs to.
_HOPS: Mapping[str, str] = {
    "embedder": _context.ENGINE,
    "proxy": _context.PROXY,
    "open_webui": _context.OPEN_WEBUI,
    "vector_store": _context.VECTOR_STORE,
    "reranker": _context.RERANKER,
}


async def open_webui(context: _context.Context, _before: _context.Before) -> _context.Outcome:
    """Open WebUI's version, as it tells anybody."""
    plan = context.plan["open_webui"]
    running = (await context.open_webui.public_config()).get("version")
    return _compared("open_webui", "Open WebUI", running, plan, "rag_open_webui_version", _context.OPEN_WEBUI)


async def proxy(context: _context.Context, _before: _context.Before) -> _context.Outcome:
    """The proxy's version, which needs its key."""
    plan = context.plan["proxy"]
    try:
        running = await _litellm.version(context.http, plan["base_url"], context.secret(plan.get("api_key_secret")))
    except Unreachable:
        raise
    except ServiceError as error:
        return _context.Outcome([_faults.VERSION_UNKNOWN.finding(str(error), hop=_context.PROXY)])
    return _compared("litellm", "LiteLLM", running, plan, "rag_litellm_version", _context.PROXY)


async def engines(context: _context.Context, _before: _context.Before) -> _context.Outcome:
    """What the engines tell of themselves; recorded, for their floors are checked before they are deployed."""
    outcome = _context.Outcome()
    for name in ("embedder", "reranker"):
        plan = context.plan.get(name)
        if not plan:
            continue
        base_url = plan.get("base_url") or plan["url"].rsplit("/", 1)[0]
        try:
            key = context.secret(plan.get("api_key_secret"))
            found = await _engines.info(context.http, plan["engine"], base_url, key)
        except ServiceError as error:
            outcome.skipped.append(f"{name}: {error}")
            continue
        if found:
            outcome.measurements[name] = found
        if isinstance(found.get("version"), str):
            outcome.versions[name] = found["version"]
    return outcome


async def store(context: _context.Context, _before: _context.Before) -> _context.Outcome:
    """PostgreSQL and its vector extension."""
    plan = context.plan["vector_store"]
    if context.store is None:
        return _context.Outcome(skipped=["only a pgvector store can be read"])
    try:
        found = await context.store.describe()
    except ServiceError as error:
        return _context.Outcome([_faults.STORE_UNREACHABLE.finding(str(error), hop=_context.VECTOR_STORE)])
    outcome = _context.Outcome(versions={"postgres": found.postgres})
    outcome.measurements["column"] = {"type": found.column_type, "dimensions": found.column_dimensions}
    if found.pgvector is None:
        message = f"Database {plan['database']} on {plan['host']}:{plan['port']} cannot have the extension `vector`."
        outcome.findings.append(_faults.NO_PGVECTOR.finding(message, hop=_context.VECTOR_STORE))
        return outcome
    outcome.versions["pgvector"] = found.pgvector
    floor = {"floor": plan.get("pgvector_floor")}
    outcome.findings += _floor("pgvector", found.pgvector, floor, "rag_postgres_version", _context.VECTOR_STORE)
    return outcome


async def images(context: _context.Context, _before: _context.Before) -> _context.Outcome:
    """The images that the containers of this host were started from, against the plan's."""
    found = {
        name: {"image": container.image, "id": container.image_id, "digests": list(container.digests)}
        for name, container in sorted(context.containers.items())
    }
    if not found:
        return _context.Outcome(skipped=["no container of the plan is on this host"])
    wanted = context.plan.get("images") or {}
    hops = {(context.plan.get(key) or {}).get("container"): hop for key, hop in _HOPS.items()}
    outcome = _context.Outcome(measurements=found)
    for name in found:
        if name in wanted:
            hop = hops.get(name, _context.OPEN_WEBUI)
            outcome.findings += _image(context.containers[name], wanted[name], hop)
    return outcome


def _image(container: Container, wanted: str, hop: str) -> Iterator[Finding]:
    if container.image != wanted:
        message = f"{container.name} runs {container.image}; the plan has {wanted}."
    elif container.named_id not in (None, container.image_id):
        message = (
            f"{container.name} runs the image {container.image_id}, which was called {wanted} when it was started; "
            f"that name now means {container.named_id}."
        )
    else:
        return
    yield _faults.IMAGE_DRIFT.finding(message, variable="rag_image_source", hop=hop)


def _compared(
    name: str, label: str, running: Any, plan: Mapping[str, Any], variable: str, hop: str
) -> _context.Outcome:
    if not isinstance(running, str) or not running:
        message = f"{label} tells no version."
        return _context.Outcome([_faults.VERSION_UNKNOWN.finding(message, variable=variable, hop=hop)])
    outcome = _context.Outcome(versions={name: running})
    outcome.findings += _floor(label, running, plan, variable, hop)
    planned = plan.get("version")
    if planned and _versions.parse(running) != _versions.parse(planned):
        message = f"{label} runs {running}; the plan has {planned}."
        outcome.findings.append(_faults.VERSION_DRIFT.finding(message, variable=variable, hop=hop))
    return outcome


def _floor(label: str, running: str, plan: Mapping[str, Any], variable: str, hop: str) -> Iterator[Finding]:
    floor = plan.get("floor")
    if floor and _versions.below(running, floor):
        message = f"{label} runs {running}, below the floor {floor}."
        yield _faults.VERSION_FLOOR.finding(message, variable=variable, hop=hop)
