# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of the Docker daemon: what is merged, what is recorded, and what is taken away again."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _daemon_config

CDI = {"features": {"cdi": True}}
RUNTIME = {"runtimes": {"nvidia": {"path": "nvidia-container-runtime", "args": []}}}
MIRRORS = {"registry-mirrors": ["https://mirror.example.org"]}


@pytest.mark.parametrize(
    ("before", "settings", "after", "added"),
    [
        ({}, CDI, {"features": {"cdi": True}}, {"features": {"cdi": True}}),
        (MIRRORS, CDI, {**MIRRORS, "features": {"cdi": True}}, {"features": {"cdi": True}}),
        (
            {"features": {"buildkit": False}},
            CDI,
            {"features": {"buildkit": False, "cdi": True}},
            {"features": {"cdi": True}},
        ),
        (CDI, CDI, {"features": {"cdi": True}}, {}),
        ({"features": {"cdi": False}}, CDI, {"features": {"cdi": True}}, {}),
        (
            {"runtimes": {"kata": {"path": "kata"}}},
            RUNTIME,
            {"runtimes": {"kata": {"path": "kata"}, "nvidia": {"path": "nvidia-container-runtime", "args": []}}},
            {"runtimes": {"nvidia": {"path": "nvidia-container-runtime", "args": []}}},
        ),
    ],
)
def test_settings_are_merged_and_recorded(
    before: dict[str, Any], settings: dict[str, Any], after: dict[str, Any], added: dict[str, Any]
) -> None:
    assert _daemon_config.merged(before, settings) == after
    assert _daemon_config.added(before, settings) == added


@pytest.mark.parametrize(
    ("content", "ours", "left"),
    [
        ({"features": {"cdi": True}}, CDI, {}),
        ({"features": {"cdi": True, "buildkit": False}}, CDI, {"features": {"buildkit": False}}),
        # changed since by somebody else
        ({"features": {"cdi": False}}, CDI, {"features": {"cdi": False}}),
        ({**MIRRORS}, CDI, {**MIRRORS}),
        ({**MIRRORS, **CDI}, {}, {**MIRRORS, **CDI}),
    ],
)
def test_only_what_was_added_is_taken_away(content: dict[str, Any], ours: dict[str, Any], left: dict[str, Any]) -> None:
    assert _daemon_config.without(content, ours) == left


def test_a_file_is_read_and_written() -> None:
    assert _daemon_config.read("") == {}
    assert _daemon_config.read('{"features": {"cdi": true}}') == {"features": {"cdi": True}}
    assert _daemon_config.write({}) == ""
    assert _daemon_config.write({"debug": True}) == '{\n    "debug": true\n}\n'


@pytest.mark.parametrize("text", ["{", "[]", '"text"'])
def test_what_is_no_configuration(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        _daemon_config.read(text)
