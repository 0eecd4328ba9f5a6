# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the action plugins share on the controller: the catalog's files, the inventory's variables, the report folder."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleActionFail

from ansible_collections.plumbline.rag.plugins.module_utils import _catalog, _findings, _lock, _spec
from ansible_collections.plumbline.rag.plugins.plugin_utils import _catalog_files

COLLECTION = _catalog_files.COLLECTION
# An operator adds models and texts; engines, versions and images are the collection's.
FROM_OPERATORS = ("fixtures",)


def load_catalog(extra: Iterable[str] = ()) -> tuple[_catalog.Catalog, list[_findings.Finding]]:
    """The collection's catalog with the operator's folders laid over it; what is wrong in a file becomes findings."""
    catalog, findings = _shipped_catalog()
    found = list(findings)
    for folder in (Path(str(name)).expanduser() for name in extra):
        documents, problems = _catalog_files.read(folder, FROM_OPERATORS)
        catalog, more = _catalog.parse(documents, catalog, f"{folder}/")
        found += [*problems, *more]
    return catalog, found


@functools.lru_cache(maxsize=1)
def _shipped_catalog() -> tuple[_catalog.Catalog, list[_findings.Finding]]:
    documents, problems = _catalog_files.read(COLLECTION / "catalog")
    catalog, findings = _catalog.parse(documents)
    return catalog, [*problems, *findings]


def inventory(task_vars: Mapping[str, Any]) -> tuple[dict[str, dict[str, Any]], dict[str, list[str]]]:
    """The rag_ variables of every host of the installation groups (all hosts when no such group is used), and the groups.

    A variable whose expression fails is present as :class:`_spec.Broken`.
    """
    groups = {name: list(hosts) for name, hosts in task_vars["groups"].items()}
    ours = [host for name, hosts in groups.items() if name.startswith("rag_") for host in hosts]
    names = list(dict.fromkeys(ours)) or groups["all"]
    return {host: _rag_variables(task_vars["hostvars"][host]) for host in names}, groups


def _rag_variables(host_vars: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name in host_vars:
        if not name.startswith("rag_") or name in _spec.INTERNAL:
            continue
        try:
            value = host_vars[name]
            # a lazy container evaluates its elements on access; JSON walks all of them
            result[name] = json.loads(json.dumps(value)) if isinstance(value, (Mapping, list, tuple)) else plain(value)
        except Exception as problem:  # pylint: disable=broad-except
            result[name] = _spec.Broken(str(problem).splitlines()[0])
    return result


def plain(value: Any) -> Any:
    """A tagged scalar of ansible-core as the plain Python value."""
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value


def addresses(task_vars: Mapping[str, Any], hosts: Iterable[str]) -> dict[str, str]:
    """The address under which each host is reached by the others."""
    result = {}
    for host in hosts:
        variables = task_vars["hostvars"][host]
        result[host] = str(variables.get("rag_address") or variables.get("ansible_host") or host)
    return result


def given_secrets(spec: _spec.Spec) -> dict[str, str]:
    """The secrets that the operator set, by variable name."""
    return {
        name: spec[name]
        for name, variable in _spec.VARIABLES.items()
        if variable.type == "secret" and spec[name] is not None
    }


def report_dir(spec_values: Mapping[str, Any], installation: str) -> Path:
    """Where plan, reports and locks of the installation go."""
    folder = spec_values.get("rag_report_dir")
    return Path(folder).expanduser() if folder else Path.cwd() / "reports" / installation


def inventory_folder(task_vars: Mapping[str, Any], host: str) -> Path:
    """The folder of the host's inventory source, or the working directory for one given on the command line."""
    folder = task_vars["hostvars"][host].get("inventory_dir")
    return Path(str(folder)) if folder else Path.cwd()


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON in one step, so that a reader never sees half a file. Raises AnsibleActionFail with the path."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(path.suffix + ".new")
        draft.write_text(json.dumps(content, indent=2, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
        os.replace(draft, path)
    except OSError as problem:
        raise AnsibleActionFail(
            f"{path} cannot be written: {problem.strerror}. Set rag_report_dir to a writable folder."
        ) from problem


def read_json(path: Path) -> dict[str, Any]:
    """An earlier report; empty when there is none or it cannot be read."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def read_lock(folder: Path) -> tuple[_lock.Lock | None, list[_findings.Finding]]:
    """The installation's lock, None when it has none, and a finding when there is one that cannot be used."""
    path = folder / _lock.NAME
    try:
        return _lock.parse(path.read_text(encoding="utf-8")), []
    except FileNotFoundError:
        return None, []
    except OSError as problem:
        return None, [_lock.unreadable(str(path), f"it cannot be read ({problem.strerror})")]
    except ValueError as problem:
        return None, [_lock.unreadable(str(path), str(problem))]


def version() -> str:
    """The collection's version, from the metadata of the checkout or of the installed artifact."""
    manifest = COLLECTION / "MANIFEST.json"
    if manifest.exists():
        return str(json.loads(manifest.read_text(encoding="utf-8"))["collection_info"]["version"])
    return str(yaml.safe_load((COLLECTION / "galaxy.yml").read_text(encoding="utf-8"))["version"])
