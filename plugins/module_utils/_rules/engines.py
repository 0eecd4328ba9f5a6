# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on engines: their arguments, dtypes and what they read of a text. Pure."""

from __future__ import annotations

import difflib
import json
import posixpath
from collections.abc import Iterator
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _versions
from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, WARNING, Finding, register
from ansible_collections.plumbline.rag.plugins.module_utils._rules._subject import Service, Subject, flags, number
from ansible_collections.plumbline.rag.plugins.module_utils._spec import nearest, shown

POOLING = register(
    "PL148",
    ERROR,
    "An engine argument changes the model's pooling",
    "With another pooling the model starts and answers with vectors of the right length that mean something else.",
    "Remove the argument: the pooling comes with the model.",
    example="rag_embedder: BAAI/bge-m3    # cls\nrag_embedder_extra_args: [--pooling, mean]",
    source="huggingface/Google-Cloud-Containers#115",
)
WRONG_NUMBERS = register(
    "PL157",
    ERROR,
    "This release of the engine computes the model wrongly",
    "The answer is a vector of the right length and norm 1, and it is not the model's.",
    "Use another release of the engine, or another engine.",
    example="rag_embedder: Qwen/Qwen3-Embedding-0.6B\nrag_embedder_engine: tei    # 1.7.2",
    source="huggingface/text-embeddings-inference#642, huggingface/text-embeddings-inference#665",
)
REFUSED_FLAG = register(
    "PL183",
    ERROR,
    "The engine does not take an argument",
    "The engine prints its usage and exits; the container restarts until somebody looks.",
    "Remove the argument, or use the one that replaces it.",
    example="rag_embedder_extra_args: [--task, embed]    # --runner pooling",
    source="vllm-project/vllm#35603, vllm-project/vllm#21470, gpustack/gpustack#3991",
)
DTYPE = register(
    "PL184",
    ERROR,
    "The dtype does not fit the model or the engine",
    "The engine refuses to start, or the model overflows and answers with vectors that are not numbers.",
    "Remove --dtype to have the engine choose, or use a dtype that both take.",
    example="rag_embedder: google/embeddinggemma-300m\nrag_embedder_extra_args: [--dtype, float16]",
    source="huggingface/text-embeddings-inference#675; vLLM: does not support float16. Reason: Numerical instability",
)
OWNED_FLAG = register(
    "PL185",
    ERROR,
    "An engine argument sets what the plan sets",
    "Two places would decide the same argument, and the clients of the engine follow only one of them.",
    "Remove the argument; the rag_ variables and the catalog decide it.",
    example="rag_embedder_extra_args: [--served-model-name, embed]",
    source="vllm-project/vllm#3486, BerriAI/litellm#7744",
)
CUT_LENGTH = register(
    "PL179",
    ERROR,
    "An engine argument makes the model read less than a chunk",
    "What lies past the limit is cut off without a word by one engine, and refused by the other.",
    "Raise the argument or lower rag_chunk_size.",
    example="rag_embedder_extra_args: [--max-batch-tokens, '128']",
    source="huggingface/text-embeddings-inference#763",
)
NO_TEMPLATE = register(
    "PL192",
    ERROR,
    "The reranker lacks its chat template",
    "A language model judges a pair inside the prompt that it was trained with. Without it the answers are numbers between 0 and "
    "1 in an order that is nearly random.",
    "Put the template into the engine's container and name it with --chat-template in rag_reranker_extra_args.",
    example="rag_reranker: Qwen/Qwen3-Reranker-0.6B\nrag_reranker_engine: vllm",
    source="vllm-project/vllm#21681, QwenLM/Qwen3-Embedding#71",
)
WEIGHTS = register(
    "PL193",
    ERROR,
    "The folder of weights does not lie in a volume of the engine",
    "The path is one inside the container, where rag_weights_dir is mounted. One of the host is not found there.",
    "Give an absolute path below the engine's volume.",
    example="rag_embedder_engine: vllm\nrag_embedder_weights: /srv/models/bge-m3    # /models/bge-m3",
    source="huggingface/text-embeddings-inference#67",
)


def _arguments(subject: Subject) -> Iterator[tuple[Service, str, str, str | None]]:
    """Every flag of the engines that this collection starts: service, host, flag and value."""
    for service in subject.services():
        if not service.hosted:
            for host, flag, value in subject.flags(service.kind):
                yield service, host, flag, value


def _engine_version(subject: Subject, service: Service) -> str:
    return subject.version(service.engine["image"])


def refused_flag(subject: Subject) -> Iterator[Finding]:
    for service, host, flag, _value in _arguments(subject):
        table, variable = service.engine.get("flags", {}), f"rag_{service.kind}_extra_args"
        known, version = table.get("known", {}), _engine_version(subject, service)
        entry = known.get(flag)
        if entry is not None and "removed" in entry and not _versions.below(version, entry["removed"]):
            message = f"{variable} has {flag}, which {service.name} {version} no longer knows."
            yield REFUSED_FLAG.finding(message, f"Use {entry['use']}.", variable=variable, host=host)
        elif entry is not None and _versions.below(version, entry.get("since", "0")):
            message = (
                f"{variable} has {flag}, which {service.name} knows from {entry['since']} on; the plan has {version}."
            )
            yield REFUSED_FLAG.finding(message, variable=variable, host=host)
        elif entry is None:
            current = [name for name in known if "removed" not in known[name]]
            close = nearest(flag, current)
            hint = f"Did you mean {close}?" if close else None
            if table.get("complete"):
                message = f"{variable} has {flag}, which {service.name} does not know."
                yield REFUSED_FLAG.finding(message, hint, variable=variable, host=host)
            elif difflib.get_close_matches(flag.replace("_", "-"), set(current) - {flag.replace("_", "-")}, 1, 0.88):
                message = f"{variable} has {flag}; {service.name} knows {close}."
                yield REFUSED_FLAG.finding(message, hint, severity=WARNING, variable=variable, host=host)


def owned_flag(subject: Subject) -> Iterator[Finding]:
    for service, host, flag, _value in _arguments(subject):
        table = service.engine.get("flags", {}).get("known", {})
        needed = {name for name, _value in flags(service.entry.engines.get(service.name, {}).get("args", ()))} - {
            "--dtype"
        }
        if table.get(flag, {}).get("plan") or flag in needed:
            variable = f"rag_{service.kind}_extra_args"
            message = f"{variable} has {flag}, which the plan sets for {service.entry.id} itself."
            yield OWNED_FLAG.finding(message, variable=variable, host=host)


def _same(dtype: str) -> str:
    return {"half": "float16", "float": "float32"}.get(dtype, dtype)


def dtype(subject: Subject) -> Iterator[Finding]:
    for service, host, flag, value in _arguments(subject):
        if flag != "--dtype":
            continue
        variable = f"rag_{service.kind}_extra_args"
        allowed = service.engine.get("flags", {}).get("known", {}).get("--dtype", {}).get("values", ())
        refused = service.entry.raw.get("dtypes_refused") or {}
        reasons = dict(refused) if isinstance(refused, dict) else dict.fromkeys(refused, "the catalog refuses it")
        given, problem = _same(str(value)), None
        if allowed and value not in allowed:
            problem = f"{service.name} takes {', '.join(allowed)}"
        elif given in reasons:
            problem = f"{service.entry.id} does not bear it: {reasons[given]}"
        elif subject.spec["rag_image_source"] == "build" and given == "float16":
            problem = "the engine is built for the CPU, which computes in float32"
        if problem is not None:
            yield DTYPE.finding(f"{variable} has --dtype {value}; {problem}.", variable=variable, host=host)


def pooling(subject: Subject) -> Iterator[Finding]:
    expected = str(subject.choice.embedder.raw.get("pooling", ""))
    for service, host, flag, value in _arguments(subject):
        if service.kind != "embedder" or expected in ("", "unknown"):
            continue
        given = value if flag == "--pooling" else None
        if flag == "--pooler-config":
            config = _json(value)
            given = config.get("pooling_type") or config.get("seq_pooling_type")
        # TEI writes last-token where others write last
        if given is not None and not str(given).lower().startswith(expected.lower()):
            message = f"rag_embedder_extra_args has {flag} {given}; {service.entry.id} was trained with {expected}."
            yield POOLING.finding(message, variable="rag_embedder_extra_args", host=host)


def _json(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def cut_length(subject: Subject) -> Iterator[Finding]:
    choice, spec = subject.choice, subject.spec
    tokens = choice.chunk_size / (4 if spec["rag_text_splitter"] == "character" else 1)
    for service, host, flag, value in _arguments(subject):
        limit = number(value) if flag == service.engine.get("length", {}).get("flag") else None
        if limit is not None and limit < service.entry.max_tokens and limit < tokens:
            variable = f"rag_{service.kind}_extra_args"
            message = f"{variable} has {flag} {limit}; a chunk of rag_chunk_size {choice.chunk_size} has about {tokens:.0f} tokens."
            yield CUT_LENGTH.finding(message, variable=variable, host=host)


def wrong_numbers(subject: Subject) -> Iterator[Finding]:
    for service in subject.services():
        for wrong in service.engine.get("wrong", ()):
            version = _engine_version(subject, service)
            concerned = any(name in service.entry.id for name in wrong["models"])
            if concerned and _versions.within(version, wrong.get("since"), wrong.get("until")):
                message = f"{service.name} {version} with {service.entry.id}: {wrong['reason']}."
                yield WRONG_NUMBERS.finding(message, variable=f"rag_{service.kind}_engine")


def no_template(subject: Subject) -> Iterator[Finding]:
    for service in subject.services():
        name = service.entry.engines.get(service.name, {}).get("chat_template")
        given = any(flag == "--chat-template" for _host, flag, _value in subject.flags(service.kind))
        if name and name not in subject.catalog.templates and not service.hosted and not given:
            variable = f"rag_{service.kind}_extra_args"
            message = f"{service.entry.id} needs the chat template {name} on {service.name}, which is not in the catalog, and no --chat-template is given."
            yield NO_TEMPLATE.finding(message, variable=variable)


def weights(subject: Subject) -> Iterator[Finding]:
    if subject.spec["rag_image_source"] == "build":  # weights are in the image then, wherever
        return
    for service in subject.services():
        folder, volume = subject.spec[f"rag_{service.kind}_weights"], service.engine.get("weights")
        if folder is None or volume is None:
            continue
        path = posixpath.normpath(folder)
        if path != volume and not path.startswith(f"{volume}/"):
            variable = f"rag_{service.kind}_weights"
            message = f"{variable} is {shown(folder)}; {service.name} has a volume at {volume}."
            yield WEIGHTS.finding(message, variable=variable)


RULES = (refused_flag, owned_flag, dtype, pooling, cut_length, wrong_numbers, no_template, weights)
