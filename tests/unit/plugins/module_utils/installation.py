"""A small inventory for the tests of the pure code: the quickstart's, with what a test changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from ansible_collections.plumbline.rag.plugins.module_utils import _catalog, _resolve, _rules, _spec
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


def worked_inventory(name: str) -> tuple[dict[str, dict[str, Any]], dict[str, list[str]]]:
    """Variables by host, and the groups, of a folder in inventories/: read without Ansible, they hold no expressions."""
    folder = ROOT / "inventories" / name
    groups: dict[str, list[str]] = {}

    def collect(group: str, content: dict[str, Any] | None) -> list[str]:
        hosts = list((content or {}).get("hosts") or {})
        for child, inner in ((content or {}).get("children") or {}).items():
            hosts += collect(child, inner)
        groups[group] = list(dict.fromkeys([*groups.get(group, []), *hosts]))
        return hosts

    for group, content in yaml.safe_load((folder / "hosts.yml").read_text(encoding="utf-8")).items():
        collect(group, content)
    hosts: dict[str, dict[str, Any]] = {host: {} for members in groups.values() for host in members}
    files = sorted((folder / "group_vars").glob("*.yml"), key=lambda path: path.stem != "all")
    for path in files:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
        for host in hosts if path.stem == "all" else groups[path.stem]:
            hosts[host].update(values)
    return hosts, groups


def plan_inventory(
    hosts: dict[str, dict[str, Any]], groups: dict[str, list[str]]
) -> tuple[dict[str, Any], list[Finding]]:
    """Plans by installation and all findings, as the plan action makes them."""
    found, wrong = _spec.build_specs(hosts, groups)
    plans: dict[str, Any] = {}
    findings = list(wrong)
    for name, spec in found.items():
        secrets = {n: spec[n] for n, v in _spec.VARIABLES.items() if v.type == "secret" and spec[n] is not None}
        addresses = {host: str(values["rag_address"] or host) for host, values in spec.host_values.items()}
        plan, more = _resolve.examine(spec, CATALOG, addresses, secrets, wrong)
        findings += more
        if plan is not None:
            plans[name] = plan
    return plans, [*findings, *_rules.across(plans, CATALOG.engines)]


def ids(findings: list[Finding]) -> list[str]:
    return [finding.id for finding in findings]
