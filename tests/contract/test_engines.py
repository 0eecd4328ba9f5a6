# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Engines on one card start one after the other: vLLM measures what is free when it starts, and TEI warms up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


def tasks(path: str) -> Iterator[dict[str, Any]]:
    """The tasks of a file in the order in which they run, those of plays and of blocks included."""

    def flat(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for entry in entries:
            nested = [entry[part] for part in ("tasks", "block", "rescue", "always") if part in entry]
            if nested:
                for part in nested:
                    yield from flat(part)
            else:
                yield entry

    return flat(yaml.safe_load((ROOT / path).read_text(encoding="utf-8")))


def test_the_engines_of_a_host_are_deployed_one_after_the_other() -> None:
    (deploy,) = [task for task in tasks("playbooks/site.yml") if task.get("name") == "Deploy the engines"]
    # a loop over a role runs all of it for one service before it begins with the next
    assert "ansible.builtin.include_role" in deploy
    assert deploy["loop"] == ["embedder", "reranker"]
    assert not {"async", "poll"} & set(deploy)


@pytest.mark.parametrize("engine", ["tei", "vllm", "bundled"])
def test_an_engine_runs_by_the_role_that_waits_until_it_is_ready(engine: str) -> None:
    used = [task for task in tasks(f"roles/{engine}/tasks/service.yml") if "ansible.builtin.import_role" in task]
    assert [task["ansible.builtin.import_role"]["name"] for task in used] == ["plumbline.rag.container"]
    order = [name for task in tasks("roles/container/tasks/service.yml") for name in task]
    assert order.index("community.docker.docker_container") < order.index("plumbline.rag.container_ready")
    assert not {"async", "poll"} & set(order)
