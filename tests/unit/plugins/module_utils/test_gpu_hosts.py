# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of recorded hosts in cases/gpu: what is read of each, and what speaks against a service there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.plumbline.rag.plugins.module_utils import _gpu
from ansible_collections.plumbline.rag.plugins.module_utils._rules import gpu_host

FILE = Path(__file__).parents[2] / "cases" / "gpu" / "hosts.yml"
HOSTS: list[dict[str, Any]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
ENGINES: dict[str, dict[str, Any]] = {
    "tei": {
        "image": "ghcr.io/huggingface/text-embeddings-inference:cuda-1.9.3",
        "card_memory": {"bytes": 4 * 2**30},
    },
    "vllm": {"image": "docker.io/vllm/vllm-openai:v0.33.0", "card_memory": {"share": 0.33}},
}
JUDGED = ("PL210", "PL211", "PL212", "PL213", "PL214", "PL216", "PL218", "PL219", "PL220", "PL221", "PL223")


def parameter(engine: str, host: dict[str, Any]) -> Any:
    fired = host[engine]
    quiet = [rule for rule in JUDGED if rule not in fired]
    marks = [pytest.mark.rule(*fired, fires=True)] if fired else []
    return pytest.param(
        engine, host, id=f"{engine}: {host['name']}", marks=[*marks, pytest.mark.rule(*quiet, fires=False)]
    )


def cards(host: dict[str, Any]) -> list[dict[str, Any]]:
    return _gpu.attach(_gpu.cards(host["query"]), [], _gpu.instances(host.get("list", "")))


@pytest.mark.parametrize("host", [pytest.param(host, id=host["name"]) for host in HOSTS])
def test_what_is_read(host: dict[str, Any]) -> None:
    fields = ("name", "compute_capability", "memory_mb", "free_mb", "mig")
    assert [[card[name] for name in fields] for card in cards(host)] == host["cards"]
    state = _gpu.driver(host.get("status", 0), host["query"], host.get("kernel"), None)["state"]
    assert state == host.get("state", "works")


@pytest.mark.parametrize(("engine", "host"), [parameter(engine, host) for host in HOSTS for engine in ENGINES])
def test_what_speaks_against_a_service(engine: str, host: dict[str, Any]) -> None:
    service = {
        "container": "rag-embedder",
        "engine": engine,
        "device": "gpu",
        "gpus": host.get("give", [0]),
        **ENGINES[engine],
    }
    gpu = {
        "gpus": cards(host),
        "driver": _gpu.driver(host.get("status", 0), host["query"], host.get("kernel"), None),
        "toolkit": "1.20.0",
        "docker": {"runtime": True, "cdi": False, "snap": False},
        "reboot": {"pending": False, "packages": []},
    }
    facts = {"docker": {"state": "running"}, "containers": []}
    found = list(gpu_host.gpu_findings({"hosts": {"box": {"embedder": service}}}, "box", facts, gpu))
    assert [finding.id for finding in found] == host[engine], [finding.message for finding in found]
