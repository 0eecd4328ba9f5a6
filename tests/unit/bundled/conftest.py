from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "roles/bundled/files/engine"))


@pytest.fixture(scope="session")
def model():
    from bundled_engine.model import Model

    return Model()
