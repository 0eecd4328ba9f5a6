from __future__ import annotations

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _versions


@pytest.mark.parametrize(
    ("version", "floor", "below"),
    [
        ("1.94.0", "1.94.0", False),
        ("1.93.9", "1.94.0", True),
        ("1.106.12", "1.94.0", False),
        ("v0.12.4-slim", "0.12.4", False),
        ("0.12", "0.12.4", True),
        ("18", "18.0", False),
    ],
)
def test_below(version, floor, below):
    assert _versions.below(version, floor) is below


def test_what_is_no_version_is_refused():
    with pytest.raises(ValueError, match="main"):
        _versions.parse("main")


@pytest.mark.parametrize(
    ("version", "since", "until", "inside"),
    [
        ("1.7.2", None, "1.7.3", True),
        ("1.7.3", None, "1.7.3", False),
        ("1.9.0", "1.9.0", None, True),
        ("1.8.3", "1.9.0", None, False),
        ("1.0", None, None, True),
    ],
)
def test_within(version, since, until, inside):
    assert _versions.within(version, since, until) is inside


FIXES = ["1.100.4", "1.101.3", "1.102.2", "1.103.1", "1.104.0"]


@pytest.mark.parametrize(
    ("version", "has"),
    [
        ("1.100.3", False),
        ("1.100.4", True),
        ("1.101.2", False),
        ("1.103.1", True),
        ("1.99.9", False),
        ("1.104.0", True),
        ("1.106.12", True),
    ],
)
def test_fixed_in_its_own_line_or_in_a_newer_one(version, has):
    assert _versions.fixed(version, FIXES) is has
