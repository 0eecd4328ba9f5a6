# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on graphics cards: who uses which, and how much of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, WARNING, Finding, register
from ansible_collections.plumbline.rag.plugins.module_utils._rules._subject import Subject, flags

SHARE = register(
    "PL167",
    ERROR,
    "The services of a host ask for more than a graphics card has",
    "vLLM reserves its share of the whole card at start, nine tenths and more unless told otherwise; the second service of "
    "the card then does not start.",
    "Set rag_gpu_memory to have vLLM's shares computed, give each service a card of its own, or set --gpu-memory-utilization "
    "for each so that the sum stays below 0.95.",
    example="rag_embedder_gpus: [0]\nrag_reranker_gpus: [0]    # both on vLLM",
    source="vllm-project/vllm#10533, vllm-project/vllm#12308, xorbitsai/inference#4637",
)
GPU_LIST = register(
    "PL168",
    ERROR,
    "A list of graphics cards is not valid",
    "Docker takes indexes and UUIDs; with anything else the container is not created.",
    'Give indexes or UUIDs, for example [0, 1] or ["GPU-3f2b..."].',
    example="rag_embedder_gpus: [all]",
    source="ansible-collections/community.docker#42, NVIDIA/nvidia-docker#1026",
    acknowledgeable=False,
)
GPU_USE = register(
    "PL169",
    ERROR,
    "The engine and its list of graphics cards do not fit",
    "An engine made for a card does not start without one, or falls back to the processor and is fifty times slower; a card "
    "given to an engine that does not use it stands idle.",
    "Set rag_embedder_gpus or rag_reranker_gpus for the hosts that run the engine on cards, and for no others.",
    example="rag_embedder_engine: vllm    # and no rag_embedder_gpus",
    source="text-embeddings-inference: without a visible card it falls back to the processor with a warning",
)
TOO_SMALL = register(
    "PL613",
    ERROR,
    "A graphics card is too small for its services",
    "Weights, the activations of the largest batch and vLLM's own needs do not fit: the engine that starts last runs out of memory.",
    "Use a larger card, another card for one of the services, a smaller model, or smaller batches (--max-batch-tokens, "
    "--max-num-batched-tokens).",
    example="rag_embedder: Qwen/Qwen3-Embedding-8B\nrag_embedder_gpus: [0]\nrag_gpu_memory: 4",
    source="vllm-project/vllm#10533, huggingface/text-embeddings-inference#670",
)
UUID = re.compile(r"(GPU|MIG)-[0-9A-Za-z/-]{4,}")
FULL = 0.95


def _valid(card: Any) -> bool:
    if isinstance(card, bool):
        return False
    text = str(card)
    return (text.isascii() and text.isdecimal() and len(text) < 4) or UUID.fullmatch(text) is not None


def gpu_list(subject: Subject) -> Iterator[Finding]:
    for kind in ("embedder", "reranker"):
        variable = f"rag_{kind}_gpus"
        for host, cards in subject.per_host(variable):
            wrong = [card for card in cards if not _valid(card)]
            texts = [str(card) for card in cards]
            if wrong:
                message = f"{variable} has {wrong[0]!r}, which is neither an index nor a UUID."
                yield GPU_LIST.finding(message, variable=variable, host=host)
            elif len(set(texts)) < len(texts):
                yield GPU_LIST.finding(
                    f"{variable} names a card twice: {', '.join(texts)}.", variable=variable, host=host
                )


def gpu_use(subject: Subject) -> Iterator[Finding]:
    built = subject.spec["rag_image_source"] == "build"
    for service in subject.services():
        variable, use = f"rag_{service.kind}_gpus", service.engine.get("gpu", "none")
        for host, cards in _lists(subject, service.kind):
            if cards and (service.hosted or built or use == "none"):
                reason = "its image is built for the processor" if built and use != "none" else "uses none here"
                message = f"{variable} is {cards}; {service.name}: {reason}."
                yield GPU_USE.finding(message, severity=WARNING, variable=variable, host=host)
            elif not cards and use != "none" and not built:
                effect = "does not start without a card" if use == "required" else "computes on the processor then"
                message = f"{variable} is empty on a host that runs {service.name}, which {effect}."
                severity = ERROR if use == "required" else WARNING
                yield GPU_USE.finding(message, severity=severity, variable=variable, host=host)
            elif len(cards) > 1 and use == "required":
                wanted = {"--tensor-parallel-size", "--data-parallel-size", "--pipeline-parallel-size"}
                if not wanted & {flag for _host, flag, _value in subject.flags(service.kind)}:
                    message = f"{variable} has {len(cards)} cards; {service.name} uses one of them unless an argument says otherwise."
                    yield GPU_USE.finding(
                        message,
                        f"Add --data-parallel-size {len(cards)} to rag_{service.kind}_extra_args, or name one card.",
                        severity=WARNING,
                        variable=variable,
                        host=host,
                    )


def _lists(subject: Subject, kind: str) -> Iterator[tuple[str, list[Any]]]:
    """The different card lists of the hosts that run the service."""
    group = subject.spec.groups.get(f"rag_{kind}s") or subject.spec.hosts
    seen: list[Any] = []
    for host in group:
        cards = list(subject.spec.host_values[host][f"rag_{kind}_gpus"])
        if cards not in seen:
            seen.append(cards)
            yield host, cards


def shares(plans: Mapping[str, Mapping[str, Any]], engines: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    """Card shares over all services that all installations put on a host; ``plans`` by installation."""
    cards: dict[tuple[str, str], list[tuple[str, str, float]]] = {}
    for installation, plan in plans.items():
        for host, services in plan["hosts"].items():
            for kind in ("embedder", "reranker"):
                service = services.get(kind)
                if service is None or service["device"] == "cpu":
                    continue
                part = share(service["args"], engines[service["engine"]])
                for card in service["gpus"]:
                    cards.setdefault((host, str(card)), []).append((installation, kind, part))
    for (host, card), users in cards.items():
        total = sum(share for _installation, _kind, share in users)
        if len(users) > 1 and total > FULL:
            parts = " and ".join(f"the {kind} of {installation} ({share:g})" for installation, kind, share in users)
            message = f"{parts} share card {card} of {host}: {total:.2f} of it, and {FULL} is what there is."
            yield SHARE.finding(message, variable=f"rag_{users[-1][1]}_gpus", host=host)
    yield from _too_greedy(cards)
    yield from _warm_up(cards, plans)


def _too_greedy(cards: Mapping[tuple[str, str], list[tuple[str, str, float]]]) -> Iterator[Finding]:
    for (host, card), users in cards.items():
        for _installation, kind, share in users:
            if not 0 <= share <= 1:
                message = f"The {kind} asks for {share:g} of card {card}; a share lies between 0 and 1."
                yield SHARE.finding(message, variable=f"rag_{kind}_extra_args", host=host)


def _warm_up(
    cards: Mapping[tuple[str, str], list[tuple[str, str, float]]], plans: Mapping[str, Mapping[str, Any]]
) -> Iterator[Finding]:
    """TEI warms up with its largest batch: on a shared card that batch has to be stated."""
    for (host, card), users in cards.items():
        for installation, kind, _share_of_it in users if len(users) > 1 else []:
            service = plans[installation]["hosts"][host][kind]
            if service["engine"] == "tei" and "--max-batch-tokens" not in {
                flag for flag, _value in flags(service["args"])
            }:
                message = (
                    f"The {kind} shares card {card} and has no --max-batch-tokens: TEI warms up with 16384 tokens."
                )
                variable = f"rag_{kind}_extra_args"
                yield SHARE.finding(message, "Add --max-batch-tokens.", severity=WARNING, variable=variable, host=host)


def share(args: list[Any], engine: Mapping[str, Any]) -> float:
    """The part of a card that a service reserves; an engine without reservation is taken to need a tenth."""
    known = engine.get("memory_share")
    if known is None:
        return 0.1
    for flag, value in flags(args):
        if flag == known["flag"]:
            try:
                return float(value or "")
            except ValueError:
                break
    return float(known["default"])


def too_small(subject: Subject) -> Iterator[Finding]:
    for host, services in (subject.plan or {"hosts": {}})["hosts"].items():
        size = subject.spec.host_values[host]["rag_gpu_memory"]
        cards: dict[str, dict[str, int]] = {}
        for kind in ("embedder", "reranker"):
            taken = services.get(kind, {}).get("card_memory", {}).get("bytes")
            for card in services[kind]["gpus"] if taken is not None else ():
                cards.setdefault(str(card), {})[kind] = taken
        for card, users in cards.items():
            if size is not None and sum(users.values()) > size * 2**30 * FULL:
                parts = " and ".join(f"the {kind} {taken / 2**30:.1f} GiB" for kind, taken in users.items())
                message = f"Card {card} of {host} has {size:g} GiB; {parts} are needed at least."
                yield TOO_SMALL.finding(message, variable=f"rag_{list(users)[-1]}_gpus", host=host)


RULES = (gpu_list, gpu_use, too_small)
