# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about a host's graphics cards, judged before anything is changed on it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _tei
from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, Finding, register

NO_CARD = register(
    "PL210",
    ERROR,
    "A graphics card that a service is given is not there",
    "The container could not be started, after the old one had been removed.",
    "Name cards of this host by the index or UUID that `nvidia-smi -L` prints, or install the driver.",
    example="rag_embedder_gpus: [1]    # the host has card 0 only",
    source="NVIDIA/nvidia-docker#1637, NVIDIA/nvidia-container-toolkit#871",
    acknowledgeable=False,
)
MIXED = register(
    "PL211",
    ERROR,
    "A service is given cards of different kinds",
    "An image of TEI is compiled for one kind of card; on the other one it ends at start.",
    "Name cards of one kind.",
    example="rag_embedder_gpus: [0, 1]    # an L4 and an H100",
    source="huggingface/text-embeddings-inference#806",
)
NO_IMAGE = register(
    "PL212",
    ERROR,
    "The image does not run on the card",
    "TEI ends at start with 'Runtime compute cap is not compatible with compile time compute cap', again and again.",
    "Use another card, or vllm as the engine.",
    source="huggingface/text-embeddings-inference#15, huggingface/text-embeddings-inference#640, huggingface/text-embeddings-inference#806",
)
MEMORY = register(
    "PL213",
    ERROR,
    "A card has less free memory than its services take",
    "The engine that starts last runs out of memory, or vLLM refuses to start: its share counts from the whole card.",
    "Free the card, use another one, lower --gpu-memory-utilization or --max-batch-tokens, or choose a smaller model.",
    source="vllm-project/vllm#10533, vllm-project/vllm#12308",
)
MISMATCH = register(
    "PL214",
    ERROR,
    "The driver's kernel module and its library differ",
    "An update replaced the library under the loaded module: containers that run keep working, and none can be started.",
    "Reboot the host, then run again.",
    source="NVIDIA/nvidia-container-toolkit#394, NVIDIA/nvidia-docker#584",
    acknowledgeable=False,
)
NO_RUNTIME = register(
    "PL215",
    ERROR,
    "Docker cannot hand out graphics cards",
    "The container is not created: could not select device driver with capabilities [[gpu]].",
    "Install the NVIDIA container toolkit and run `nvidia-ctk runtime configure --runtime=docker`, then restart Docker.",
    source="NVIDIA/nvidia-docker#1034, NVIDIA/nvidia-docker#1637, infiniflow/ragflow#9573",
)
HALF_MIG = register(
    "PL216",
    ERROR,
    "A card is in MIG mode and has no instance",
    "Nothing can compute on it until instances are made.",
    "Make instances with `nvidia-smi mig -cgi ... -C` and name their UUIDs, or turn MIG mode off.",
    example="rag_embedder_gpus: [0]    # MIG mode is on, nvidia-smi -L lists no instance",
)

_ENGINES = ("embedder", "reranker")


def needs_cards(plan: Mapping[str, Any], host: str) -> bool:
    """Whether a service of the host is given cards."""
    return any(True for _service in _users(plan, host))


def gpu_findings(
    plan: Mapping[str, Any], host: str, facts: Mapping[str, Any], gpu: Mapping[str, Any]
) -> Iterator[Finding]:
    """What speaks against the services with cards; ``gpu`` is what the module gpu_info returns."""
    if not needs_cards(plan, host):
        return
    if gpu["driver"]["state"] == "mismatch":
        kernel, library = gpu["driver"]["kernel"], gpu["driver"]["library"]
        message = (
            f"On {host} the kernel module of the NVIDIA driver is {kernel}, its library {library or 'another one'}."
        )
        yield MISMATCH.finding(message, host=host)
        return
    yield from _runtime(host, facts, gpu)
    for name, service in _users(plan, host):
        given = [(wanted, _card(wanted, gpu["gpus"])) for wanted in service["gpus"]]
        missing = [str(wanted) for wanted, card in given if card is None]
        if missing:
            yield NO_CARD.finding(_absent(name, missing, host, gpu), host=host, hop=name, variable=f"rag_{name}_gpus")
            continue
        yield from _kind(name, service, host, [card for _wanted, card in given if card is not None])
        yield from _half_mig(name, host, given)
    yield from _memory(plan, host, facts, gpu)


def _users(plan: Mapping[str, Any], host: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    mine = plan["hosts"][host]
    for name in _ENGINES:
        if name in mine and mine[name].get("gpus") and mine[name]["device"] == "gpu":
            yield name, mine[name]


def _card(wanted: Any, cards: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The card of an index or UUID, or the one that an instance's UUID lies on; UUIDs may be shortened."""
    text = str(wanted)
    for card in cards:
        instances = [instance["uuid"] for instance in card["instances"]]
        if text == str(card["index"]) or any(uuid.startswith(text) for uuid in [card["uuid"], *instances] if uuid):
            return card
    return None


def _absent(name: str, missing: list[str], host: str, gpu: Mapping[str, Any]) -> str:
    there = ", ".join(f"{card['index']} ({card['name']})" for card in gpu["gpus"])
    reason = f"it has {there}" if there else gpu["driver"]["reason"] or "it has no card"
    return f"The {name} is given card {', '.join(missing)} of {host}, which is not there: {reason}."


def _runtime(host: str, facts: Mapping[str, Any], gpu: Mapping[str, Any]) -> Iterator[Finding]:
    docker = gpu["docker"]
    if docker["snap"]:
        message = f"Docker on {host} is a snap, which cannot reach the NVIDIA driver."
        yield NO_RUNTIME.finding(message, "Remove the snap and install Docker from packages.", host=host)
    elif facts["docker"]["state"] == "running" and not docker["runtime"] and not docker["cdi"]:
        message = f"Docker on {host} has neither the nvidia runtime nor a CDI specification of nvidia.com/gpu."
        yield NO_RUNTIME.finding(message, host=host)


def _kind(name: str, service: Mapping[str, Any], host: str, cards: list[dict[str, Any]]) -> Iterator[Finding]:
    """TEI's images are compiled for kinds of cards; vLLM's has all that it supports."""
    known = sorted({card["compute_capability"] for card in cards if card["compute_capability"]})
    if service["engine"] != "tei" or not known:
        return
    where = {"host": host, "hop": name, "variable": f"rag_{name}_gpus"}
    if len(known) > 1:
        message = f"The {name} is given cards of {host} with the compute capabilities {', '.join(known)}."
        yield MIXED.finding(message, **where)
        return
    capability, prefix = _tei.capability(known[0]), _tei.prefix_of(service["image"])
    if not _tei.runs(prefix, capability):
        reason = _tei.refusal(capability)
        suits = f"{service['image']} does not run on compute capability {known[0]}"
        message = f"The {name} is given a {cards[0]['name']} of {host}: {reason or suits}."
        yield NO_IMAGE.finding(message, **where)


def _half_mig(name: str, host: str, given: list[tuple[Any, dict[str, Any] | None]]) -> Iterator[Finding]:
    for _wanted, card in given:
        if card is not None and card["mig"] and not card["instances"]:
            message = f"Card {card['index']} of {host}, given to the {name}, is in MIG mode and has no instance."
            yield HALF_MIG.finding(message, host=host, hop=name, variable=f"rag_{name}_gpus")


def _memory(plan: Mapping[str, Any], host: str, facts: Mapping[str, Any], gpu: Mapping[str, Any]) -> Iterator[Finding]:
    """Free memory against what comes; a service whose container is there already has what it takes."""
    present = {container["name"] for container in facts["containers"]}
    for card in gpu["gpus"]:
        whole, free = card["memory_mb"], card["free_mb"]
        if whole is None or free is None or card["mig"]:
            continue
        needs: dict[str, int] = {}
        for name, service in _users(plan, host):
            if service["container"] not in present and any(_card(one, [card]) for one in service["gpus"]):
                taken = service["card_memory"]
                # a share counts from the whole card, and an engine may need more than its share
                needs[name] = round(max(taken.get("share", 0) * whole, taken.get("bytes", 0) / 2**20))
        if sum(needs.values()) > free:
            parts = " and ".join(f"the {name} {need} MiB" for name, need in needs.items())
            message = (
                f"Card {card['index']} ({card['name']}) of {host} has {free} of {whole} MiB free; {parts} are needed."
            )
            yield MEMORY.finding(message, host=host, variable=f"rag_{list(needs)[-1]}_gpus")
