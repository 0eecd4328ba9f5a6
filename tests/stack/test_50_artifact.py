"""The artifact as users install it, on the running quickstart."""

from __future__ import annotations

from .conftest import container_ids, run


def test_the_artifact_is_clean_and_deploys_the_same():
    before = container_ids()
    assert run("tests/artifact/run").status == 0
    assert container_ids() == before
