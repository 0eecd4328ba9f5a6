"""The same site.yml with real vLLM on the CPU and the oldest LiteLLM that is allowed."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from .conftest import (
    ROOT,
    ask,
    assert_it_goes,
    assert_nothing_changes,
    container_ids,
    docker,
    open_errors,
    secrets_of,
    site,
)

INVENTORY = ROOT / "tests" / "stack" / "inventories" / "vllm"
MODEL = "sentence-transformers/all-MiniLM-L6-v2"


def embedder(path: str, **body: Any) -> tuple[int, str]:
    """Status and body of a route of vLLM."""
    return ask("rag-vllm-embedder", 8000, path, body, secrets_of(INVENTORY, "vllm")["embedder_api_key"])


def test_vllm_is_deployed_and_proven():
    result = site(inventory=INVENTORY)
    assert result.status == 0
    assert open_errors(installation="vllm") == set()
    report = json.loads((ROOT / "reports" / "vllm" / "verify.json").read_text())
    assert report["findings"] == [f for f in report["findings"] if f["severity"] != "error"]


def test_the_floor_of_litellm_is_what_runs():
    assert docker("inspect", "--format", "{{.Config.Image}}", "rag-vllm-litellm").endswith("litellm:v1.94.3")


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({"model": MODEL, "input": "word " * 400}, 400, "maximum context length is 256 tokens"),
        ({"model": MODEL, "input": "a", "encoding_format": None}, 400, "encoding_format"),
        ({"model": "acme/other", "input": "a"}, 404, "The model `acme/other` does not exist"),
        ({"model": MODEL, "input": "a", "dimensions": 128}, 400, "Matryoshka"),
    ],
    ids=["too long", "no encoding", "another model", "fewer dimensions"],
)
def test_vllm_refuses_what_it_cannot_do(body: dict[str, Any], status: int, text: str):
    answer = embedder("/v1/embeddings", **body)
    assert (answer[0], text in answer[1]) == (status, True), answer[1]


@pytest.mark.parametrize("route", ["/v1/rerank", "/v2/rerank"])
def test_its_rerank_route_scores_by_cosine(route: str):
    documents = ["Cats sleep a lot.", "Paris is the capital of France.", "It rains."]
    status, body = embedder(route, model=MODEL, query="capital of France", documents=documents, top_n=2)
    assert status == 200
    results = json.loads(body)["results"]
    assert results[0]["index"] == 1
    assert len(results) == 2
    assert results[0]["relevance_score"] > 0.7


def test_its_key_is_asked_for():
    assert ask("rag-vllm-embedder", 8000, "/v1/embeddings", {"model": MODEL, "input": "a"}, "wrong")[0] == 401


def test_a_second_run_changes_nothing():
    assert_nothing_changes("vllm", INVENTORY)


def test_a_changed_flag_recreates_only_that_service():
    before = container_ids("rag-vllm-")
    arguments = yaml.safe_load((INVENTORY / "group_vars" / "all.yml").read_text())["rag_embedder_extra_args"]
    changed = json.dumps({"rag_embedder_extra_args": [*arguments, "--max-num-seqs", "64"]})
    assert site("--extra-vars", changed, inventory=INVENTORY).status == 0
    after = container_ids("rag-vllm-")
    assert [name for name in after if after[name] != before[name]] == ["rag-vllm-embedder"]
    assert '"--max-num-seqs","64"' in docker("inspect", "--format", "{{json .Config.Cmd}}", "rag-vllm-embedder")
    assert open_errors(installation="vllm") == set()


def test_it_goes_and_leaves_the_other_installation_alone():
    assert_it_goes("vllm", INVENTORY)
