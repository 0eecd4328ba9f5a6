# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of logs in cases/gpu: each end of a log with the finding that explains it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.plumbline.rag.plugins.module_utils import _symptoms

FILE = Path(__file__).parents[2] / "cases" / "gpu" / "logs.yml"
LOGS: list[dict[str, Any]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
KNOWN = ("PL301", "PL302", "PL303", "PL304", "PL305", "PL306", "PL307", "PL308", "PL309", "PL310", "PL311", "PL313")
EVERY = (*KNOWN, "PL312", "PL314", "PL317")
WHAT = "it has ended twice, last with exit code 1"


def parameter(case: dict[str, Any]) -> Any:
    rule = case.get("rule", "PL314")
    marks = [
        pytest.mark.rule(rule, fires=True),
        pytest.mark.rule(*(other for other in EVERY if other != rule), fires=False),
    ]
    return pytest.param(case, id=case["name"], marks=marks)


@pytest.mark.parametrize("case", [parameter(case) for case in LOGS])
def test_a_log(case: dict[str, Any]) -> None:
    finding = _symptoms.explain("rag-embedder", WHAT, {"ExitCode": 1}, case["log"].splitlines())
    assert finding.id == case.get("rule", "PL314")
    if "rule" in case:
        assert finding.message.startswith(f"rag-embedder: {WHAT}, because ")
        assert finding.message.endswith(f": {case.get('shown', case['line'])}")
    else:
        assert finding.message == f"rag-embedder: {WHAT}; its log does not say why in words that are known here."
    assert finding.where == {"hop": "rag-embedder"}


@pytest.mark.rule("PL312", fires=True)
@pytest.mark.parametrize("state", [{"OOMKilled": True, "ExitCode": 0}, {"OOMKilled": False, "ExitCode": 137}])
def test_a_container_that_the_kernel_ended(state: dict[str, Any]) -> None:
    assert _symptoms.explain("rag-embedder", WHAT, state, ["INFO loading weights"]).id == "PL312"


def test_a_long_line_is_shortened() -> None:
    symptom, line = _symptoms.recognise(["OSError: [Errno 98] " + "x" * 1000]) or (None, "")
    assert symptom is not None
    assert len(line) == 301


def test_a_number_in_json_is_no_message() -> None:
    assert _symptoms.recognise(["98", "[1, 2]", '{"level": "INFO"}']) is None
