from __future__ import annotations

import dataclasses

import pytest
import yaml

from ansible_collections.plumbline.rag.plugins.module_utils import _catalog_view
from ansible_collections.plumbline.rag.plugins.module_utils._catalog_view import Filter

from .installation import CATALOG

ENGINES = {"bundled": {"role": "bundled"}, "vllm": {"role": "vllm"}, "tei": {"role": None}}


def names(**wanted):
    return {entry.id for entry in _catalog_view.select(CATALOG, Filter(**wanted))}


def changed(entry, **raw):
    return dataclasses.replace(entry, raw={**entry.raw, **raw})


def test_without_a_filter_everything_is_listed_embedders_first():
    listed = [_catalog_view.task(entry) for entry in _catalog_view.select(CATALOG, Filter())]
    assert listed == ["embedder"] * len(CATALOG.embedders) + ["reranker"] * len(CATALOG.rerankers)


@pytest.mark.parametrize(
    ("wanted", "inside", "outside"),
    [
        ({"task": "reranker"}, "BAAI/bge-reranker-v2-m3", "BAAI/bge-m3"),
        ({"kind": "query-only"}, "Qwen/Qwen3-Embedding-0.6B", "BAAI/bge-m3"),
        ({"dimensions": 1024}, "BAAI/bge-m3", "intfloat/multilingual-e5-small"),
        ({"dimensions": 256}, "Qwen/Qwen3-Embedding-0.6B", "BAAI/bge-m3"),
        ({"dimensions": 1024}, "Qwen/Qwen3-Embedding-4B", "BAAI/bge-reranker-v2-m3"),
        ({"commercial": True}, "BAAI/bge-m3", "jinaai/jina-embeddings-v3"),
        ({"commercial": False}, "jinaai/jina-embeddings-v3", "nvidia/llama-embed-nemotron-8b"),
        ({"engine": "tei"}, "BAAI/bge-reranker-v2-m3", "Qwen/Qwen3-Reranker-0.6B"),
        ({"engine": "bundled"}, "intfloat/multilingual-e5-small", "BAAI/bge-m3"),
        ({"language": "ja"}, "cl-nagoya/ruri-v3-30m", "intfloat/e5-small-v2"),
        ({"language": "ja"}, "BAAI/bge-m3", "ai-forever/FRIDA"),
        ({"max_memory_gib": 1.0}, "BAAI/bge-base-en-v1.5", "BAAI/bge-m3"),
    ],
)
def test_a_filter_keeps_what_fits(wanted, inside, outside):
    kept = names(**wanted)
    assert inside in kept
    assert outside not in kept


def test_filters_are_all_to_be_met():
    assert names(task="embedder", kind="asymmetric", language="ja", max_memory_gib=0.1) == {"cl-nagoya/ruri-v3-30m"}


def test_memory_is_parameters_times_two_bytes_and_four_where_only_single_precision_runs():
    entry = CATALOG.embedders["BAAI/bge-m3"]
    assert _catalog_view.weights_gib(entry) == pytest.approx(568e6 * 2 / 2**30)
    single = changed(entry, dtypes_refused={"float16": "no", "bfloat16": "no"})
    assert _catalog_view.weights_gib(single) == pytest.approx(568e6 * 4 / 2**30)


def test_the_table_has_a_header_and_aligned_columns():
    lines = _catalog_view.table(_catalog_view.select(CATALOG, Filter(engine="bundled"))).splitlines()
    assert lines[0].split() == [
        "model",
        "task",
        "kind",
        "dim",
        "tokens",
        "GiB",
        "licence",
        "engines",
        "quality",
        "remarks",
    ]
    assert len(lines) == 3
    assert {line.index(word) for line, word in zip(lines, ("task", "embedder", "reranker"))} == {
        len(lines[1].split()[0]) + 2
    }
    assert "50.8 multi (99 % new)" in lines[1]


def test_the_table_of_nothing_is_its_header():
    assert len(_catalog_view.table([]).splitlines()) == 1


def test_remarks_say_what_keeps_a_model_from_being_used():
    remarks = _catalog_view.row(CATALOG.embedders["jinaai/jina-embeddings-v3"])["remarks"]
    assert remarks == "unfit for Open WebUI, non-commercial, own code, partly unverified"
    assert "licence unclear" in _catalog_view.row(CATALOG.embedders["nvidia/llama-embed-nemotron-8b"])["remarks"]
    assert _catalog_view.row(CATALOG.embedders["BAAI/bge-m3"])["remarks"] == ""


@pytest.mark.parametrize(
    ("model", "variables"),
    [
        ("intfloat/multilingual-e5-small", {"rag_embedder_engine": "bundled"}),
        ("Qwen/Qwen3-Embedding-0.6B", {"rag_embedder_engine": "vllm"}),
        ("jinaai/jina-embeddings-v3", {"rag_embedder_engine": "external", "rag_embedder_base_url": "https://..."}),
    ],
)
def test_the_block_for_an_inventory_is_yaml_that_deploys_the_model(model, variables):
    block = _catalog_view.inventory_block(CATALOG.embedders[model], ENGINES)
    assert yaml.safe_load(block) == {"rag_embedder": model, **variables}


def test_the_block_of_a_reranker():
    block = _catalog_view.inventory_block(CATALOG.rerankers["Qwen/Qwen3-Reranker-0.6B"], ENGINES)
    assert yaml.safe_load(block) == {"rag_reranker": "Qwen/Qwen3-Reranker-0.6B", "rag_reranker_engine": "vllm"}


def test_the_block_pins_a_known_revision_and_shows_prefixes_exactly():
    entry = changed(CATALOG.embedders["Qwen/Qwen3-Embedding-0.6B"], revision="0" * 40)
    block = _catalog_view.inventory_block(entry, ENGINES)
    assert yaml.safe_load(block)["rag_embedder_revision"] == "0" * 40 or "0" * 40 in block
    assert 'query\\nQuery:"' in block
    assert "# rag_embedder_dimensions: 1024    # or 32, 64, 128, 256, 512, 768" in block


def test_the_block_says_when_no_engine_is_deployed_by_this_release():
    entry = CATALOG.rerankers["BAAI/bge-reranker-v2-m3"]
    block = _catalog_view.inventory_block(entry, {"tei": {"role": None}})
    assert "# it is served by tei, vllm, which this release does not deploy" in block
    assert yaml.safe_load(block)["rag_reranker_engine"] == "external"
