# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about a host's graphics cards, judged before anything is changed on it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _gpu, _tei
from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, WARNING, Finding, register

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
    "Let the role nvidia install the NVIDIA container toolkit (nvidia_toolkit_install: true), or install and configure it.",
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

REBOOT = register(
    "PL217",
    ERROR,
    "The host waits for a reboot",
    "After it another kernel or driver runs, for which cards may be lost; until then the loaded driver and its files may differ.",
    "Reboot the host, then run again.",
    source="NVIDIA/nvidia-container-toolkit#394, lyulyul/shine-cluster#30",
)
SAME_CARD = register(
    "PL218",
    ERROR,
    "A service is given the same card twice",
    "Docker hands it out once; an engine that was told to use two cards does not start.",
    "Name each card once, by its index or its UUID.",
    example='rag_embedder_gpus: [0, "GPU-8f6d5a3e"]    # the UUID is that of card 0',
    acknowledgeable=False,
)
WHOLE_MIG = register(
    "PL219",
    ERROR,
    "A card in MIG mode is given as a whole",
    "Nothing computes on the card itself, only on its instances; CDI has no device of that name.",
    "Name one instance by the UUID that `nvidia-smi -L` prints, or turn MIG mode off.",
    example="rag_embedder_gpus: [0]    # card 0 is divided into instances",
    acknowledgeable=False,
)
MIG_CHANGES = register(
    "PL220",
    ERROR,
    "The MIG mode of a card waits for a reset",
    "The card is in one mode and will be in the other after its next reset, which a reboot brings: with the wrong devices.",
    "Reset the card with `nvidia-smi --gpu-reset` or reboot, then look at `nvidia-smi -L` again.",
)
FAULTY = register(
    "PL221",
    ERROR,
    "A card does not answer",
    "The driver lists it, and what starts on it hangs or fails.",
    "Look for Xid messages in the kernel's log, reset the card or reboot; do not give it to a service until it answers.",
    acknowledgeable=False,
)
IDLE_CARD = register(
    "PL222",
    WARNING,
    "A service computes on the processor of a host that has cards",
    "Embedding on the processor is some fifty times slower, and indexing takes days instead of hours.",
    "Give the service a card with rag_embedder_gpus or rag_reranker_gpus.",
    example="rag_embedder_engine: tei    # and no rag_embedder_gpus",
)
OLD_DRIVER = register(
    "PL223",
    ERROR,
    "The driver is too old for the image",
    "The container is not started (unsatisfied condition: cuda), or the engine ends with 'driver version is insufficient'.",
    "Install a newer driver branch and reboot.",
    source="text-embeddings-inference: needs CUDA 12.2; CUDA's release notes: 12.x runs on driver 525.60 and later",
)

_VLLM_LOWEST = (7, 5)
# Branch of the driver that the image of an engine needs at least.
_BRANCHES = {"tei": 535, "vllm": 525}


def needs_look(plan: Mapping[str, Any], host: str) -> bool:
    """Whether the cards of the host matter: a service is given some, or computes on the processor though it need not."""
    return needs_cards(plan, host) or any(True for _name, _service in _spared(plan, host))


def needs_cards(plan: Mapping[str, Any], host: str) -> bool:
    """Whether a service of the host is given cards."""
    return bool(_gpu.users(plan["hosts"][host]))


def gpu_findings(
    plan: Mapping[str, Any],
    host: str,
    facts: Mapping[str, Any],
    gpu: Mapping[str, Any],
    driver_install: bool = False,
    toolkit_install: bool = False,
) -> Iterator[Finding]:
    """What speaks against the services with cards; ``gpu`` is what the module gpu_info returns.

    ``driver_install`` and ``toolkit_install`` say what the role nvidia may install where it is missing.
    """
    yield from _idle(plan, host, gpu)
    if not needs_cards(plan, host):
        return
    yield from _reboot(host, gpu)
    if gpu["driver"]["state"] == "mismatch":
        kernel, library = gpu["driver"]["kernel"], gpu["driver"]["library"]
        message = (
            f"On {host} the kernel module of the NVIDIA driver is {kernel}, its library {library or 'another one'}."
        )
        yield MISMATCH.finding(message, host=host)
        return
    yield from _runtime(host, facts, gpu, toolkit_install)
    if gpu["driver"]["state"] == "absent" and driver_install:
        # it is judged again once the driver is there
        return
    for name, service in _gpu.users(plan["hosts"][host]).items():
        yield from _service(name, service, host, gpu)
    yield from _memory(plan, host, facts, gpu)


def _spared(plan: Mapping[str, Any], host: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Services on the processor whose engine would compute on a card as well."""
    for name, service in plan["hosts"][host].items():
        if isinstance(service, Mapping) and service.get("engine") == "tei" and service.get("device") == "cpu":
            yield name, service


def _idle(plan: Mapping[str, Any], host: str, gpu: Mapping[str, Any]) -> Iterator[Finding]:
    usable = [card for card in gpu["gpus"] if card["fault"] is None]
    for name, service in _spared(plan, host) if usable else ():
        cards = ", ".join(f"{card['index']} ({card['name']})" for card in usable)
        message = f"{host} has card {cards}, and the {name} computes on the processor with {service['image']}."
        yield IDLE_CARD.finding(message, host=host, hop=name, variable=f"rag_{name}_gpus")


def _reboot(host: str, gpu: Mapping[str, Any]) -> Iterator[Finding]:
    """It is in the way when the driver is concerned; otherwise it can wait, and is worth knowing."""
    if not gpu["reboot"]["pending"]:
        return
    packages = gpu["reboot"]["packages"]
    concerned = gpu["driver"]["state"] != "works" or any("nvidia" in package for package in packages)
    reason = f", by {', '.join(packages[:4])}" if packages else ""
    message = f"{host} waits for a reboot{reason}."
    yield REBOOT.finding(message, severity=ERROR if concerned else WARNING, host=host)


def _service(name: str, service: Mapping[str, Any], host: str, gpu: Mapping[str, Any]) -> Iterator[Finding]:
    where = {"host": host, "hop": name, "variable": f"rag_{name}_gpus"}
    matches = [(wanted, _gpu.find(wanted, gpu["gpus"])) for wanted in service["gpus"]]
    missing = [str(wanted) for wanted, match in matches if match is None]
    if missing:
        yield NO_CARD.finding(_absent(name, missing, host, gpu), **where)
        return
    given = [(wanted, *match) for wanted, match in matches if match is not None]
    names = [uuid for _wanted, _card, uuid in given]
    if len(set(names)) < len(names):
        both = " and ".join(str(wanted) for wanted, _card, uuid in given if names.count(uuid) > 1)
        yield SAME_CARD.finding(f"The {name} is given {both}, which are the same card of {host}.", **where)
    cards = [card for _wanted, card, _uuid in given]
    faulty = [card for card in cards if card["fault"]]
    if faulty:
        message = f"Card {faulty[0]['index']} of {host}, given to the {name}, reports {faulty[0]['fault']}."
        yield FAULTY.finding(message, **where)
        return
    yield from _mig(name, host, given)
    yield from _kind(name, service, host, cards)
    yield from _driver(name, service, host, cards)


def _absent(name: str, missing: list[str], host: str, gpu: Mapping[str, Any]) -> str:
    there = ", ".join(f"{card['index']} ({card['name']})" for card in gpu["gpus"])
    reason = f"it has {there}" if there else gpu["driver"]["reason"] or "it has no card"
    return f"The {name} is given card {', '.join(missing)} of {host}, which is not there: {reason}."


def _runtime(host: str, facts: Mapping[str, Any], gpu: Mapping[str, Any], toolkit_install: bool) -> Iterator[Finding]:
    docker = gpu["docker"]
    if docker["snap"]:
        message = f"Docker on {host} is a snap, which cannot reach the NVIDIA driver."
        yield NO_RUNTIME.finding(message, "Remove the snap and install Docker from packages.", host=host)
        return
    # what is there the role configures; what is missing it may install
    settled = docker["runtime"] or docker["cdi"] or gpu["toolkit"] or toolkit_install
    if facts["docker"]["state"] == "running" and not settled:
        message = (
            f"Docker on {host} has neither the nvidia runtime nor a CDI specification of nvidia.com/gpu, and the NVIDIA "
            "container toolkit is not installed."
        )
        yield NO_RUNTIME.finding(message, host=host, variable="nvidia_toolkit_install")


def _kind(name: str, service: Mapping[str, Any], host: str, cards: list[dict[str, Any]]) -> Iterator[Finding]:
    """TEI's images are compiled for kinds of cards; vLLM's has all that it supports."""
    known = sorted({card["compute_capability"] for card in cards if card["compute_capability"]})
    where = {"host": host, "hop": name, "variable": f"rag_{name}_gpus"}
    if service["engine"] == "vllm":
        old = [card for card in cards if _tei.capability(card["compute_capability"] or "99") < _VLLM_LOWEST]
        if old:
            message = f"The {name} is given a {old[0]['name']} of {host}: vLLM needs compute capability 7.5, it has {old[0]['compute_capability']}."
            yield NO_IMAGE.finding(message, "Use another card.", **where)
        return
    if service["engine"] != "tei" or not known:
        return
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


def _driver(name: str, service: Mapping[str, Any], host: str, cards: list[dict[str, Any]]) -> Iterator[Finding]:
    needed, installed = _BRANCHES.get(service["engine"]), cards[0]["driver"] or ""
    branch = installed.partition(".")[0]
    if needed and branch.isdecimal() and int(branch) < needed:
        message = f"The driver of {host} is {installed}; the image of the {name} needs branch {needed} or later."
        yield OLD_DRIVER.finding(message, host=host, hop=name)


def _mig(name: str, host: str, given: list[tuple[Any, dict[str, Any], str]]) -> Iterator[Finding]:
    where = {"host": host, "hop": name, "variable": f"rag_{name}_gpus"}
    for wanted, card, uuid in given:
        what = f"Card {card['index']} of {host}, given to the {name}"
        if card["mig_changes"]:
            later = "off" if card["mig"] else "on"
            yield MIG_CHANGES.finding(f"{what}, has MIG mode {later} after its next reset and not before.", **where)
        elif card["mig"] and not card["instances"]:
            yield HALF_MIG.finding(f"{what}, is in MIG mode and has no instance.", **where)
        elif card["mig"] and uuid == card["uuid"]:
            parts = ", ".join(f"{instance['uuid']} ({instance['profile']})" for instance in card["instances"])
            yield WHOLE_MIG.finding(f"{what} as {wanted}, is divided into {parts}.", **where)


def _memory(plan: Mapping[str, Any], host: str, facts: Mapping[str, Any], gpu: Mapping[str, Any]) -> Iterator[Finding]:
    """Free memory against what comes, where a service whose container is there already has what it takes; and the whole
    card against all services."""
    present = {container["name"] for container in facts["containers"]}
    services = _gpu.users(plan["hosts"][host])
    for card in gpu["gpus"]:
        whole, free = card["memory_mb"], card["free_mb"]
        if whole is None or free is None or card["mig"]:
            continue
        needs = {
            name: _need(service["card_memory"], whole)
            for name, service in services.items()
            if any(_gpu.find(one, [card]) for one in service["gpus"])
        }
        coming = {name: need for name, need in needs.items() if services[name]["container"] not in present}
        short = coming if sum(coming.values()) > free else needs if sum(needs.values()) > whole else {}
        if short:
            parts = " and ".join(f"the {name} {need} MiB" for name, need in short.items())
            message = (
                f"Card {card['index']} ({card['name']}) of {host} has {free} of {whole} MiB free; {parts} are needed."
            )
            yield MEMORY.finding(message, host=host, variable=f"rag_{list(short)[-1]}_gpus")


def _need(taken: Mapping[str, Any], whole: int) -> int:
    """What a service takes of a card in MiB: a share counts from the whole card, and an engine may need more than that."""
    return round(max(float(taken.get("share", 0)) * whole, int(taken.get("bytes", 0)) / 2**20))
