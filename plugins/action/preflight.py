# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge a host before anything is changed on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.plumbline.rag.plugins.module_utils import _findings
from ansible_collections.plumbline.rag.plugins.module_utils._rules import gpu_host
from ansible_collections.plumbline.rag.plugins.module_utils._rules import host as rules

display = Display()


class ActionModule(ActionBase):
    """Gather facts on the target, evaluate the host rules on the controller."""

    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Fail when an error finding is open."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        arguments = self.validate_argument_spec(
            {
                "plan": {"type": "dict", "required": True},
                "accept": {"type": "dict", "default": {}},
                "driver_install": {"type": "bool", "default": False},
                "toolkit_install": {"type": "bool", "default": True},
            }
        )[1]
        plan, host = arguments["plan"], task_vars["inventory_hostname"]
        facts = self._facts(task_vars)
        if rules.needs_index(plan, host, facts):
            facts = self._facts(task_vars, check_index=True)
        # The plan has judged rag_accept as a whole; here only the ids of this family matter.
        accept = {id: reason for id, reason in arguments["accept"].items() if str(id).startswith("PL2")}
        found = list(rules.host_findings(plan, host, facts))
        if gpu_host.needs_look(plan, host):
            gpu = self._ask("gpu_info", {}, task_vars)
            may = (arguments["driver_install"], arguments["toolkit_install"])
            found += gpu_host.gpu_findings(plan, host, facts, gpu, *may)
        found += self._weights(plan["hosts"][host], host, task_vars)
        findings = _findings.acknowledge(found, accept)
        if findings:
            display.display(_findings.table(findings))
        stopping = [finding for finding in findings if finding.open_error]
        result.update(changed=False, findings=[finding.as_dict() for finding in findings])
        if stopping:
            reasons = " ".join(f"{finding.id}: {finding.message} {finding.remedy}" for finding in stopping)
            result.update(failed=True, msg=f"Nothing was changed on {host}. {reasons}")
        return result

    def _facts(self, task_vars: dict[str, Any], check_index: bool = False) -> dict[str, Any]:
        facts: dict[str, Any] = self._ask("host_facts", {"check_index": check_index}, task_vars)["host"]
        return facts

    def _weights(self, services: dict[str, Any], host: str, task_vars: dict[str, Any]) -> Iterator[_findings.Finding]:
        """What is wrong with weights that were brought along; those of a hub are judged when they are fetched."""
        for name, service in services.items():
            weights = service.get("weights") if name in ("embedder", "reranker") else None
            if weights is None or weights["source"] == "hub":
                continue
            arguments = {
                "state": "examined",
                "service": name,
                "engine": service["engine"],
                "device": service["device"],
                "code": "--trust-remote-code" in service["args"],
                "repository": weights["repository"],
                "revision": service["revision"],
                "directory": weights["directory"],
                "folder": weights["folder"],
            }
            for entry in self._ask("model_weights", arguments, task_vars)["findings"]:
                yield _findings.Finding.from_dict({**entry, "where": {**entry["where"], "host": host}})

    def _ask(self, module: str, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """What a module of the collection says of the target."""
        answer: dict[str, Any] = self._execute_module(
            module_name=f"plumbline.rag.{module}", module_args=arguments, task_vars=task_vars
        )
        if answer.get("failed"):
            raise AnsibleActionFail(f"The host cannot be examined: {answer.get('msg')}", result=answer)
        return answer
