# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prove an installation: run the checks on the host, write the report on the controller."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import jinja2
import yaml
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.plumbline.rag.plugins.module_utils import _evaluation, _findings, _lock, _metrics, _report
from ansible_collections.plumbline.rag.plugins.module_utils._checks import _faults
from ansible_collections.plumbline.rag.plugins.plugin_utils import _controller

_TEMPLATE = _controller.COLLECTION / "templates" / "report.html.j2"
_EVAL_SET = _controller.COLLECTION / "catalog" / "eval" / "languages.yml"
_LARGEST_SET = 5_000_000
_FOR_THE_MODULE = ("verify", "secrets", "network", "accept")


class ActionModule(ActionBase):
    """Requests are made on the host; acknowledgement, report and table happen here."""

    _requires_connection = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        if self._task.check_mode:
            result.update(skipped=True, msg="A proof uploads a file, which check mode does not do.")
            return result
        arguments = self._task.args
        unknown = set(arguments) - {*_FOR_THE_MODULE, "installation", "report_dir", "planned", "plan"}
        if unknown:
            raise AnsibleActionFail(f"verify has no option {', '.join(sorted(unknown))}")
        sent = {name: arguments[name] for name in _FOR_THE_MODULE if name in arguments}
        shipped = _labelled(_EVAL_SET)
        own = (sent.get("verify") or {}).get("eval_set")
        sent.update(
            probes=shipped,
            evaluation=_labelled(Path(str(own)).expanduser()) if own else shipped,
            since=_last_run(_folder(arguments)),
        )
        answer = self._execute_module(module_name="plumbline.rag.verify", module_args=sent, task_vars=task_vars)
        if answer.get("failed"):
            result.update(answer)
            return result
        folder = _folder(arguments)
        lock, unusable = _controller.read_lock(folder)
        document = self._document(answer, arguments, lock, unusable)
        findings = [_findings.Finding.from_dict(found) for found in document["findings"]]
        proven = not any(finding.open_error for finding in findings)
        if proven and arguments.get("plan"):
            lock = _lock.record(lock, document, arguments["plan"], answer["reference_vectors"])
            _controller.write_json(folder / _lock.NAME, lock)
        document["lock"] = _lock.summary(lock)
        result["reports"] = [str(path) for path in self._write(document, folder)]
        self._show(document, findings, result["reports"])
        result["changed"] = False
        if not proven:
            # The findings stand above and in verify.json; a dump of all measurements would bury them.
            result["failed"] = True
            result["msg"] = (
                f"Not proven: {_findings.verdict(findings)}. The stack was left as it is. See {result['reports'][1]}."
            )
            return result
        result.update({name: document[name] for name in (*_MEASURED, "findings")})
        return result

    def _document(
        self,
        answer: dict[str, Any],
        arguments: dict[str, Any],
        lock: _lock.Lock | None,
        unusable: list[_findings.Finding],
    ) -> dict[str, Any]:
        """The content of verify.json: the module's answer, compared with the lock, with acknowledged findings."""
        document = {
            "collection": _controller.version(),
            "installation": str(arguments.get("installation", "default")),
            "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            **{name: answer[name] for name in _MEASURED},
            "findings": answer["findings"],
            "fingerprint": _lock.fingerprint(arguments["verify"]),
        }
        _lock.judge(lock, unusable, document, answer["reference_vectors"])
        # The plan has judged rag_accept as a whole; here only the ids of this family matter.
        accept = {i: reason for i, reason in (arguments.get("accept") or {}).items() if i in _faults.RULES}
        document["findings"] = [
            *(f.as_dict() for f in _acknowledged(document["findings"], accept)),
            *(arguments.get("planned") or []),
        ]
        for check in document["checks"]:
            check["findings"] = [f.as_dict() for f in _acknowledged(check["findings"], accept)]
        return document

    def _write(self, document: dict[str, Any], folder: Path) -> list[Path]:
        paths = [folder / name for name in ("verify.json", "report.html", "junit.xml", "metrics.prom")]
        _controller.write_json(paths[0], document)
        environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
        page = environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(report=_report.view(document))
        try:
            paths[1].write_text(page, encoding="utf-8")
            paths[2].write_bytes(_report.junit(document))
            # The exporter must never read half a file.
            draft = paths[3].with_suffix(".prom.new")
            draft.write_text(_metrics.text(document), encoding="utf-8")
            draft.replace(paths[3])
        except OSError as problem:
            raise AnsibleActionFail(f"{problem.filename} cannot be written: {problem.strerror}.") from problem
        return paths

    def _show(self, document: dict[str, Any], findings: list[_findings.Finding], reports: list[str]) -> None:
        show = self._display.display
        show(f"\nproof of installation {document['installation']}")
        for hop, state in document["hops"].items():
            show(f"  {hop:<13} {state}")
        text = _findings.table(findings)
        if text:
            show(text)
        show(f"  {_findings.verdict(findings)}; {document['requests']} requests in {document['duration']:.1f} s")
        show(f"  report: {reports[1]}\n")


_MEASURED = ("measurements", "versions", "checks", "hops", "requests", "budget", "depth", "duration", "latency")


def _folder(arguments: dict[str, Any]) -> Path:
    installation = str(arguments.get("installation", "default"))
    return _controller.report_dir({"rag_report_dir": arguments.get("report_dir")}, installation)


def _last_run(folder: Path) -> float:
    """When the last verification ended, in seconds since 1970; 0 when there is no report of one."""
    try:
        return datetime.fromisoformat(_controller.read_json(folder / "verify.json")["time"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return 0.0


def _labelled(path: Path) -> dict[str, Any]:
    """A file of questions and passages, checked here, where its path means something to the operator."""
    try:
        if path.stat().st_size > _LARGEST_SET:
            raise ValueError(f"it is larger than {_LARGEST_SET} bytes")
        document: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        _evaluation.parse(document)
    except OSError as problem:
        raise AnsibleActionFail(f"rag_eval_set: {path} cannot be read: {problem.strerror}.") from problem
    except (ValueError, yaml.YAMLError) as problem:
        raise AnsibleActionFail(f"rag_eval_set: {path}: {problem}.") from problem
    return document


def _acknowledged(found: list[dict[str, Any]], accept: dict[str, str]) -> list[_findings.Finding]:
    findings = [_findings.Finding.from_dict(one) for one in found]
    ids = {finding.id for finding in findings}
    return _findings.acknowledge(findings, {i: reason for i, reason in accept.items() if i in ids})
