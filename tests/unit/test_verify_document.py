# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""verify.json is what docs/verify.schema.json says."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from .plugins.module_utils.test_report import HEALTHY, broken, dead, document, logits

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "verify.schema.json").read_text(encoding="utf-8")))
RECORDED = json.loads((ROOT / "tests" / "contract" / "verified.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("change", [None, broken, dead, logits], ids=["healthy", "broken", "dead", "logits"])
def test_documents_are_valid(change: Any) -> None:
    SCHEMA.validate(document(change))


def test_acknowledged_and_recorded_documents_are_valid() -> None:
    SCHEMA.validate(document(broken, accept="known"))
    SCHEMA.validate(RECORDED)


@pytest.mark.parametrize("missing", sorted(SCHEMA.schema["required"]))
def test_every_part_is_required(missing: str) -> None:
    content = copy.deepcopy(HEALTHY)
    del content[missing]
    assert not SCHEMA.is_valid(content)


def test_the_schema_names_every_part() -> None:
    assert set(SCHEMA.schema["properties"]) == set(HEALTHY)
