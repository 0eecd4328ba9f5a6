# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show the catalog: a filtered table, or one model in full."""

from __future__ import annotations

from typing import Any

import yaml
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.plumbline.rag.plugins.module_utils import _catalog_view, _findings, _spec
from ansible_collections.plumbline.rag.plugins.plugin_utils import _controller

_OPTIONS: dict[str, dict[str, Any]] = {
    "model": {"type": "str"},
    "task": {"type": "str", "choices": ["embedder", "reranker"]},
    "kind": {
        "type": "str",
        "choices": ["symmetric", "asymmetric", "query-only", "cross-encoder", "llm", "listwise", "cosine"],
    },
    "dimensions": {"type": "int"},
    "commercial": {"type": "bool"},
    "engine": {"type": "str", "choices": ["bundled", "tei", "vllm"]},
    "language": {"type": "str"},
    "max_memory_gib": {"type": "float"},
    "catalog_dirs": {"type": "list", "elements": "path", "default": []},
}


class ActionModule(ActionBase):
    """Everything happens on the controller."""

    _requires_connection = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = self.validate_argument_spec(_OPTIONS)[1]
        name = arguments.pop("model")
        catalog, findings = _controller.load_catalog(arguments.pop("catalog_dirs"))
        models = {**catalog.embedders, **catalog.rerankers}
        if name is None:
            chosen = _catalog_view.select(catalog, _catalog_view.Filter(**arguments))
            text = f"{_catalog_view.table(chosen)}\n\n{len(chosen)} of {len(models)} models"
        elif name in models:
            chosen = [models[name]]
            block = _catalog_view.inventory_block(models[name], catalog.engines)
            text = f"{_in_full(models[name].raw)}\n# for an inventory\n{block}"
        else:
            close = _spec.nearest(name, models)
            raise AnsibleActionFail(f"The catalog has no model {name}." + (f" Did you mean {close}?" if close else ""))
        self._display.display(f"\n{text}\n")
        if findings:
            self._display.display(_findings.table(findings))
        result.update(
            changed=False,
            models=[dict(entry.raw) for entry in chosen],
            findings=[finding.as_dict() for finding in _findings.sort(findings)],
        )
        if any(finding.open_error for finding in findings):
            result.update(failed=True, msg=f"The catalog has {_findings.verdict(findings)}.")
        return result


class _Dumper(yaml.SafeDumper):
    """YAML as the entries are written: strings that blanks or newlines belong to stand in double quotes."""


def _string(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    exact = "\n" in text or text != text.strip() or not text
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if exact else None)


_Dumper.add_representer(str, _string)


def _in_full(raw: Any) -> str:
    return str(
        yaml.dump(dict(raw), Dumper=_Dumper, allow_unicode=True, sort_keys=False, default_flow_style=None, width=1000)
    )
