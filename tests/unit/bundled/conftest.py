from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT / "roles/bundled/files/engine"), str(ROOT / "tests/stack")]


@pytest.fixture(scope="session")
def model():
    from bundled_engine.model import Model

    return Model()
