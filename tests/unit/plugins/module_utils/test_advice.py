# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan's estimates, against figures that are known."""

from __future__ import annotations

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _advice

from .installation import CATALOG, resolve

BGE = {
    "rag_image_source": "registry",
    "rag_embedder": "BAAI/bge-m3",
    "rag_embedder_engine": "vllm",
    "rag_embedder_gpus": [0],
    "rag_reranker": "none",
    "rag_reranker_engine": None,
}
QWEN = {**BGE, "rag_embedder": "Qwen/Qwen3-Embedding-0.6B"}


def advice(variables, tflops=None, efficiency=0.17):
    plan, _findings = resolve(variables)
    return _advice.advise(plan, CATALOG, tflops, efficiency)


def test_the_measured_card_gives_the_measured_throughput():
    speed = advice(BGE, tflops=165.0)["embedder"]["throughput"]
    assert speed["tokens_per_second"] == pytest.approx(45_000, rel=0.05)
    doubled = advice(BGE, tflops=165.0, efficiency=0.34)["embedder"]["throughput"]
    assert doubled["tokens_per_second"] == pytest.approx(2 * speed["tokens_per_second"], rel=0.001)


def test_memory_is_weights_activations_and_for_decoders_a_cache():
    bert, decoder = advice(BGE)["embedder"]["memory"], advice(QWEN)["embedder"]["memory"]
    assert bert["weights"] == 2 * CATALOG.embedders["BAAI/bge-m3"].raw["parameters"]
    assert bert["cache"] == 0
    # 28 layers of 8 heads with 128 numbers, twice, in two bytes, for 32768 tokens
    assert decoder["cache"] >= 28 * 8 * 128 * 2 * 2 * 32768
    assert decoder["total"] == decoder["weights"] + decoder["activations"] + decoder["cache"]


@pytest.mark.parametrize(
    ("variables", "dtype"),
    [
        ({}, "float16"),
        ({"rag_embedder_extra_args": ["--dtype", "float32"]}, "float32"),
        ({"rag_embedder_extra_args": ["--dtype=half"]}, "half"),
        ({"rag_embedder": "google/embeddinggemma-300m"}, "bfloat16"),
        ({"rag_embedder": "google/embeddinggemma-300m", "rag_embedder_engine": "tei"}, "float32"),
        ({"rag_image_source": "build"}, "float32"),
    ],
)
def test_the_number_format_is_the_one_that_the_engine_takes(variables, dtype):
    assert advice({**BGE, **variables})["embedder"]["memory"]["dtype"] == dtype


def test_vectors_of_half_precision_take_half_the_room():
    full, half = (_advice.store_bytes("pgvector", 1024, halfvec, 0) for halfvec in (False, True))
    assert full - half == 1_000_000 * 2 * 2 * 1024
    assert (
        advice({**BGE, "rag_pgvector_halfvec": True})["vector_store"]["bytes_per_million_chunks"]
        < (advice(BGE)["vector_store"]["bytes_per_million_chunks"])
    )


def test_chroma_takes_what_was_measured():
    assert 10_000 <= _advice.store_bytes("chroma", 1024, False, 1000) / 1_000_000 <= 12_000


def test_figures_stand_beside_their_zero_shot_share():
    lines = _advice.lines(advice(QWEN))
    assert lines[0].startswith("embedder Qwen/Qwen3-Embedding-0.6B: MTEB English 61.83 (zero-shot share 95 %)")
    assert any("million chunks" in line for line in lines)


def test_a_reranker_comes_with_its_verdict_and_its_time():
    part = advice({**QWEN, "rag_reranker": "Qwen/Qwen3-Reranker-0.6B", "rag_reranker_engine": "vllm"})["reranker"]
    assert part["verdict"] == "better"
    assert 0 < part["seconds_per_question"] < 10


def test_models_and_engines_of_others_are_left_out():
    given = advice({**BGE, "rag_embedder_engine": "external", "rag_embedder_base_url": "http://e/v1"})
    assert given["embedder"]["memory"] is None
    assert given["embedder"]["throughput"] is None
    unknown = {
        "rag_embedder": "acme/x",
        "rag_embedder_dimensions": 8,
        "rag_embedder_query_prefix": "",
        "rag_embedder_document_prefix": "",
        "rag_embedder_engine": "external",
        "rag_embedder_base_url": "http://e/v1",
    }
    assert advice({**BGE, **unknown})["embedder"] is None


@pytest.mark.parametrize(("variant", "told"), [("slim", True), ("full", False)])
def test_slim_is_told_not_to_read_pdf(variant, told):
    notes = advice({**BGE, "rag_open_webui_variant": variant})["notes"]
    assert any("PDF" in note for note in notes) is told
