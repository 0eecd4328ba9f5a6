# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on the proxy: the operator's model entries, and what LiteLLM does to requests. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, WARNING, Finding, register
from ansible_collections.plumbline.rag.plugins.module_utils._hosted import HOSTED
from ansible_collections.plumbline.rag.plugins.module_utils._rules._subject import Subject

BAD_MODEL = register(
    "PL122",
    ERROR,
    "An entry of rag_litellm_extra_models is not valid",
    "LiteLLM takes entries of nearly any shape and fails at the first request, or passes a text where a number belongs.",
    "Give model_name, and litellm_params with model and parameters of the right type.",
    example="rag_litellm_extra_models:\n  - model_name: gpt\n    model: openai/gpt    # below litellm_params",
    source="BerriAI/litellm#2398",
    acknowledgeable=False,
)
PROVIDER = register(
    "PL123",
    ERROR,
    "A LiteLLM provider does not do what the entry asks of it",
    "LiteLLM has no rerank driver for openai; its huggingface driver asks the public hub about each embedding model and wraps "
    "the texts in a form that TEI refuses, and calls a rerank path that TEI does not have when the base has a /v1.",
    "Use hosted_vllm/ or openai/ for embeddings, hosted_vllm/ for reranking with vLLM, and huggingface/ without /v1 for "
    "reranking with TEI.",
    example="rag_litellm_extra_models:\n  - model_name: rerank\n    litellm_params: {model: openai/Qwen3-Reranker-8B}\n"
    "    model_info: {mode: rerank}",
    source="BerriAI/litellm#13793, BerriAI/litellm#3261, BerriAI/litellm#14937",
)
NAME_TAKEN = register(
    "PL124",
    ERROR,
    "A model of rag_litellm_extra_models has the name of a model of the plan",
    "LiteLLM spreads requests over all entries of one name: a part of the texts would be embedded by another model.",
    "Give the entry another model_name.",
    example="rag_embedder: BAAI/bge-m3\nrag_litellm_extra_models:\n  - model_name: BAAI/bge-m3\n"
    "    litellm_params: {model: openai/text-embedding-3-large}",
    source="LiteLLM routing: entries of one model_name are one group",
)
NO_MODE = register(
    "PL125",
    WARNING,
    "An embedding or rerank entry has no mode",
    "LiteLLM's health check then sends it a chat request: it reports a working model as broken, and the calls cost money.",
    "Set model_info.mode to embedding or rerank.",
    example="rag_litellm_extra_models:\n  - model_name: bge-reranker\n    litellm_params: {model: hosted_vllm/BAAI/bge-reranker-v2-m3}",
    source="BerriAI/litellm#7056, BerriAI/litellm#5686, BerriAI/litellm#1202",
)
DROP_PARAMS = register(
    "PL126",
    WARNING,
    "LiteLLM drops parameters in silence",
    "A dimension that the driver does not know is dropped, and vectors of another length come back with status 200.",
    "Remove drop_params, and name what may pass in allowed_openai_params.",
    example="litellm_params: {model: openai/m, dimensions: 256, drop_params: true}",
    source="BerriAI/litellm#11940",
)
RERANK_TRUNCATE = register(
    "PL127",
    WARNING,
    "LiteLLM forbids TEI to cut long documents",
    "Up to 1.108.14 every rerank call to TEI carries truncate: false. One chunk that is too long for the model then fails the "
    "whole call, and Open WebUI keeps the old order.",
    'Set rag_litellm_version: "1.109.0" or newer, or keep chunks well below the reranker\'s limit.',
    example='rag_reranker_engine: tei\nrag_litellm_version: "1.106.12"',
    source="requests of LiteLLM 1.94.0, 1.106.12 and 1.109.0 recorded by a mock server",
)
REDUCED = register(
    "PL128",
    ERROR,
    "The reduced dimension does not reach the engine",
    "Open WebUI sends no dimension. Without an entry of the proxy that adds it the engine answers with full vectors, which "
    "pgvector cuts off without a word.",
    "Set rag_proxy: litellm, and dimensions with allowed_openai_params in entries of your own.",
    example="rag_embedder_dimensions: 256\nrag_proxy: none",
    source="BerriAI/litellm#11940, QwenLM/Qwen3-Embedding#188",
)
_TEXT: tuple[type, ...] = (str,)
_NUMBER: tuple[type, ...] = (int, float)
_FLAG: tuple[type, ...] = (bool,)
PARAMETERS: dict[str, tuple[type, ...]] = {
    "model": _TEXT,
    "api_base": _TEXT,
    "api_key": _TEXT,
    "encoding_format": _TEXT,
    "dimensions": _NUMBER,
    "timeout": _NUMBER,
    "max_retries": _NUMBER,
    "rpm": _NUMBER,
    "tpm": _NUMBER,
    "weight": _NUMBER,
    "max_tokens_per_doc": _NUMBER,
    "truncate_prompt_tokens": _NUMBER,
    "truncate": _FLAG,
    "drop_params": _FLAG,
    "allowed_openai_params": (list, tuple),
}
MODES = (
    "embedding",
    "rerank",
    "chat",
    "completion",
    "responses",
    "image_generation",
    "audio_transcription",
    "audio_speech",
)
LOOKS = {"rerank": ("rerank",), "embedding": ("embed", "bge-", "/e5-", "gte-")}
VARIABLE = "rag_litellm_extra_models"


def _problem(entry: Any) -> str | None:
    """What is wrong with the shape of an entry; None when nothing is."""
    if not isinstance(entry, Mapping):
        return "is not a mapping"
    if not isinstance(entry.get("model_name"), str) or not entry["model_name"].strip():
        return "has no model_name"
    params = entry.get("litellm_params")
    if not isinstance(params, Mapping) or not isinstance(params.get("model"), str):
        return "has no litellm_params.model"
    if "/" not in params["model"]:
        return f"has the model {params['model']!r} without a provider in front"
    for name, value in params.items():
        types = PARAMETERS.get(name)
        if types and (not isinstance(value, types) or (isinstance(value, bool) and bool not in types)):
            wanted = {_TEXT: "a text", _NUMBER: "a number", _FLAG: "true or false"}.get(types, "a list")
            return f"has litellm_params.{name} as {type(value).__name__}; it must be {wanted}"
    info = entry.get("model_info", {})
    if not isinstance(info, Mapping):
        return "has a model_info that is not a mapping"
    if info.get("mode") is not None and info["mode"] not in MODES:
        return f"has the mode {info['mode']!r}; LiteLLM knows {', '.join(MODES[:3])} and others"
    return None


def _looks(entry: Mapping[str, Any]) -> str | None:
    """What the name of a model says it is for."""
    name = f"{entry['model_name']} {entry['litellm_params']['model']}".lower()
    return next((mode for mode, parts in LOOKS.items() if any(part in name for part in parts)), None)


def _provider_problem(mode: str | None, params: Mapping[str, Any]) -> str | None:
    provider = params["model"].split("/", 1)[0]
    if mode == "rerank" and provider == "openai":
        return "openai has no rerank driver: LiteLLM answers 500"
    if (
        mode == "rerank"
        and provider == "huggingface"
        and urlsplit(str(params.get("api_base", ""))).path.rstrip("/") == "/v1"
    ):
        return "its api_base ends with /v1, and TEI has no /v1/rerank"
    if mode == "embedding" and provider == "huggingface":
        return "the huggingface driver sends a form that TEI refuses, and asks the public hub first"
    if mode == "rerank" and provider == "infinity":
        return "its driver reads the answers of Infinity only, and breaks on those of vLLM"
    if mode == "rerank" and "truncate_prompt_tokens" in params:
        return "truncate_prompt_tokens cuts the end of the prompt off, from which the score is read; use max_tokens_per_doc"
    return None


def extra_models(subject: Subject) -> Iterator[Finding]:
    taken = {subject.choice.embedder.id} | ({subject.choice.reranker.id} if subject.choice.reranker else set())
    for number, entry in enumerate(subject.spec[VARIABLE]):
        problem = _problem(entry)
        if problem is not None:
            yield BAD_MODEL.finding(f"Entry {number} of {VARIABLE} {problem}.", variable=VARIABLE)
            continue
        name, params = entry["model_name"], entry["litellm_params"]
        mode = entry.get("model_info", {}).get("mode")
        looks = _looks(entry)
        if name in taken:
            yield NAME_TAKEN.finding(
                f"Entry {number} of {VARIABLE} is called {name}, as the plan's own.", variable=VARIABLE
            )
        if mode is None and looks is not None:
            message = f"{name} looks like a model for {looks} and has no model_info.mode."
            yield NO_MODE.finding(message, f"Set model_info.mode: {looks}.", variable=VARIABLE)
        wrong = _provider_problem(mode or looks, params)
        if wrong is not None:
            yield PROVIDER.finding(f"{name} is served by {params['model']}: {wrong}.", variable=VARIABLE)
        if params.get("drop_params") is True:
            yield DROP_PARAMS.finding(f"{name} has drop_params: true.", variable=VARIABLE)
        elif (
            "dimensions" in params
            and params["model"].startswith("openai/")
            and "text-embedding-3" not in params["model"]
            and "dimensions" not in params.get("allowed_openai_params", ())
        ):
            message = f"{name} has dimensions: {params['dimensions']}, which LiteLLM refuses for {params['model']}."
            yield REDUCED.finding(message, "Add allowed_openai_params: [dimensions].", variable=VARIABLE)


def rerank_truncate(subject: Subject) -> Iterator[Finding]:
    since = subject.catalog.versions["litellm"]["rerank_truncate_from"]
    proxied = subject.spec["rag_proxy"] == "litellm"
    if proxied and subject.choice.reranker_engine == "tei" and subject.older("litellm", since):
        message = f"LiteLLM {subject.version('litellm')} sends truncate: false to TEI, and {since} is the first that does not."
        yield RERANK_TRUNCATE.finding(message, variable="rag_litellm_version")


def reduced(subject: Subject) -> Iterator[Finding]:
    choice, proxy = subject.choice, subject.spec["rag_proxy"]
    if proxy == "none" and choice.dimensions in choice.embedder.matryoshka and choice.embedder_engine not in HOSTED:
        message = f"rag_embedder_dimensions is {choice.dimensions} and rag_proxy is none: nothing asks the engine for less than {choice.embedder.dimensions}."
        yield REDUCED.finding(message, variable="rag_embedder_dimensions")


RULES = (extra_models, rerank_truncate, reduced)
