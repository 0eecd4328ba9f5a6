# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TEI's image by card, and the limits that the plan states."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _tei

from .installation import resolve

TEI: dict[str, Any] = {
    "rag_embedder_engine": "tei",
    "rag_embedder_revision": "614241f622f53c4eeff9890bdc4f31cfecc418b3",
    "rag_image_source": "registry",
}


@pytest.mark.parametrize(
    ("cards", "tag"),
    [
        (None, "cuda-1.9.3"),
        ([], "cpu-1.9.3"),
        (["7.5"], "turing-1.9.3"),
        (["8.0"], "1.9.3"),
        (["8.6"], "86-1.9.3"),
        (["8.7"], "86-1.9.3"),
        (["8.9", "8.9"], "89-1.9.3"),
        (["9.0"], "hopper-1.9.3"),
        (["10.0"], "100-1.9.3"),
        (["12.0"], "120-1.9.3"),
        (["12.1"], "120-1.9.3"),
    ],
)
def test_tag(cards: list[str] | None, tag: str) -> None:
    assert _tei.tag("1.9.3", cards) == tag


@pytest.mark.parametrize(
    ("cards", "reason"),
    [
        (["6.1"], "6.1 is below 7.5"),
        (["7.0"], "7.0 is below 7.5"),
        (["8.6", "9.0"], "8.6, 9.0, and one container runs on one kind"),
        (["11.0"], "no image is compiled for compute capability 11.0"),
        (["10.3"], "no image is compiled for compute capability 10.3"),
    ],
)
def test_no_image(cards: list[str], reason: str) -> None:
    with pytest.raises(_tei.NoImage, match=reason):
        _tei.tag("1.9.3", cards)


@pytest.mark.parametrize(
    ("prefix", "works", "fails"),
    [
        ("turing-", ["7.5"], ["8.0", "7.0"]),
        ("", ["8.0", "8.6", "8.9"], ["7.5", "9.0", "12.0"]),
        ("86-", ["8.6", "8.9"], ["8.0", "9.0"]),
        ("hopper-", ["9.0"], ["8.9", "12.0"]),
        ("cuda-", ["7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0"], ["7.0", "10.3", "12.1"]),
        ("cpu-", [], ["7.5", "9.0"]),
    ],
)
def test_runs(prefix: str, works: list[str], fails: list[str]) -> None:
    assert [card for card in works + fails if _tei.runs(prefix, _tei.capability(card))] == works


@pytest.mark.parametrize(
    ("reference", "prefix"),
    [("ghcr.io/x/tei:cuda-1.9.3", "cuda-"), ("host:5000/x/tei:1.9.3", ""), ("x:cpu-ipex-1.9", "cpu-ipex-")],
)
def test_prefix_of(reference: str, prefix: str) -> None:
    assert _tei.prefix_of(reference) == prefix


def service(**variables: Any) -> dict[str, Any]:
    plan, _findings = resolve({**TEI, **variables})
    assert plan is not None
    embedder: dict[str, Any] = plan["hosts"]["h1"]["embedder"]
    return embedder


def test_the_plan_states_every_limit() -> None:
    planned = service(rag_embedder_gpus=[0])
    assert planned["limits"] == [
        *("--max-client-batch-size", "32"),
        *("--max-batch-tokens", "16384"),
        *("--max-concurrent-requests", "512"),
        *("--payload-limit", "2000000"),
        *("--auto-truncate", "true"),
        *("--dtype", "float16"),
        *("--pooling", "mean"),
    ]
    assert planned["image"].endswith(":cuda-1.9.3")
    assert (planned["role"], planned["device"]) == ("tei", "gpu")


def test_an_argument_of_the_operator_is_not_said_twice() -> None:
    planned = service(
        rag_embedder_gpus=[0], rag_embedder_extra_args=["--max-client-batch-size=64", "--dtype", "float32"]
    )
    assert "--max-client-batch-size" not in planned["limits"]
    assert "--dtype" not in planned["limits"]
    assert planned["args"] == ["--max-client-batch-size=64", "--dtype", "float32"]
    assert planned["max_batch"] == 64


def test_the_reranker_takes_all_candidates_of_a_question() -> None:
    rerank = {"rag_reranker": "BAAI/bge-reranker-v2-m3", "rag_reranker_engine": "tei", "rag_top_k": 50}
    plan, _findings = resolve({"rag_image_source": "registry", "rag_reranker_gpus": [0], **rerank})
    assert plan is not None
    assert plan["hosts"]["h1"]["reranker"]["limits"][:2] == ["--max-client-batch-size", "100"]


def test_without_a_card_it_is_the_processor() -> None:
    planned = service()
    assert planned["image"].endswith(":cpu-1.9.3")
    assert planned["device"] == "cpu"
    assert planned["limits"][10:12] == ["--dtype", "float32"]


def test_float16_is_not_asked_of_a_model_that_refuses_it() -> None:
    planned = service(rag_embedder="google/embeddinggemma-300m", rag_embedder_gpus=[0])
    assert planned["limits"][10:12] == ["--dtype", "float32"]


def test_what_it_takes_of_its_card() -> None:
    # 118 million parameters in half precision, and the warm-up batch of 16384 tokens
    assert service(rag_embedder_gpus=[0])["card_memory"] == {"bytes": 118_000_000 * 2 + 16384 * 384 * 16 * 2}
    assert service()["card_memory"] == {}
