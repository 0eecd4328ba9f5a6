# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalog as a reader sees it: a filtered table of models, and one model as an inventory. Pure."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._catalog import Catalog, Embedder, Reranker

# In their own formats all but a few models have two bytes a parameter.
_HALF, _SINGLE = 2, 4
_COLUMNS = ("model", "task", "kind", "dim", "tokens", "GiB", "licence", "engines", "quality", "remarks")


@dataclasses.dataclass(frozen=True)
class Filter:
    """What a model has to be to stay in the table; None asks nothing.

    ``dimensions`` also fits a model that can be cut to it, ``engine`` only one that the engine is not refused for.
    """

    task: str | None = None
    kind: str | None = None
    dimensions: int | None = None
    commercial: bool | None = None
    engine: str | None = None
    language: str | None = None
    max_memory_gib: float | None = None


def task(entry: Embedder | Reranker) -> str:
    """What the model does: embedder or reranker."""
    return "embedder" if isinstance(entry, Embedder) else "reranker"


def engines(entry: Embedder | Reranker) -> list[str]:
    """The engines that serve the model."""
    return [name for name, support in entry.engines.items() if "refused" not in support]


def weights_gib(entry: Embedder | Reranker) -> float:
    """GiB of the weights: parameters times two bytes, times four for a model that no engine serves in half precision."""
    refused = entry.raw.get("dtypes_refused", {})
    size = _SINGLE if {"float16", "bfloat16"} <= set(refused) else _HALF
    return float(entry.raw["parameters"]) * size / 2**30


def fits(entry: Embedder | Reranker, wanted: Filter) -> bool:
    """Whether the model passes the filter."""
    raw = entry.raw
    languages = raw.get("languages", ())
    sizes = (entry.dimensions, *entry.matryoshka) if isinstance(entry, Embedder) else ()
    return (
        wanted.task in (None, task(entry))
        and wanted.kind in (None, entry.kind)
        and (wanted.dimensions is None or wanted.dimensions in sizes)
        and (wanted.commercial is None or raw["licence"]["commercial"] is wanted.commercial)
        and (wanted.engine is None or wanted.engine in engines(entry))
        and (wanted.language is None or wanted.language in languages or "multilingual" in languages)
        and (wanted.max_memory_gib is None or weights_gib(entry) <= wanted.max_memory_gib)
    )


def select(catalog: Catalog, wanted: Filter) -> list[Embedder | Reranker]:
    """The models that pass the filter: embedders, then rerankers, by name."""
    models: list[Embedder | Reranker] = []
    for family in (catalog.embedders, catalog.rerankers):
        models += [family[name] for name in sorted(family, key=str.lower) if fits(family[name], wanted)]
    return models


def _quality(entry: Embedder | Reranker) -> str:
    if isinstance(entry, Reranker):
        return str(entry.quality["verdict"])
    benchmarks = entry.raw.get("benchmarks", {})
    shares = benchmarks.get("zero_shot_percent") or ("?", "?")
    for name, short, share in (("mteb_multilingual_v2", "multi", shares[1]), ("mteb_english_v2", "en", shares[0])):
        if name in benchmarks:
            return f"{benchmarks[name]:.1f} {short} ({share} % new)"
    return "-"


def _remarks(entry: Embedder | Reranker) -> str:
    raw = entry.raw
    commercial = raw["licence"]["commercial"]
    remarks = {
        "unfit for Open WebUI": "unfit" in raw,
        "non-commercial": commercial is False,
        "licence unclear": commercial is None,
        "gated": raw.get("gated", False),
        "own code": raw.get("remote_code", False),
        "partly unverified": bool(raw.get("unverified")),
    }
    return ", ".join(name for name, holds in remarks.items() if holds)


def row(entry: Embedder | Reranker) -> dict[str, str]:
    """One line of the table."""
    return {
        "model": entry.id,
        "task": task(entry),
        "kind": entry.kind,
        "dim": str(entry.dimensions) if isinstance(entry, Embedder) else "",
        "tokens": str(entry.max_tokens),
        "GiB": f"{weights_gib(entry):.1f}",
        "licence": str(entry.raw["licence"]["name"]),
        "engines": " ".join(engines(entry)) or "none",
        "quality": _quality(entry),
        "remarks": _remarks(entry),
    }


def table(models: Iterable[Embedder | Reranker]) -> str:
    """The models as aligned columns under a header; only the header when there are none."""
    lines = [dict(zip(_COLUMNS, _COLUMNS)), *(row(entry) for entry in models)]
    widths = {name: max(len(line[name]) for line in lines) for name in _COLUMNS}
    return "\n".join("  ".join(line[name].ljust(widths[name]) for name in _COLUMNS).rstrip() for line in lines)


def inventory_block(entry: Embedder | Reranker, known_engines: Mapping[str, Mapping[str, Any]]) -> str:
    """Variables that deploy the model, ready for an inventory; a comment says what keeps it from being deployed."""
    service = f"rag_{task(entry)}"
    # certain engines first, in the order of the entry
    possible = sorted(engines(entry), key=lambda name: "unverified" in entry.engines[name])
    deployed = [name for name in possible if known_engines.get(name, {}).get("role") is not None]
    lines = [f"{service}: {entry.id}"]
    if deployed:
        rest = f"    # or {', '.join(deployed[1:])}" if deployed[1:] else ""
        lines.append(f"{service}_engine: {deployed[0]}{rest}")
    else:
        address = "rag_embedder_base_url" if isinstance(entry, Embedder) else "rag_reranker_url"
        served = f"it is served by {', '.join(possible)}, which" if possible else "no engine"
        served += " this release does not deploy" if possible else " of this collection serves it"
        lines += [f"# {served}", f"{service}_engine: external", f"{address}: https://..."]
    if "revision" in entry.raw:
        lines.append(f"{service}_revision: {entry.raw['revision']}")
    if isinstance(entry, Embedder) and entry.matryoshka:
        sizes = ", ".join(str(size) for size in entry.matryoshka)
        lines.append(f"# rag_embedder_dimensions: {entry.dimensions}    # or {sizes}")
    if isinstance(entry, Embedder):
        for side, prefix in (("query", entry.query_prefix), ("document", entry.document_prefix)):
            lines.append(f"# the {side} prefix comes from the catalog: {json.dumps(prefix, ensure_ascii=False)}")
    if entry.raw.get("gated"):
        lines.append("# gated: the host needs a token of an account that accepted the terms")
    if "unfit" in entry.raw:
        lines.append(f"# unfit: {entry.raw['unfit']}")
    if entry.raw["licence"]["commercial"] is False:
        lines.append(f"# {entry.raw['licence']['name']}: no commercial use")
    return "\n".join(lines)
