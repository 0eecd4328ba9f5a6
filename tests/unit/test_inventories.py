# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The worked inventories: each plans without an error, and what is changed in one is noticed."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _spec

from .plugins.module_utils.installation import ROOT, ids, plan_inventory, worked_inventory

NAMES = sorted(path.name for path in (ROOT / "inventories").iterdir())


def variables(name: str) -> list[str]:
    hosts, _groups = worked_inventory(name)
    return sorted({variable for values in hosts.values() for variable in values if variable.startswith("rag_")})


def each_variable() -> list[Any]:
    return [pytest.param(name, variable, id=f"{name}-{variable}") for name in NAMES for variable in variables(name)]


def changed(name: str, variable: str, change: Any) -> tuple[dict[str, Any], list[Any]]:
    """The inventory planned with ``change(values, variable)`` done to every host that has the variable."""
    hosts, groups = copy.deepcopy(worked_inventory(name))
    for values in hosts.values():
        if variable in values:
            change(values, variable)
    return plan_inventory(hosts, groups)


@pytest.mark.parametrize("name", NAMES)
def test_it_plans_without_an_error(name: str) -> None:
    plans, findings = plan_inventory(*worked_inventory(name))
    assert plans
    assert [finding.id for finding in findings if finding.open_error] == []


@pytest.mark.parametrize(("name", "variable"), each_variable())
def test_another_type_is_caught(name: str, variable: str) -> None:
    wrong = ["a", "list"] if _spec.VARIABLES[variable].type != "list" else "a text"
    _plans, findings = changed(name, variable, lambda values, key: values.update({key: wrong}))
    assert ("PL102", variable) in {(finding.id, finding.where["variable"]) for finding in findings}


@pytest.mark.parametrize(("name", "variable"), each_variable())
def test_a_misspelt_name_is_caught(name: str, variable: str) -> None:
    misspelt = variable[:-2] + variable[-1] + variable[-2] + "s"
    _plans, findings = changed(name, variable, lambda values, key: values.update({misspelt: values.pop(key)}))
    finding = next(finding for finding in findings if finding.id == "PL101")
    assert finding.where["variable"] == misspelt
    assert finding.remedy == f"Did you mean {variable}?"


@pytest.mark.parametrize(("name", "variable"), each_variable())
def test_a_variable_that_is_dropped_shows(name: str, variable: str) -> None:
    before = plan_inventory(*worked_inventory(name))
    after = changed(name, variable, lambda values, key: values.pop(key))
    hosts, _groups = worked_inventory(name)
    if any(values.get(variable) not in (None, _spec.VARIABLES[variable].default) for values in hosts.values()):
        assert after != before
    if _spec.VARIABLES[variable].required:
        assert "PL103" in ids(after[1])
