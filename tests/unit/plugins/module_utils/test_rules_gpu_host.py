# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each rule on a host's cards, firing and quiet."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils._rules import gpu_host

Change = Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], Any]


def card(index: int, name: str, capability: str, memory_mb: int, free_mb: int) -> dict[str, Any]:
    return {
        "index": index,
        "uuid": f"GPU-{index}1111111-2222-3333-4444-555555555555",
        "name": name,
        "compute_capability": capability,
        "memory_mb": memory_mb,
        "free_mb": free_mb,
        "driver": "550.54.15",
        "mig": False,
        "mig_changes": False,
        "fault": None,
        "instances": [],
        "processes": [],
    }


PLAN: dict[str, Any] = {
    "hosts": {
        "box": {
            "embedder": {
                "container": "rag-embedder",
                "engine": "tei",
                "device": "gpu",
                "image": "ghcr.io/huggingface/text-embeddings-inference:cuda-1.9.3",
                "gpus": [0],
                "card_memory": {"bytes": 2 * 2**30},
            },
            "reranker": {
                "container": "rag-reranker",
                "engine": "vllm",
                "device": "gpu",
                "image": "docker.io/vllm/vllm-openai:v0.33.0",
                "gpus": [0],
                "card_memory": {"share": 0.5},
            },
        }
    }
}
FACTS: dict[str, Any] = {"docker": {"state": "running"}, "containers": []}
GPU: dict[str, Any] = {
    "gpus": [card(0, "NVIDIA L4", "8.9", 23034, 22561), card(1, "NVIDIA H200", "9.0", 143771, 143155)],
    "driver": {"state": "works", "reason": "", "kernel": "550.54.15", "library": "550.54.15"},
    "docker": {"runtime": True, "cdi": False, "snap": False},
    "toolkit": "1.20.0",
    "reboot": {"pending": False, "packages": []},
}


def found(change: Change, **may: bool) -> list[Any]:
    plan, facts, gpu = copy.deepcopy((PLAN, FACTS, GPU))
    change(plan["hosts"]["box"], facts, gpu)
    return list(gpu_host.gpu_findings(plan, "box", facts, gpu, **may))


def embedder(**values: Any) -> Change:
    return lambda host, facts, gpu: host["embedder"].update(values)


def first_card(**values: Any) -> Change:
    return lambda host, facts, gpu: gpu["gpus"][0].update(values)


def no_driver(host: dict[str, Any], facts: dict[str, Any], gpu: dict[str, Any]) -> None:
    del host["reranker"]
    gpu["gpus"] = []
    gpu["driver"].update(state="absent", reason="no NVIDIA driver is installed", kernel=None)


def mig(*instances: str, gpus: list[Any] | None = None) -> Change:
    def change(host: dict[str, Any], facts: dict[str, Any], gpu: dict[str, Any]) -> None:
        del host["reranker"]
        gpu["gpus"][0].update(mig=True, instances=[{"profile": "1g.5gb", "uuid": uuid} for uuid in instances])
        host["embedder"]["gpus"] = gpus or [0]

    return change


def alone(host: dict[str, Any]) -> None:
    del host["reranker"]


def no_toolkit(gpu: dict[str, Any]) -> None:
    gpu["docker"].update(runtime=False)
    gpu["toolkit"] = None


def running(host: dict[str, Any], facts: dict[str, Any], gpu: dict[str, Any]) -> None:
    facts["containers"] = [{"name": "rag-embedder"}, {"name": "rag-reranker"}]
    gpu["gpus"][0]["free_mb"] = 9000


INSTANCE = "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f"
FIRES: dict[str, tuple[str, Change, str]] = {
    "no such index": ("PL210", embedder(gpus=[2]), "card 2 of box, which is not there: it has 0 (NVIDIA L4), 1"),
    "no such UUID": ("PL210", embedder(gpus=["GPU-ffff"]), "card GPU-ffff of box"),
    "no driver": ("PL210", no_driver, "no NVIDIA driver is installed"),
    "mixed": ("PL211", embedder(gpus=[0, 1]), "capabilities 8.9, 9.0"),
    "too old": (
        "PL212",
        lambda host, facts, gpu: (alone(host), gpu["gpus"][0].update(compute_capability="7.0")),
        "7.0 is below 7.5",
    ),
    "not built": ("PL212", first_card(compute_capability="10.3"), "no image is compiled for compute capability 10.3"),
    "other tag": (
        "PL212",
        embedder(image="x/tei:turing-1.9.3"),
        "x/tei:turing-1.9.3 does not run on compute capability 8.9",
    ),
    "not in the image of many": (
        "PL212",
        first_card(compute_capability="12.1"),
        "does not run on compute capability 12.1",
    ),
    "memory": (
        "PL213",
        first_card(free_mb=13000),
        "13000 of 23034 MiB free; the embedder 2048 MiB and the reranker 11517",
    ),
    "mismatch": (
        "PL214",
        lambda host, facts, gpu: gpu["driver"].update(state="mismatch", library="550.90.07"),
        "is 550.54.15, its library 550.90.07",
    ),
    "no toolkit": ("PL215", lambda host, facts, gpu: no_toolkit(gpu), "neither the nvidia runtime"),
    "snap": ("PL215", lambda host, facts, gpu: gpu["docker"].update(snap=True), "is a snap"),
    "half set up": ("PL216", mig(), "has no instance"),
    "reboot for the driver": (
        "PL217",
        lambda host, facts, gpu: gpu["reboot"].update(pending=True, packages=["linux-base", "nvidia-driver-550"]),
        "box waits for a reboot, by linux-base, nvidia-driver-550",
    ),
    "another reboot": ("PL217", lambda host, facts, gpu: gpu["reboot"].update(pending=True), "box waits for a reboot."),
    "twice": (
        "PL218",
        embedder(gpus=[0, "GPU-01111111"]),
        "0 and GPU-01111111, which are the same card of box",
    ),
    "divided": ("PL219", mig(INSTANCE), f"as 0, is divided into {INSTANCE} (1g.5gb)"),
    "mode changes": (
        "PL220",
        lambda host, facts, gpu: (alone(host), gpu["gpus"][0].update(mig_changes=True)),
        "mode on",
    ),
    "fault": (
        "PL221",
        lambda host, facts, gpu: (alone(host), gpu["gpus"][0].update(fault="ERR!")),
        "Card 0 of box, given to the embedder, reports ERR!",
    ),
    "idle card": (
        "PL222",
        lambda host, facts, gpu: host["embedder"].update(device="cpu", gpus=[], image="x/tei:cpu-1.9.3"),
        "box has card 0 (NVIDIA L4), 1 (NVIDIA H200), and the embedder computes on the processor with x/tei:cpu-1.9.3",
    ),
    "image for the processor": (
        "PL212",
        embedder(image="x/tei:cpu-1.9.3"),
        "x/tei:cpu-1.9.3 does not run on compute capability 8.9",
    ),
    "too old for vllm": (
        "PL212",
        lambda host, facts, gpu: (host.pop("embedder"), gpu["gpus"][0].update(compute_capability="7.0")),
        "vLLM needs compute capability 7.5, it has 7.0",
    ),
    "old driver": (
        "PL223",
        lambda host, facts, gpu: (alone(host), gpu["gpus"][0].update(driver="525.147.05")),
        "The driver of box is 525.147.05; the image of the embedder needs branch 535 or later",
    ),
    "more than there is": (
        "PL213",
        lambda host, facts, gpu: (running(host, facts, gpu), host["reranker"].update(card_memory={"share": 0.95})),
        "the embedder 2048 MiB and the reranker 21882 MiB are needed",
    ),
}


def without_cards(host: dict[str, Any], facts: dict[str, Any], gpu: dict[str, Any]) -> None:
    for service in host.values():
        service["gpus"] = []
    gpu.update(gpus=[], driver={"state": "mismatch"})


QUIET: dict[str, Change] = {
    "as it should be": lambda host, facts, gpu: None,
    "by UUID": embedder(gpus=["GPU-01111111-2222-3333-4444-555555555555"]),
    "two alike": lambda host, facts, gpu: (
        gpu["gpus"].append(card(2, "NVIDIA L4", "8.9", 23034, 22561)),
        host["embedder"].update(gpus=[0, 2]),
    ),
    "other card of another kind": embedder(gpus=[1]),
    "tag for the card": embedder(image="x/tei:89-1.9.3"),
    "what runs already has its memory": running,
    "memory that is not reported": first_card(memory_mb=None, free_mb=None),
    "CDI": lambda host, facts, gpu: (no_toolkit(gpu), gpu["docker"].update(cdi=True)),
    "a toolkit that is not configured yet": lambda host, facts, gpu: gpu["docker"].update(runtime=False),
    "on the processor of a host without cards": lambda host, facts, gpu: (
        alone(host),
        host["embedder"].update(device="cpu", gpus=[]),
        gpu.update(gpus=[]),
    ),
    "docker is not there yet": lambda host, facts, gpu: (
        no_toolkit(gpu),
        facts["docker"].update(state="absent"),
    ),
    "a MIG instance": mig(INSTANCE, gpus=[INSTANCE]),
    "no service with cards": without_cards,
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.rule(FIRES[name][0], fires=True)) for name in FIRES]
)
def test_fires(name: str) -> None:
    id, change, text = FIRES[name]
    findings = found(change)
    assert [finding.id for finding in findings] == [id]
    assert text in findings[0].message
    assert findings[0].where["host"] == "box"


@pytest.mark.rule("PL210", "PL211", "PL212", "PL213", "PL214", "PL215", "PL216", fires=False)
@pytest.mark.rule("PL217", "PL218", "PL219", "PL220", "PL221", "PL222", "PL223", fires=False)
@pytest.mark.parametrize("name", QUIET)
def test_quiet(name: str) -> None:
    assert found(QUIET[name]) == []


@pytest.mark.rule("PL215", fires=False)
def test_a_toolkit_that_may_be_installed_is_not_missing() -> None:
    assert found(lambda host, facts, gpu: no_toolkit(gpu), toolkit_install=True) == []


@pytest.mark.rule("PL210", fires=False)
def test_a_driver_that_may_be_installed_is_not_missing() -> None:
    assert found(no_driver, driver_install=True) == []


@pytest.mark.rule("PL217", fires=True)
@pytest.mark.parametrize(
    ("packages", "state", "severity"),
    [
        ([], "works", "warning"),
        (["linux-image-6.1.0-40-amd64"], "works", "warning"),
        (["libnvidia-compute-550"], "works", "error"),
        ([], "broken", "error"),
    ],
)
def test_a_reboot_stops_when_it_concerns_the_driver(packages: list[str], state: str, severity: str) -> None:
    def change(host: dict[str, Any], facts: dict[str, Any], gpu: dict[str, Any]) -> None:
        gpu["reboot"].update(pending=True, packages=packages)
        gpu["driver"].update(state=state)

    assert [finding.severity for finding in found(change) if finding.id == "PL217"] == [severity]


@pytest.mark.parametrize(
    ("service", "looks"),
    [
        ({"engine": "tei", "device": "gpu", "gpus": [0]}, True),
        ({"engine": "tei", "device": "cpu", "gpus": []}, True),
        ({"engine": "vllm", "device": "cpu", "gpus": []}, False),
        ({"engine": "bundled", "device": "cpu", "gpus": []}, False),
    ],
)
def test_cards_are_looked_at_where_they_matter(service: dict[str, Any], looks: bool) -> None:
    assert gpu_host.needs_look({"hosts": {"box": {"images": [], "embedder": service}}}, "box") is looks
