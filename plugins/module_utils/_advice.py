# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Advice: what a choice of models is worth and what it costs. Estimates, from figures of the catalog. Pure.

Formulas, with their assumptions (docs/advice.md explains them):

* weights = parameters x bytes of the dtype.
* activations = tokens in a batch x width x 16 x bytes: a layer's inputs, its projections and a feed-forward block of four
  times the width; layers follow each other, so that one of them counts. Attention is taken to be of the kind that keeps no
  square of the length.
* key-value cache, for a decoder (pooling: last, or a language model as reranker) on vLLM: longest input x layers x 2 x width
  x bytes, an upper bound, because models with grouped heads keep a part of it. Layers = active parameters / (12 x width^2).
* width = dimensions of an embedder; of a reranker, the square root of active parameters / (12 x 24).
* tokens a second = TFLOPS x 10^12 x efficiency / (2 x active parameters). The efficiency of 0.17 is measured: BGE-M3 gave
  45,000 tokens a second on a card of 165 TFLOPS. ``rag_gpu_efficiency`` takes a measured one.
* a chunk in pgvector = its vector (4 bytes a number, 2 at half precision) in the table and again in an HNSW index with 200
  bytes of links, its text, and 400 bytes of row and metadata. In Chroma = 4 bytes a number and 7,000 bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._catalog import Catalog, Embedder, Reranker
from ansible_collections.plumbline.rag.plugins.module_utils._rules._subject import flags

DTYPE_BYTES = {"float32": 4, "float": 4, "float16": 2, "half": 2, "bfloat16": 2}
CHARACTERS_PER_TOKEN = 4
REFERENCE_TFLOPS = 100.0


def _number(entry: Mapping[str, Any], name: str) -> int | None:
    value = entry.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _service(plan: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    """The first host's part of a service; None when the operator runs it."""
    return next((services[kind] for services in plan["hosts"].values() if kind in services), None)


def _dtype(service: Mapping[str, Any], entry: Embedder | Reranker) -> str:
    """The number format that the engine computes in: the operator's, else what the engine chooses."""
    for flag, value in flags(service["args"]):
        if flag == "--dtype" and value in DTYPE_BYTES:
            return str(value)
    if service["device"] == "cpu":
        return "float32"
    refused = entry.raw.get("dtypes_refused") or {}
    if "float16" in refused:
        return "float32" if service["engine"] == "tei" else "bfloat16"
    return "float16"


def memory(
    service: Mapping[str, Any], entry: Embedder | Reranker, texts: int, chunk_tokens: int, width: int | None
) -> dict[str, Any] | None:
    """Bytes of weights, activations and key-value cache; None where the catalog has no parameters or the engine is packed."""
    parameters = _number(entry.raw, "parameters")
    if parameters is None or service["engine"] not in ("tei", "vllm"):
        return None
    active = _number(entry.raw, "parameters_active") or parameters
    dtype = _dtype(service, entry)
    size = DTYPE_BYTES[dtype]
    width = width or max(1, round(math.sqrt(active / (12 * 24))))
    tokens = max(texts * min(chunk_tokens, entry.max_tokens), 1)
    decoder = entry.raw.get("pooling") == "last" or entry.raw.get("kind") in ("llm", "listwise")
    layers = active / (12 * width**2)
    cache = round(entry.max_tokens * layers * 2 * width * size) if decoder and service["engine"] == "vllm" else 0
    parts = {"weights": parameters * size, "activations": tokens * width * 16 * size, "cache": cache}
    return {"dtype": dtype, **parts, "total": sum(parts.values())}


def throughput(
    entry: Embedder | Reranker, chunk_tokens: int, tflops: float, efficiency: float
) -> dict[str, Any] | None:
    """Tokens and chunks a second on one card; None where the catalog has no parameters."""
    active = _number(entry.raw, "parameters_active") or _number(entry.raw, "parameters")
    if active is None:
        return None
    tokens = tflops * 1e12 * efficiency / (2 * active)
    return {
        "tflops": tflops,
        "efficiency": efficiency,
        "tokens_per_second": round(tokens),
        "chunks_per_second": round(tokens / max(chunk_tokens, 1), 1),
    }


def store_bytes(kind: str, dimensions: int, halfvec: bool, characters: int) -> int:
    """Bytes of a million chunks in the vector store."""
    if kind == "chroma":
        return 1_000_000 * (4 * dimensions + 7_000)
    vector = (2 if halfvec else 4) * dimensions + 8
    return 1_000_000 * (2 * vector + 200 + characters + 400)


def advise(plan: Mapping[str, Any], catalog: Catalog, tflops: float | None, efficiency: float) -> dict[str, Any]:
    """The advice of a plan: a part for each model, for the vector store, and what else to know."""
    expected = plan["verify"]
    settings = expected["open_webui"]["settings"]["retrieval"]
    in_tokens = settings["TEXT_SPLITTER"] != ""
    chunk_tokens = max(1, settings["CHUNK_SIZE"] if in_tokens else settings["CHUNK_SIZE"] // CHARACTERS_PER_TOKEN)
    characters = settings["CHUNK_SIZE"] * (CHARACTERS_PER_TOKEN if in_tokens else 1)
    card = tflops or REFERENCE_TFLOPS
    result: dict[str, Any] = {"embedder": None, "reranker": None, "chunk_tokens": chunk_tokens}

    embedder = catalog.embedders.get(expected["embedder"]["model"])
    if embedder is not None:
        part = _part(plan, "embedder", embedder, expected["embedder"]["batch_size"], chunk_tokens, card, efficiency)
        figures = embedder.raw.get("benchmarks") or {}
        part["quality"] = {name: figures.get(name) for name in ("mteb_english_v2", "mteb_multilingual_v2")}
        part["zero_shot_percent"] = figures.get("zero_shot_percent")
        result["embedder"] = part
    reranker = catalog.rerankers.get(expected["reranker"]["model"]) if expected["reranker"] is not None else None
    if reranker is not None:
        texts = 2 * expected["open_webui"]["top_k"]
        part = _part(plan, "reranker", reranker, texts, chunk_tokens, card, efficiency)
        part["verdict"] = reranker.quality["verdict"]
        part["statement"] = str(reranker.quality["statement"])
        speed = part["throughput"]
        # a pair is the question and the chunk
        part["seconds_per_question"] = (
            round(texts * (chunk_tokens + 32) / speed["tokens_per_second"], 2) if speed else None
        )
        result["reranker"] = part

    store = expected["vector_store"]
    kind = store["kind"] if store else expected["open_webui"]["env"]["VECTOR_DB"]
    halfvec = expected["open_webui"]["env"].get("PGVECTOR_USE_HALFVEC") == "true"
    result["vector_store"] = {
        "kind": kind,
        "bytes_per_million_chunks": store_bytes(kind, expected["embedder"]["dimensions"], halfvec, characters),
    }
    result["notes"] = list(_notes(expected))
    return result


def _part(
    plan: Mapping[str, Any],
    kind: str,
    entry: Embedder | Reranker,
    texts: int,
    chunk_tokens: int,
    tflops: float,
    efficiency: float,
) -> dict[str, Any]:
    service = _service(plan, kind)
    width = entry.dimensions if isinstance(entry, Embedder) else None
    on_card = service is not None and service["device"] == "gpu" and service["engine"] != "bundled"
    return {
        "model": entry.id,
        "engine": plan["verify"][kind]["engine"],
        "memory": memory(service, entry, texts, chunk_tokens, width) if service is not None else None,
        "throughput": throughput(entry, chunk_tokens, tflops, efficiency) if on_card else None,
    }


def _notes(expected: Mapping[str, Any]) -> list[str]:
    webui = expected["open_webui"]
    notes = ["A file that goes into a knowledge base is embedded twice: once for itself and once for the base."]
    if webui["variant"] == "slim" and webui["settings"]["retrieval"]["CONTENT_EXTRACTION_ENGINE"] == "":
        notes.append(
            "Slim reads text, Markdown, CSV, HTML, XML and source files; PDF and Office files need rag_content_extraction."
        )
    return notes


def gigabytes(size: float) -> str:
    """A size for people: 1.4 GB."""
    return f"{size / 1e9:.1f} GB"


def lines(advice: Mapping[str, Any]) -> list[str]:
    """The advice as text for a terminal."""
    text: list[str] = []
    embedder, reranker = advice["embedder"], advice["reranker"]
    if embedder is not None:
        shares = embedder["zero_shot_percent"] or [None, None]
        named = (("English", "mteb_english_v2", shares[0]), ("multilingual", "mteb_multilingual_v2", shares[1]))
        figures = [
            f"{title} {embedder['quality'][name]:g} (zero-shot share {'unknown' if share is None else f'{share:g} %'})"
            for title, name, share in named
            if embedder["quality"][name] is not None
        ]
        text.append(
            f"embedder {embedder['model']}: MTEB {', '.join(figures) if figures else 'figures are not published'}"
        )
        text += _cost(embedder)
    if reranker is not None:
        text.append(f"reranker {reranker['model']}: {reranker['verdict']}; {reranker['statement']}")
        text += _cost(reranker)
        if reranker["seconds_per_question"] is not None:
            text.append(f"  about {reranker['seconds_per_question']:g} s to rerank the documents of one question")
    store = advice["vector_store"]
    text.append(f"{store['kind']}: about {gigabytes(store['bytes_per_million_chunks'])} for a million chunks")
    return text + list(advice["notes"])


def _cost(part: Mapping[str, Any]) -> list[str]:
    text = []
    size, speed = part["memory"], part["throughput"]
    if size is not None:
        cache = f", up to {gigabytes(size['cache'])} key-value cache" if size["cache"] else ""
        text.append(
            f"  about {gigabytes(size['total'])} of memory at {size['dtype']}: {gigabytes(size['weights'])} weights, "
            f"{gigabytes(size['activations'])} activations{cache}"
        )
    if speed is not None:
        text.append(
            f"  about {speed['tokens_per_second']} tokens or {speed['chunks_per_second']:g} chunks a second on a card of "
            f"{speed['tflops']:g} TFLOPS, of which {speed['efficiency']:.0%} are reached"
        )
    return text
