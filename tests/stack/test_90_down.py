"""make demo-down takes away what make demo brought, and data only when told to."""

from __future__ import annotations

from pathlib import Path

from .conftest import docker, run


def test_demo_down_keeps_the_data():
    assert run("make", "demo-down").status == 0
    assert [n for n in docker("ps", "--all", "--format", "{{.Names}}").split() if n.startswith("rag-")] == []
    assert docker("network", "ls", "--filter", "name=^rag$", "--quiet") == ""
    assert docker("volume", "ls", "--filter", "name=^rag-", "--quiet").split() == ["rag-open-webui", "rag-postgres"]


def test_demo_down_with_volumes_leaves_nothing():
    assert run("make", "demo-down", "VOLUMES=1").status == 0
    assert docker("volume", "ls", "--filter", "name=^rag-", "--quiet") == ""
    assert not Path("/etc/plumbline/default").exists()
