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
