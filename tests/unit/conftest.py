# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds every test to its `rule` mark: what it says fires must fire, what it says is quiet must be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _findings


@pytest.fixture(autouse=True)
def honest_rule_marks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    fired: set[str] = set()
    original = _findings.Rule.finding

    def recording(rule: _findings.Rule, *args: Any, **kwargs: Any) -> _findings.Finding:
        fired.add(rule.id)
        return original(rule, *args, **kwargs)

    monkeypatch.setattr(_findings.Rule, "finding", recording)
    yield
    for mark in request.node.iter_markers("rule"):
        wrong = set(mark.args) - fired if mark.kwargs["fires"] else set(mark.args) & fired
        if wrong:
            pytest.fail(f"marked fires={mark.kwargs['fires']}, which is not so: {', '.join(sorted(wrong))}")
