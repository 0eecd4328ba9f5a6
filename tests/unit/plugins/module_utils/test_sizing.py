# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What services take of their cards, and the share that vLLM is told."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils._sizing import GIB, Need, shares

from .installation import QUICKSTART, ids, plan_inventory, resolve

BOTH = {
    "rag_embedder": "Qwen/Qwen3-Embedding-0.6B",
    "rag_embedder_engine": "vllm",
    "rag_embedder_gpus": [0],
    "rag_reranker": "Qwen/Qwen3-Reranker-0.6B",
    "rag_reranker_engine": "vllm",
    "rag_reranker_gpus": [0],
}


def services(**changes: Any) -> dict[str, Any]:
    base = {**QUICKSTART, "rag_image_source": "registry"}
    plan, _findings = resolve({**BOTH, **changes}, base=base)
    assert plan is not None
    return plan["hosts"]["h1"]


def told(service: dict[str, Any], flag: str) -> list[str]:
    """Every value that the arguments give a flag."""
    args = service["args"]
    return [str(args[position + 1]) for position, arg in enumerate(args) if arg == flag]


@pytest.mark.parametrize(
    ("needs", "card", "others", "expected"),
    [
        ([Need(2, 2)], 10, 0, [0.3]),
        ([Need(2, 2), Need(4, 4)], 100, 0, [0.03, 0.06]),
        ([Need(200, 200), Need(500, 500)], 1000, 0, [0.271, 0.678]),
        ([Need(200, 1000), Need(300, 300)], 1000, 0, [0.65, 0.3]),
        ([Need(200, 1000), Need(300, 300)], 1000, 200, [0.45, 0.3]),
        ([Need(500, 500), Need(500, 500)], 1000, 0, None),
        ([Need(500, 500)], 1000, 500, None),
    ],
)
def test_shares(needs: list[Need], card: int, others: int, expected: list[float] | None) -> None:
    assert shares(needs, card, others) == expected


def test_weights_activations_and_context_are_what_vllm_needs_at_least() -> None:
    # 596 million parameters at two bytes, 32768 tokens of 1024 numbers, and a gibibyte
    assert services()["embedder"]["card_memory"]["bytes"] == 596_000_000 * 2 + 32768 * 1024 * 16 * 2 + GIB


def test_the_batch_that_the_operator_set_counts() -> None:
    smaller = services(rag_embedder_extra_args=["--max-num-batched-tokens", "8192"])["embedder"]
    assert smaller["card_memory"]["bytes"] == 596_000_000 * 2 + 8192 * 1024 * 16 * 2 + GIB


def test_several_cards_share_the_weights() -> None:
    apart = services(
        rag_embedder_gpus=[0, 1], rag_reranker_gpus=[2], rag_embedder_extra_args=["--tensor-parallel-size=2"]
    )
    assert apart["embedder"]["card_memory"]["bytes"] == 596_000_000 + 32768 * 1024 * 16 * 2 + GIB


def test_a_card_for_itself_is_used_to_nine_tenths() -> None:
    apart = services(rag_reranker_gpus=[1])
    assert told(apart["embedder"], "--gpu-memory-utilization") == ["0.9"]
    assert told(apart["reranker"], "--gpu-memory-utilization") == ["0.9"]


def test_a_shared_card_of_known_size_is_divided() -> None:
    both = services(rag_gpu_memory=44.9)
    assert told(both["embedder"], "--gpu-memory-utilization") == ["0.249"]
    assert told(both["reranker"], "--gpu-memory-utilization") == ["0.152"]
    assert both["embedder"]["card_memory"]["share"] == 0.249


def test_the_operators_share_is_left_and_leaves_the_rest() -> None:
    both = services(rag_gpu_memory=15.5, rag_reranker_extra_args=["--gpu-memory-utilization", "0.6"])
    assert told(both["reranker"], "--gpu-memory-utilization") == ["0.6"]
    assert told(both["embedder"], "--gpu-memory-utilization") == ["0.349"]


def test_tei_beside_vllm_is_left_out_of_the_share() -> None:
    mixed = services(rag_embedder="BAAI/bge-m3", rag_embedder_engine="tei", rag_gpu_memory=6)
    assert mixed["embedder"]["card_memory"] == {"bytes": 1_672_870_912}
    assert told(mixed["reranker"], "--gpu-memory-utilization") == ["0.69"]


@pytest.mark.rule("PL167", fires=True)
def test_a_shared_card_of_unknown_size_is_not_left_to_the_default() -> None:
    hosts = {"h1": {**QUICKSTART, "rag_image_source": "registry", **BOTH}}
    groups = {group: ["h1"] for group in ("rag_embedders", "rag_rerankers", "rag_proxies", "rag_databases")}
    _plans, findings = plan_inventory(hosts, {**groups, "rag_open_webui": ["h1"]})
    assert ids(findings).count("PL167") == 1
    assert "rag_gpu_memory" in next(f.remedy for f in findings if f.id == "PL167")


def test_the_length_that_a_cache_is_made_for_is_stated_once() -> None:
    both = services(rag_embedder_extra_args=["--max-model-len=4096"])
    assert told(both["embedder"], "--max-model-len") == []
    assert told(both["reranker"], "--max-model-len") == ["8192"]
    assert told(services(rag_embedder="BAAI/bge-m3")["embedder"], "--max-model-len") == []


def test_what_computes_on_the_processor_takes_no_card() -> None:
    plan, _findings = resolve({})
    assert plan is not None
    assert plan["hosts"]["h1"]["embedder"]["card_memory"] == {}
