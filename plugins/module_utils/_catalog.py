# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalog: what is known of models, engines, versions and images. Pure: it takes parsed documents."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, Finding, register

KINDS = ("symmetric", "asymmetric", "query-only")

BAD_ENTRY = register(
    "PL106",
    ERROR,
    "A catalog entry is not valid",
    "Everything that is deployed and expected is derived from the entry.",
    "Correct the entry; the entries in catalog/ are examples.",
    acknowledgeable=False,
)


@dataclasses.dataclass(frozen=True)
class Embedder:
    """An embedding model: dimensions, limits, the exact prefixes and the values it must give.

    ``prefixes`` are byte-exact. ``fixtures`` carry texts and expected cosines (rows are queries, columns documents).
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
    """All entries, by id; ``images`` are the build recipes by name and version."""

    embedders: Mapping[str, Embedder]
    rerankers: Mapping[str, Reranker]
    engines: Mapping[str, Mapping[str, Any]]
    versions: Mapping[str, Mapping[str, Any]]
    images: Mapping[str, Any]


def _field(entry: Mapping[str, Any], name: str, kind: type | tuple[type, ...]) -> Any:
    value = entry.get(name)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        wanted = kind.__name__ if isinstance(kind, type) else " or ".join(k.__name__ for k in kind)
        raise ValueError(f"{name} must be a {wanted}")
    return value


def _fixtures(entry: Mapping[str, Any], texts: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Fixtures with the shared text sets filled in; every expected row must have one value a document."""
    result = []
    for fixture in entry.get("fixtures", []):
        name = fixture.get("texts")
        if name not in texts:
            raise ValueError(f"fixtures: there is no text set {name}")
        full = {**fixture, "name": name, "queries": texts[name]["queries"], "documents": texts[name]["documents"]}
        for row in fixture.get("cosines", fixture.get("scores", [])):
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
    return Embedder(
        id=_field(entry, "id", str),
        dimensions=_field(entry, "dimensions", int),
        matryoshka=tuple(entry.get("matryoshka", ())),
        max_tokens=_field(entry, "max_tokens", int),
        kind=kind,
        query_prefix=query,
        document_prefix=document,
        normalized=_field(entry, "normalized", bool),
        engines=_field(entry, "engines", Mapping),
        fixtures=_fixtures(entry, texts),
        raw=entry,
    )


def parse_reranker(entry: Mapping[str, Any], texts: Mapping[str, Any]) -> Reranker:
    """A reranker from its document. Raises ValueError that names the field."""
    quality = _field(entry, "quality", Mapping)
    if quality.get("verdict") not in ("better", "mixed", "worse", "none"):
        raise ValueError("quality.verdict must be one of better, mixed, worse, none")
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


def parse(documents: Mapping[str, Any]) -> tuple[Catalog, list[Finding]]:
    """The catalog from its parsed files: relative path without suffix -> document.

    An entry that is not valid is left out and becomes a finding, so that the others can still be planned with.
    """
    findings: list[Finding] = []
    texts = documents.get("fixtures", {})
    embedders: dict[str, Embedder] = {}
    rerankers: dict[str, Reranker] = {}
    for path in sorted(documents):
        try:
            if path.startswith("embedders/"):
                embedder = parse_embedder(documents[path], texts)
                embedders[embedder.id] = embedder
            elif path.startswith("rerankers/"):
                reranker = parse_reranker(documents[path], texts)
                rerankers[reranker.id] = reranker
        except (ValueError, TypeError, AttributeError, KeyError) as problem:
            findings.append(BAD_ENTRY.finding(f"catalog entry {path}: {problem}.", variable=path))
    catalog = Catalog(
        embedders, rerankers, documents.get("engines", {}), documents.get("versions", {}), documents.get("images", {})
    )
    return catalog, findings
