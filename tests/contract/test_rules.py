# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every rule has a unit test that makes it fire and one that shows it quiet, and ids lie in their group."""

from __future__ import annotations

import functools
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATE = runpy.run_path(str(ROOT / "docs" / "generate.py"))
RULES, GROUPS = GENERATE["declared_rules"](), GENERATE["GROUPS"]


class MarkCollector:
    """A pytest plugin that keeps the rule marks of the tests it sees."""

    def __init__(self) -> None:
        self.marked: set[tuple[str, bool]] = set()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for mark in item.iter_markers("rule"):
                self.marked |= {(rule_id, mark.kwargs["fires"]) for rule_id in mark.args}


@functools.cache
def marked() -> set[tuple[str, bool]]:
    collector = MarkCollector()
    assert pytest.main(["--collect-only", "-qq", "--no-summary", str(ROOT / "tests" / "unit")], [collector]) == 0
    return collector.marked


@pytest.mark.parametrize("fires", [True, False], ids=["fires", "quiet"])
def test_every_rule_is_tested(fires: bool) -> None:
    missing = [rule.id for rule in RULES if (rule.id, fires) not in marked()]
    assert missing == []


def test_marks_name_rules_that_exist() -> None:
    assert {rule_id for rule_id, _fires in marked()} <= {rule.id for rule in RULES}


def test_ids_lie_in_a_group() -> None:
    assert [rule.id for rule in RULES if rule.id[:3] not in GROUPS or len(rule.id) != 5] == []


def test_titles_are_headings_and_texts_are_sentences() -> None:
    assert [rule.id for rule in RULES if rule.title.endswith(".")] == []
    assert [rule.id for rule in RULES if not (rule.why.endswith(".") and rule.fix.endswith("."))] == []
