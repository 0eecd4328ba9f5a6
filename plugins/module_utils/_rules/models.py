# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on the models themselves: quality, licence, access to the weights. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, WARNING, Finding, register
from ansible_collections.plumbline.rag.plugins.module_utils._rules._subject import Service, Subject

LICENCE = register(
    "PL136",
    WARNING,
    "The model's licence does not allow commercial use",
    "The weights can be downloaded by anybody, and still may not be used in a company.",
    "Acknowledge it for research and private use, buy a licence, or choose another model.",
    example="rag_embedder: jinaai/jina-embeddings-v3    # CC-BY-NC-4.0",
    source="the licence in the model's repository",
)
GATED = register(
    "PL137",
    ERROR,
    "The weights are behind a login",
    "The hub refuses to hand them out, and the run ends before the engine is started.",
    "Accept the licence and set rag_hub_token to a token of that account, or bring the weights along (rag_weights_source: folder).",
    example="rag_embedder: google/embeddinggemma-300m\nrag_embedder_engine: vllm",
    source="huggingface/text-embeddings-inference#207",
)
REMOTE_CODE = register(
    "PL138",
    WARNING,
    "The model's repository brings code that runs in the engine",
    "Whoever can change the repository can run code on the host, and old code with new libraries gives wrong vectors that "
    "look right.",
    "Pin rag_embedder_revision or rag_reranker_revision to a commit that was read, or choose an engine with its own implementation.",
    example="rag_embedder_extra_args: [--trust-remote-code]",
    source="gte-multilingual-base: cosines of 0.738, 0.676 and 0.598 in place of 0.302, 0.750 and 0.320 with old code",
)
ON_PROCESSOR = register(
    "PL139",
    WARNING,
    "A large model computes on the processor",
    "A model of more than a billion parameters takes seconds for a chunk there; uploads run into timeouts.",
    "Use a smaller model, or hosts with graphics cards.",
    example="rag_embedder: Qwen/Qwen3-Embedding-8B\nrag_image_source: build",
    source="huggingface/text-embeddings-inference#675",
)


def _fetched(subject: Subject, service: Service) -> bool:
    """Whether the weights are fetched by name."""
    named = subject.spec[f"rag_{service.kind}_weights"] is None and subject.spec["rag_weights_source"] == "hub"
    return service.name in ("tei", "vllm") and named


def licence(subject: Subject) -> Iterator[Finding]:
    for service in subject.services():
        known = service.entry.raw.get("licence")
        if isinstance(known, dict) and known.get("commercial") is False:
            message = (
                f"{service.entry.id} is under {known.get('name', 'a licence')}, which does not allow commercial use."
            )
            yield LICENCE.finding(message, variable=f"rag_{service.kind}")


def gated(subject: Subject) -> Iterator[Finding]:
    for service in subject.services():
        if service.entry.raw.get("gated") and _fetched(subject, service) and not subject.spec["rag_hub_token"]:
            message = f"{service.entry.id} needs a login, and it would be fetched without one."
            yield GATED.finding(message, variable=f"rag_{service.kind}")


def remote_code(subject: Subject) -> Iterator[Finding]:
    for service in subject.services():
        if service.hosted:
            continue
        support = service.entry.engines.get(service.name, {})
        ours = "--trust-remote-code" in support.get("args", [])
        for host, flag, _value in subject.flags(service.kind):
            if flag == "--trust-remote-code" and not ours:
                variable = f"rag_{service.kind}_extra_args"
                message = (
                    f"{variable} has --trust-remote-code: code of the repository {service.entry.id} runs in the engine."
                )
                yield REMOTE_CODE.finding(message, variable=variable, host=host)
        if ours and subject.spec[f"rag_{service.kind}_revision"] is None:
            message = f"{service.entry.id} runs code of its repository in {service.name}, and rag_{service.kind}_revision is not set."
            yield REMOTE_CODE.finding(message, variable=f"rag_{service.kind}_revision")


def on_processor(subject: Subject) -> Iterator[Finding]:
    if subject.spec["rag_image_source"] != "build":
        return
    for service in subject.services():
        size = service.entry.raw.get("parameters")
        if not service.hosted and isinstance(size, int) and size > 1_000_000_000:
            message = f"{service.entry.id} has {size / 1e9:.1f} billion parameters, and rag_image_source is build."
            yield ON_PROCESSOR.finding(message, variable=f"rag_{service.kind}")


RULES = (licence, gated, remote_code, on_processor)
