# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.plumbline.rag.plugins.module_utils import _advice, _findings, _resolve, _rules, _spec
from ansible_collections.plumbline.rag.plugins.module_utils._checks import _faults
from ansible_collections.plumbline.rag.plugins.module_utils._rules import gpu_host, host, weights
from ansible_collections.plumbline.rag.plugins.plugin_utils import _controller

# rag_accept may name what later phases find: importing a family declares its ids
LATER = (gpu_host, host, weights, _faults)


class ActionModule(ActionBase):
    """Resolve the whole inventory once, write each installation's plan.json, show the findings."""

    _requires_connection = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        hosts, groups = _controller.inventory(task_vars)
        specs, findings = _spec.build_specs(hosts, groups)
        blocked = findings
        found: dict[str, list[_findings.Finding]] = {}
        plans: dict[str, Any] = {}
        catalogs: dict[str, Any] = {}
        for name, spec in specs.items():
            catalogs[name], found[name] = _controller.load_catalog(spec["rag_catalog_dirs"])
            plan, more = _resolve.examine(
                spec,
                catalogs[name],
                _controller.addresses(task_vars, spec.hosts),
                _controller.given_secrets(spec),
                findings,
            )
            found[name] += more
            if plan is not None:
                plans[name] = plan
        shared = _rules.across(plans, next(iter(catalogs.values())).engines) if plans else []
        reports = []
        for name, spec in specs.items():
            plan, path = plans.get(name), _controller.report_dir(spec.values, name) / "plan.json"
            lock, unusable = _controller.read_lock(path.parent)
            changes = self._changes(
                lock["plan"] if lock else _controller.read_json(path).get("plan"), plan, path.parent
            )
            here = [finding for finding in shared if plan is not None and finding.where.get("host") in plan["hosts"]]
            more = _rules.changes.check(changes, catalogs[name].versions, lock["time"] if lock else None)
            found[name] += _findings.cover([*unusable, *here, *more], spec["rag_accept"])
            shown = _findings.sort([*blocked, *found[name]])
            advice = (
                None
                if plan is None
                else _advice.advise(plan, catalogs[name], spec["rag_gpu_tflops"], spec["rag_gpu_efficiency"])
            )
            self._show(name, plan, shown, changes, advice, "the lock" if lock else "the last plan")
            content = {
                "collection": _controller.version(),
                "installation": name,
                "plan": plan,
                "findings": [finding.as_dict() for finding in shown],
                "changes": changes,
                "advice": advice,
            }
            _controller.write_json(path, content)
            reports.append(str(path))
            findings = [*findings, *found[name]]
            if plan is not None:
                # the proof shows the findings again, so that a report stands for itself
                plans[name] = {**plan, "findings": content["findings"], "report_dir": str(path.parent.absolute())}
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

    def _changes(self, previous: Any, plan: dict[str, Any] | None, folder: Path) -> list[dict[str, Any]]:
        """What changes against the lock or the last plan; nothing when there is none, or none that can be compared."""
        if plan is None or not isinstance(previous, dict):
            return []
        try:
            return _rules.changes.compare(previous, plan)
        except (AttributeError, KeyError, TypeError) as problem:
            self._display.warning(f"The plan in {folder} is not one of this release and is not compared ({problem!r}).")
            return []

    def _show(
        self,
        installation: str,
        plan: dict[str, Any] | None,
        findings: list[_findings.Finding],
        changes: list[dict[str, Any]],
        advice: dict[str, Any] | None,
        before: str,
    ) -> None:
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
        if advice is not None:
            show(
                "\n".join(
                    ["  what it is worth and costs (estimates)", *(f"    {line}" for line in _advice.lines(advice))]
                )
            )
        if changes:
            lines = _rules.changes.lines(changes)
            show("\n".join([f"  changes against {before}", *(f"    {line}" for line in lines)]))
        text = _findings.table(findings)
        if text:
            show(text)
        show(f"  {_findings.verdict(findings)}\n")
