# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of engines and versions hold what the rules read from them."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _versions
from ansible_collections.plumbline.rag.plugins.module_utils._hosted import HOSTED

from .plugins.module_utils.installation import CATALOG

OWN = [name for name in CATALOG.engines if name not in HOSTED]


@pytest.mark.parametrize("name", OWN)
def test_flags(name: str) -> None:
    engine = CATALOG.engines[name]
    table = engine["flags"]
    assert isinstance(table["complete"], bool)
    for flag, entry in table["known"].items():
        assert flag.startswith("--")
        assert set(entry) <= {"plan", "values", "since", "removed", "use", "source"}
        assert ("removed" in entry) == ("use" in entry)
    limits = {engine[limit]["flag"] for limit in ("payload", "permits", "length", "memory_share") if limit in engine}
    assert limits | ({engine["batch_flag"]} if "batch_flag" in engine else set()) <= set(table["known"])
    assert engine["gpu"] in ("none", "optional", "required")


@pytest.mark.parametrize("name", OWN)
def test_each_case_has_one_status_code_in_a_version(name: str) -> None:
    engine = CATALOG.engines[name]
    for line in [*engine.get("status", ()), *engine.get("wrong", ())]:
        assert all(_versions.parse(line[bound]) for bound in ("since", "until") if bound in line)
    version = CATALOG.versions[engine["image"]]["default"]
    cases: dict[str, list[Any]] = {}
    for line in engine.get("status", ()):
        if _versions.within(version, line.get("since"), line.get("until")):
            cases.setdefault(line["case"], []).append(line["code"])
    assert [case for case, codes in cases.items() if len(codes) > 1] == []


@pytest.mark.parametrize("name", CATALOG.versions)
def test_the_default_is_one_that_the_rules_let_pass(name: str) -> None:
    known = CATALOG.versions[name]
    for bound in ("floor", "advised"):
        if bound in known:
            assert not _versions.below(known["default"], known[bound])
            assert known[f"{bound}_reason"]
    assert known["default"] not in known.get("denied", {})
    assert [a["id"] for a in known.get("advisories", ()) if not _versions.fixed(known["default"], a["fixed"])] == []
    assert all(stop["reason"] and _versions.parse(stop["version"]) for stop in known.get("stops", ()))
