"""The same site.yml with the double of TEI as embedder and as reranker, behind the default LiteLLM, and a double of the hub."""

from __future__ import annotations

import json
import tempfile

import pytest

from .conftest import ROOT, ask, assert_it_goes, assert_nothing_changes, docker, open_errors, run, secrets_of, site
from .doubles.hub import HubDouble, Repository, serving, small_model

INVENTORY = ROOT / "tests" / "stack" / "inventories" / "tei"
IMAGE = "ghcr.io/huggingface/text-embeddings-inference:cpu-1.9.3"
BASE = "localhost/plumbline/bundled-engine:0.1.0"
RERANKER = "plumbline-tests/e5-small-reranker"
EMBEDDER = "intfloat/multilingual-e5-small"
COMMIT = "1" * 40


@pytest.fixture(scope="module", autouse=True)
def _image():
    """The double's image under TEI's reference, for as long as the tests of this file run."""
    context = ROOT / "tests" / "stack" / "tei_double"
    assert run("docker", "build", "--build-arg", f"BASE={BASE}", "--tag", IMAGE, str(context)).status == 0
    yield
    run("docker", "image", "rm", "--force", IMAGE)


def info(service: str) -> dict:
    """What a running engine says of itself, asked from inside its container."""
    script = (
        "import os, urllib.request as r;"
        "q = r.Request('http://127.0.0.1:8000/info', headers={'Authorization': 'Bearer ' + os.environ['API_KEY']});"
        "print(r.urlopen(q).read().decode())"
    )
    return json.loads(docker("exec", f"rag-tei-{service}", "python3", "-c", script))


def rerank(documents: list[str]) -> tuple[int, str]:
    """Status and body of LiteLLM's rerank route."""
    body = {"model": RERANKER, "query": "capital of France", "documents": documents}
    return ask("rag-tei-litellm", 4000, "/v1/rerank", body, secrets_of(INVENTORY, "tei")["litellm_master_key"])


@pytest.fixture(name="folder", scope="module")
def _folder():
    """Extra variables that name a folder of their own for the weights."""
    with tempfile.TemporaryDirectory() as folder:
        yield json.dumps({"rag_weights_dir": f"{folder}/models"})


def test_weights_that_the_hub_does_not_hand_out_stop_the_run_before_a_container_is_touched(folder):
    models = {EMBEDDER: Repository({COMMIT: small_model(EMBEDDER)}, {"main": COMMIT}, gated=True)}
    with serving(HubDouble(models)) as hub:
        result = site("-e", folder, "-e", f"rag_hub_endpoint={hub.url}", inventory=INVENTORY)
    assert result.status == 2
    assert f"PL257: The embedder's weights: {hub.url} refuses {EMBEDDER}" in result.output
    assert docker("ps", "--all", "--quiet", "--filter", "name=^rag-tei-") == ""


def test_tei_is_deployed_and_proven(folder):
    models = {name: Repository({COMMIT: small_model(name)}, {"main": COMMIT}) for name in (EMBEDDER, RERANKER)}
    with serving(HubDouble(models)) as hub:
        result = site("-e", folder, "-e", f"rag_hub_endpoint={hub.url}", inventory=INVENTORY)
    assert result.status == 0
    assert open_errors(installation="tei") == set()


def test_the_engines_see_the_weights_and_cannot_change_them():
    for service, model in (("embedder", EMBEDDER), ("reranker", RERANKER)):
        command = json.loads(docker("inspect", "--format", "{{json .Config.Cmd}}", f"rag-tei-{service}"))
        where = f"/data/models--{model.replace('/', '--')}/snapshots/{COMMIT}"
        assert command[:2] == ["--model-id", where]
        mounts = json.loads(docker("inspect", "--format", "{{json .Mounts}}", f"rag-tei-{service}"))
        assert [mount["RW"] for mount in mounts if mount["Destination"] == "/data"] == [False]


def test_the_limits_of_the_plan_are_those_of_the_engines():
    embedder, reranker = info("embedder"), info("reranker")
    assert (embedder["served_model_name"], embedder["model_type"]) == (
        "plumbline-tests/e5-small",
        {"embedding": {"pooling": "mean"}},
    )
    assert set(reranker["model_type"]) == {"reranker"}
    # two candidates for each of the twenty results
    assert (embedder["max_client_batch_size"], reranker["max_client_batch_size"]) == (32, 40)
    assert {entry["auto_truncate"] for entry in (embedder, reranker)} == {True}
    assert {entry["max_concurrent_requests"] for entry in (embedder, reranker)} == {512}


def test_no_secret_is_on_a_command_line():
    for service in ("embedder", "reranker"):
        key = docker("exec", f"rag-tei-{service}", "printenv", "API_KEY")
        assert key
        assert key not in docker("inspect", "--format", "{{json .Config.Cmd}}", f"rag-tei-{service}")


def test_litellm_translates_reranking():
    status, body = rerank(["Cats sleep a lot.", "Paris is the capital of France."])
    assert status == 200
    assert [result["index"] for result in json.loads(body)["results"]] == [1, 0]


def test_this_litellm_forbids_tei_to_truncate():
    status, body = rerank(["word " * 700, "Paris is the capital of France."])
    assert status >= 400
    assert "must have less than 512 tokens" in body


def test_a_second_run_changes_nothing_and_needs_no_hub(folder):
    assert_nothing_changes("tei", INVENTORY, "-e", folder, "-e", "rag_hub_endpoint=http://127.0.0.1:9")


def test_it_goes_and_leaves_the_other_installation_alone():
    assert_it_goes("tei", INVENTORY)
