# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""plan.json keeps the published schema, for every worked inventory and every base of the table of cases."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _advice, _rules

from .plugins.module_utils.installation import CATALOG, GROUPS, ROOT, plan_inventory, worked_inventory
from .test_cases import BASES
from .test_inventories import NAMES

SCHEMA = json.loads((ROOT / "docs" / "plan.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
INVENTORIES = {
    **{name: worked_inventory(name) for name in NAMES},
    **{name: ({"h1": base["vars"]}, {group: ["h1"] for group in GROUPS}) for name, base in BASES.items()},
}


@pytest.mark.parametrize("name", INVENTORIES)
def test_the_document_keeps_the_schema(name: str) -> None:
    plans, findings = plan_inventory(*INVENTORIES[name])
    assert plans
    for installation, plan in plans.items():
        document: dict[str, Any] = {
            "collection": "0.0.0",
            "installation": installation,
            "plan": plan,
            "findings": [finding.as_dict() for finding in findings],
            "changes": _rules.changes.compare(plans[next(iter(plans))], plan),
            "advice": _advice.advise(plan, CATALOG, None, 0.17),
        }
        VALIDATOR.validate(json.loads(json.dumps(document)))


def test_the_schema_is_one_and_refuses_what_is_not_a_plan() -> None:
    VALIDATOR.check_schema(SCHEMA)
    good = {"collection": "1", "installation": "a", "plan": None, "findings": [], "changes": [], "advice": None}
    VALIDATOR.validate(good)
    for field, value in (("findings", [{"id": "X"}]), ("installation", "../a"), ("plan", {}), ("surplus", 1)):
        assert not VALIDATOR.is_valid({**good, field: value}), field
