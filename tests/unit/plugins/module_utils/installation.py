"""A small inventory for the tests of the pure code: the quickstart's, with what a test changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from ansible_collections.plumbline.rag.plugins.module_utils import _catalog, _resolve, _spec
from ansible_collections.plumbline.rag.plugins.module_utils._findings import Finding

ROOT = Path(__file__).resolve().parents[4]
GROUPS = ("rag_databases", "rag_embedders", "rag_rerankers", "rag_proxies", "rag_open_webui")
QUICKSTART = {
    "rag_embedder": "intfloat/multilingual-e5-small",
    "rag_embedder_engine": "bundled",
    "rag_reranker": "plumbline/e5-small-cosine",
    "rag_reranker_engine": "bundled",
    "rag_image_source": "build",
}


def load_catalog() -> _catalog.Catalog:
    """The shipped catalog; the tests must not start from one with faults."""
    root = ROOT / "catalog"
    files = [*root.glob("*.yml"), *root.glob("embedders/*.yml"), *root.glob("rerankers/*.yml")]
    documents = {str(f.relative_to(root).with_suffix("")): yaml.safe_load(f.read_text(encoding="utf-8")) for f in files}
    catalog, findings = _catalog.parse(documents)
    assert findings == []
    return catalog


CATALOG = load_catalog()


def specs(
    hosts: dict[str, dict[str, Any]], groups: dict[str, list[str]] | None = None
) -> tuple[dict[str, _spec.Spec], list[Finding]]:
    return _spec.build_specs(hosts, groups or {group: list(hosts) for group in GROUPS})


def resolve(
    variables: dict[str, Any] | None = None, secrets: dict[str, str] | None = None, base: dict[str, Any] | None = None
) -> tuple[dict[str, Any] | None, list[Finding]]:
    """Plan and findings of one host with the quickstart's variables and ``variables`` over them (None removes one)."""
    merged = {**(QUICKSTART if base is None else base), **(variables or {})}
    found, findings = specs({"h1": {name: value for name, value in merged.items() if value is not None}})
    if findings:
        return None, findings
    return _resolve.resolve(found["default"], CATALOG, {"h1": "192.0.2.1"}, secrets)


def ids(findings: list[Finding]) -> list[str]:
    return [finding.id for finding in findings]
