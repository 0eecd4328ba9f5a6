# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.plumbline.rag.plugins.module_utils import _findings, _resolve, _spec
from ansible_collections.plumbline.rag.plugins.module_utils._checks import _faults
from ansible_collections.plumbline.rag.plugins.module_utils._rules import host
from ansible_collections.plumbline.rag.plugins.plugin_utils import _controller

# rag_accept may name what later phases find: importing a family declares its ids
LATER = (host, _faults)


class ActionModule(ActionBase):
    """Resolve the whole inventory once, write each installation's plan.json, show the findings."""

    _requires_connection = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        hosts, groups = _controller.inventory(task_vars)
        specs, findings = _spec.build_specs(hosts, groups)
        blocked = _findings.sort(findings)
        plans: dict[str, Any] = {}
        reports: list[str] = []
        for name, spec in specs.items():
            catalog, found = _controller.load_catalog(spec["rag_catalog_dirs"])
            plan = None
            if not any(finding.open_error for finding in findings):
                plan, more = _resolve.resolve(
                    spec, catalog, _controller.addresses(task_vars, spec.hosts), _controller.given_secrets(spec)
                )
                found = [*found, *more]
            shown = _findings.sort([*blocked, *found])
            self._show(name, plan, shown)
            path = _controller.report_dir(spec.values, name) / "plan.json"
            content = {
                "collection": _controller.version(),
                "installation": name,
                "plan": plan,
                "findings": [finding.as_dict() for finding in shown],
            }
            _controller.write_json(path, content)
            reports.append(str(path))
            findings = [*findings, *found]
            if plan is not None:
                # the proof shows them again, so that a report stands for itself
                plans[name] = {**plan, "findings": content["findings"]}
        result["changed"] = False
        if any(finding.open_error for finding in findings):
            # the findings stand above and in plan.json; a dump of the whole plan would bury them
            result["failed"] = True
            result["msg"] = (
                f"The plan has {_findings.verdict(findings)}; nothing was changed. Details: {', '.join(reports)}"
            )
            return result
        result["findings"] = [finding.as_dict() for finding in _findings.sort(findings)]
        result["reports"] = reports
        result["ansible_facts"] = {"rag_plans": plans}
        return result

    def _show(self, installation: str, plan: dict[str, Any] | None, findings: list[_findings.Finding]) -> None:
        show = self._display.display
        show(f"\nplan of installation {installation}")
        for name_of_host, services in (plan or {"hosts": {}})["hosts"].items():
            for name, service in services.items():
                if name == "images":
                    continue
                what = f"{service['served_name']} on {service['engine']}" if "engine" in service else service["image"]
                port = service["publish"]
                where = f"{port['address']}:{port['port']}" if port else "not published"
                show(f"  {name_of_host:<14} {name:<11} {what}  ({where})")
        text = _findings.table(findings)
        if text:
            show(text)
        show(f"  {_findings.verdict(findings)}\n")
