# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What changes against the lock or the last plan, and what that does to stored vectors and databases. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _versions
from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, WARNING, Finding, register
from ansible_collections.plumbline.rag.plugins.module_utils._spec import shown

PATH = register(
    "PL188",
    WARNING,
    "A version cannot be reached from the one before",
    "Migrations of Open WebUI's database go one way, and some releases migrate only what the release before them left. An older "
    "program on a newer database loses data.",
    "Restore the backup that belongs to the older version, or stop at the version in between first.",
    example='rag_open_webui_version: "0.11.4"    # after 0.12.4',
    source="open-webui/open-webui#25634, open-webui/open-webui#24129, open-webui/open-webui#21349",
)
REINDEX = register(
    "PL189",
    WARNING,
    "The change makes stored vectors worthless",
    "Vectors of another model, revision, dimension or prefix do not compare with new ones. With an equal dimension nothing "
    "raises an error: old documents are just no longer found. Against a lock, which says that vectors were proven, it is an "
    "error; against the last plan alone a warning.",
    "Undo the change, or acknowledge it, deploy, and re-index every knowledge base.",
    example="rag_embedder: BAAI/bge-m3    # was intfloat/multilingual-e5-large, 1024 dimensions as well",
    source="open-webui/open-webui#11279, open-webui/open-webui#18208",
)
# of plan["verify"]: group, field, variable, effect on what is stored
_FIELDS = (
    ("embedder", "model", "rag_embedder", "reindex"),
    ("embedder", "dimensions", "rag_embedder_dimensions", "reindex"),
    ("embedder", "query_prefix", "rag_embedder_query_prefix", "reindex"),
    ("embedder", "document_prefix", "rag_embedder_document_prefix", "reindex"),
    ("embedder", "engine", "rag_embedder_engine", "none"),
    ("reranker", "model", "rag_reranker", "none"),
    ("reranker", "engine", "rag_reranker_engine", "none"),
    ("vector_store", "kind", "rag_vector_store", "reindex"),
    ("vector_store", "halfvec", "rag_pgvector_halfvec", "reindex"),
)
_VERSIONED = ("open_webui", "litellm", "postgres", "embedder", "reranker")


def extract(plan: Mapping[str, Any]) -> dict[str, Any]:
    """As much of a plan as :func:`compare` looks at."""
    wanted: dict[str, dict[str, Any]] = {}
    for group, field, _variable, _effect in _FIELDS:
        if plan["verify"].get(group):
            wanted.setdefault(group, {})[field] = plan["verify"][group].get(field)
    hosts: dict[str, dict[str, Any]] = {
        host: {
            name: {field: service[field] for field in ("version", "revision") if field in service}
            for name, service in services.items()
            if name != "images"
        }
        for host, services in plan["hosts"].items()
    }
    return {"verify": wanted, "hosts": hosts}


def _services(plan: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for services in plan["hosts"].values():
        for name, service in services.items():
            if name != "images":
                yield name, service


def _versions_of(plan: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(service["version"]) for name, service in reversed(list(_services(plan)))}


def _revision(plan: Mapping[str, Any]) -> Any:
    return next((service.get("revision") for name, service in _services(plan) if name == "embedder"), None)


def compare(previous: Mapping[str, Any], plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The changes as a list of what, variable, before, after and effect (reindex or none).

    A previous plan of another release may lack fields: what cannot be compared is no change.
    """
    changes: list[dict[str, Any]] = []

    def note(what: str, variable: str, before: Any, after: Any, effect: str) -> None:
        if before != after:
            changes.append({"what": what, "variable": variable, "before": before, "after": after, "effect": effect})

    old, new = previous["verify"], plan["verify"]
    for group, field, variable, effect in _FIELDS:
        before, after = old.get(group) or {}, new.get(group) or {}
        if field in before or field in after:
            note(f"{group} {field}", variable, before.get(field), after.get(field), effect)
    note("embedder revision", "rag_embedder_revision", _revision(previous), _revision(plan), "reindex")
    before_versions, after_versions = _versions_of(previous), _versions_of(plan)
    for name in _VERSIONED:
        variable = f"rag_{name}_version" if name in ("open_webui", "litellm", "postgres") else f"rag_{name}_engine"
        note(f"{name} version", variable, before_versions.get(name), after_versions.get(name), "none")
    note("hosts", "rag_installation", sorted(previous["hosts"]), sorted(plan["hosts"]), "none")
    return changes


def check(
    changes: list[dict[str, Any]], versions: Mapping[str, Mapping[str, Any]], proven: str | None = None
) -> list[Finding]:
    """Findings on changes: vectors that no longer compare, and versions that cannot be reached.

    ``proven`` is the time of the lock, when the changes are against one.
    """
    return [*_reindex(changes, proven), *_paths(changes, versions)]


def _reindex(changes: list[dict[str, Any]], proven: str | None) -> Iterator[Finding]:
    invalid = [change for change in changes if change["effect"] == "reindex"]
    if invalid:
        parts = "; ".join(f"{c['what']} from {shown(c['before'])} to {shown(c['after'])}" for c in invalid)
        against = "the last plan" if proven is None else f"the lock of {proven}"
        severity = None if proven is None else ERROR
        yield REINDEX.finding(
            f"Changed against {against}: {parts}.", severity=severity, variable=invalid[0]["variable"]
        )


def _paths(changes: list[dict[str, Any]], versions: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    for change in changes:
        name = change["what"].removesuffix(" version")
        if change["what"] not in ("open_webui version", "postgres version") or not (
            change["before"] and change["after"]
        ):
            continue
        before, after, known = change["before"], change["after"], versions[name]
        try:
            older, major = _versions.below(after, before), _versions.parse(before)[0] != _versions.parse(after)[0]
        except ValueError:
            continue
        variable = f"rag_{name}_version"
        if name == "postgres" and major:
            message = f"PostgreSQL {after} cannot read the data files of {before}."
            yield PATH.finding(message, "Dump the database, and restore the dump into the new one.", variable=variable)
        elif name == "open_webui" and older:
            yield PATH.finding(f"Open WebUI would go back from {before} to {after}.", variable=variable)
        elif name == "open_webui":
            for stop in known.get("stops", ()):
                if _versions.below(before, stop["version"]) and _versions.below(stop["version"], after):
                    message = f"The way from {before} to {after} leads over {stop['version']}: {stop['reason']}."
                    yield PATH.finding(message, f"Deploy {stop['version']} first.", variable=variable)
            slim = known["slim_from"]
            if _versions.below(before, slim) and not _versions.below(after, slim):
                message = f"From {slim} on slim has no Chroma, no local models and no extraction; {before} had them."
                yield PATH.finding(
                    message,
                    "Check that no knowledge base is stored in Chroma, then acknowledge this.",
                    variable=variable,
                )


def lines(changes: list[dict[str, Any]]) -> list[str]:
    """The changes as text for a terminal."""
    marks = {"reindex": "  (stored vectors become worthless: re-index)", "none": ""}
    return [f"{c['what']}: {shown(c['before'])} -> {shown(c['after'])}{marks[c['effect']]}" for c in changes]
