# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalog: what is known of models, engines, versions and images. Pure: it takes parsed documents."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, NOTE, Finding, register

KINDS = ("symmetric", "asymmetric", "query-only")
VERDICTS = ("better", "mixed", "worse", "none", "unknown")

BAD_ENTRY = register(
    "PL106",
    ERROR,
    "A catalog entry is not valid",
    "Everything that is deployed and expected is derived from the entry.",
    "Correct the entry; the entries in catalog/ are examples.",
    acknowledgeable=False,
)
OVERRIDDEN = register(
    "PL117",
    NOTE,
    "An operator's catalog entry replaces a shipped one",
    "Prefixes, limits and expected values of the model are then those of the operator's file, in the deployment and in its "
    "proof; corrections of the shipped entry in later releases do not reach it.",
    "Remove the file from rag_catalog_dirs to use the shipped entry.",
    example="rag_catalog_dirs: [models]    # holds embedders/BAAI--bge-m3.yml",
)


@dataclasses.dataclass(frozen=True)
class Embedder:
    """An embedding model: dimensions, limits, the exact prefixes and the values it must give.

    ``prefixes`` are byte-exact. ``fixtures`` carry texts and expected cosines (rows are queries, columns documents) of the
    full dimension; those of reduced ones are in ``raw``.
    """

    id: str
    dimensions: int
    matryoshka: tuple[int, ...]
    max_tokens: int
    kind: str
    query_prefix: str
    document_prefix: str
    normalized: bool
    engines: Mapping[str, Mapping[str, Any]]
    fixtures: tuple[Mapping[str, Any], ...]
    raw: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Reranker:
    """A reranking model: kind of scorer, score range per engine and published quality against no reranking."""

    id: str
    kind: str
    max_tokens: int
    score_range: Mapping[str, tuple[float, float]]
    engines: Mapping[str, Mapping[str, Any]]
    quality: Mapping[str, Any]
    fixtures: tuple[Mapping[str, Any], ...]
    raw: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Catalog:
    """All entries, by id; ``images`` are the build recipes by name and version, ``texts`` the sets that fixtures name,
    ``templates`` the chat templates that entries name."""

    embedders: Mapping[str, Embedder]
    rerankers: Mapping[str, Reranker]
    engines: Mapping[str, Mapping[str, Any]]
    versions: Mapping[str, Mapping[str, Any]]
    images: Mapping[str, Any]
    texts: Mapping[str, Any]
    templates: Mapping[str, str]


def _field(entry: Mapping[str, Any], name: str, kind: type | tuple[type, ...]) -> Any:
    value = entry.get(name)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        wanted = kind.__name__ if isinstance(kind, type) else " or ".join(k.__name__ for k in kind)
        raise ValueError(f"{name} must be a {wanted}")
    return value


def _fixtures(entry: Mapping[str, Any], texts: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Fixtures with the shared text sets filled in; expected values must have one row a query and one column a document."""
    result = []
    for fixture in entry.get("fixtures", []):
        name = fixture.get("texts")
        if name not in texts:
            raise ValueError(f"fixtures: there is no text set {name}")
        full = {**fixture, "name": name, "queries": texts[name]["queries"], "documents": texts[name]["documents"]}
        rows = fixture.get("cosines", fixture.get("scores", []))
        if rows and len(rows) != len(full["queries"]):
            raise ValueError(f"fixtures: {name} has {len(full['queries'])} queries and {len(rows)} rows")
        for row in rows:
            if len(row) != len(full["documents"]):
                raise ValueError(f"fixtures: {name} has {len(full['documents'])} documents and {len(row)} values")
        result.append(full)
    return tuple(result)


def parse_embedder(entry: Mapping[str, Any], texts: Mapping[str, Any]) -> Embedder:
    """An embedder from its document. Raises ValueError that names the field."""
    kind = _field(entry, "kind", str)
    if kind not in KINDS:
        raise ValueError("kind must be one of " + ", ".join(KINDS))
    prefixes = _field(entry, "prefixes", Mapping)
    query, document = _field(prefixes, "query", str), _field(prefixes, "document", str)
    shape = {"symmetric": (False, False), "asymmetric": (True, True), "query-only": (True, False)}[kind]
    if (bool(query), bool(document)) != shape:
        raise ValueError(f"prefixes do not fit the kind {kind}")
    dimensions, matryoshka = _field(entry, "dimensions", int), tuple(entry.get("matryoshka", ()))
    if any(size >= dimensions for size in matryoshka):
        raise ValueError(f"matryoshka must hold dimensions below {dimensions}")
    return Embedder(
        id=_field(entry, "id", str),
        dimensions=dimensions,
        matryoshka=matryoshka,
        max_tokens=_field(entry, "max_tokens", int),
        kind=kind,
        query_prefix=query,
        document_prefix=document,
        normalized=_field(entry, "normalized", bool),
        engines=_field(entry, "engines", Mapping),
        fixtures=tuple(f for f in _fixtures(entry, texts) if f.get("dimensions", dimensions) == dimensions),
        raw=entry,
    )


def parse_reranker(entry: Mapping[str, Any], texts: Mapping[str, Any]) -> Reranker:
    """A reranker from its document. Raises ValueError that names the field."""
    quality = _field(entry, "quality", Mapping)
    if quality.get("verdict") not in VERDICTS:
        raise ValueError("quality.verdict must be one of " + ", ".join(VERDICTS))
    ranges = _field(entry, "score_range", Mapping)
    return Reranker(
        id=_field(entry, "id", str),
        kind=_field(entry, "kind", str),
        max_tokens=_field(entry, "max_tokens", int),
        score_range={engine: (float(low), float(high)) for engine, (low, high) in ranges.items()},
        engines=_field(entry, "engines", Mapping),
        quality=quality,
        fixtures=_fixtures(entry, texts),
        raw=entry,
    )


def parse(documents: Mapping[str, Any], base: Catalog | None = None, folder: str = "") -> tuple[Catalog, list[Finding]]:
    """The catalog from its parsed files: path in the folder without suffix -> document.

    An entry that is not valid is left out and becomes a finding, so that the others can still be planned with. With
    ``base``, the entries and texts are laid over it; ``folder`` then says in findings where they lie.
    """
    findings: list[Finding] = []
    texts = {**(base.texts if base else {}), **documents.get("fixtures", {})}
    models: dict[str, dict[str, Any]] = {"embedders": {}, "rerankers": {}}
    readers: dict[str, Callable[..., Any]] = {"embedders": parse_embedder, "rerankers": parse_reranker}
    shipped = {**base.embedders, **base.rerankers} if base else {}
    for path in sorted(documents):
        kind = path.partition("/")[0]
        if kind not in readers:
            continue
        try:
            entry = readers[kind](documents[path], texts)
        except (ValueError, TypeError, AttributeError, KeyError) as problem:
            findings.append(BAD_ENTRY.finding(f"catalog entry {folder}{path}: {problem}.", variable=path))
            continue
        if entry.id in models[kind]:
            message = f"catalog entry {folder}{path}: id {entry.id} is that of another file of the folder too."
            findings.append(BAD_ENTRY.finding(message, variable=path))
            continue
        if entry.id in shipped:
            message = f"{folder}{path} replaces the shipped entry of {entry.id}."
            findings.append(OVERRIDDEN.finding(message, variable="rag_catalog_dirs"))
        models[kind][entry.id] = entry
    catalog = Catalog(
        embedders={**(base.embedders if base else {}), **models["embedders"]},
        rerankers={**(base.rerankers if base else {}), **models["rerankers"]},
        engines=base.engines if base else documents.get("engines", {}),
        versions=base.versions if base else documents.get("versions", {}),
        images=base.images if base else documents.get("images", {}),
        texts=texts,
        templates=base.templates if base else documents.get("templates", {}),
    )
    return catalog, findings
