# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A further path says nothing of a prefix that the first path has found wrong, and speaks when that one is right."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils._checks import _walk, paths, prefix

PLAN = {"embedder": {"query_prefix": "query: ", "document_prefix": "passage: "}}


@pytest.mark.parametrize(
    ("first", "further", "found"),
    [
        ("right", "missing", ["PL431"]),
        ("other", "missing", ["PL436"]),
        ("missing", "missing", ["PL431"]),
        ("right", "right", []),
    ],
)
def test_one_prefix_is_named_once(first: str, further: str, found: list[str]) -> None:
    names = {"right": prefix.RIGHT, "other": prefix.OTHER, "missing": "missing"}
    context: Any = SimpleNamespace(open_webui=None, plan=PLAN)
    walk = _walk.Walk(context, {})
    paths.judge(walk, "query", prefix.Verdict(names[first], {"right": 0.5}), "the scores")
    paths.judge(walk, "query", prefix.Verdict(names[further], {"right": 0.5}), "the scores", "_of_a_file_in_a_chat")
    assert [finding.id for finding in walk.outcome.findings] == found
    assert walk.outcome.measurements["query_prefix_of_a_file_in_a_chat"]["verdict"] == names[further]
