"""The molecule scenario: check mode on a virgin host, converge, idempotence, and the host's facts."""

from __future__ import annotations

from .conftest import docker, run


def test_quickstart_scenario():
    assert run("tests/stack/host/build").status == 0
    try:
        assert run("molecule", "test").status == 0
    finally:
        docker("volume", "rm", "--force", "rag-molecule-docker")
