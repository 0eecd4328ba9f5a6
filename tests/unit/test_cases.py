# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of small inventories in cases/: each with the findings that it gives, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from .plugins.module_utils.installation import GROUPS, plan_inventory

FOLDER = Path(__file__).parent / "cases"
BASES = yaml.safe_load((FOLDER / "bases.yml").read_text(encoding="utf-8"))
CASES = [
    (path.stem, case)
    for path in sorted(FOLDER.glob("*.yml"))
    if path.stem != "bases"
    for case in yaml.safe_load(path.read_text(encoding="utf-8"))
]


def parameter(family: str, case: dict[str, Any]) -> Any:
    """A case with marks for the rules that it makes fire and the ones that it shows to be quiet."""
    fired = {entry.split()[0] for entry in case["expect"]}
    marks = [pytest.mark.rule(rule, fires=True) for rule in sorted(fired)]
    marks += [pytest.mark.rule(rule, fires=False) for rule in case.get("quiet", [])]
    return pytest.param(case, id=f"{family}: {case['name']}", marks=marks)


def findings_of(case: dict[str, Any]) -> list[Any]:
    """All findings of a case's inventory, as the plan reports them."""
    shared = {**BASES[case["base"]]["vars"], **case.get("vars", {})}
    hosts = {
        host: {name: value for name, value in {**shared, **own}.items() if value is not None}
        for host, own in case.get("hosts", {"h1": {}}).items()
    }
    _plans, findings = plan_inventory(hosts, case.get("groups", {group: list(hosts) for group in GROUPS}))
    return findings


def shown(finding: Any, wanted: list[str]) -> str:
    """A finding in the words of a case, with its severity where the case has one."""
    text = f"{finding.id} {finding.where.get('variable')}"
    return f"{text} {finding.severity}" if f"{text} {finding.severity}" in wanted else text


@pytest.mark.parametrize("case", [parameter(*entry) for entry in CASES])
def test_case(case: dict[str, Any]) -> None:
    wanted = [*case["expect"], *BASES[case["base"]].get("expect", [])]
    only = case.get("only")
    if only:
        wanted = [entry for entry in wanted if entry.split()[0] in only]
    found = [f for f in findings_of(case) if only is None or f.id in only]
    assert sorted(shown(f, wanted) for f in found) == sorted(wanted), [f.message for f in found]
    assert [f.message for f in found if not f.remedy or len(f.message) > 1000] == []


def test_the_table_is_large() -> None:
    assert len(CASES) >= 150
    assert len({case["name"] for _family, case in CASES}) == len(CASES)


@pytest.mark.parametrize("base", BASES)
def test_a_base_has_the_findings_it_says(base: str) -> None:
    found = findings_of({"base": base})
    assert sorted(f"{f.id} {f.where.get('variable')}" for f in found) == sorted(BASES[base].get("expect", []))
