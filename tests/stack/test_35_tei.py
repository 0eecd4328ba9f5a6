"""The same site.yml with the double of TEI as embedder and as reranker, behind the default LiteLLM."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest
import yaml

from .conftest import ROOT, container_ids, docker, open_errors, run, site

INVENTORY = ROOT / "tests" / "stack" / "inventories" / "tei"
IMAGE = "ghcr.io/huggingface/text-embeddings-inference:cpu-1.9.3"
BASE = "localhost/plumbline/bundled-engine:0.1.0"
RERANKER = "plumbline-tests/e5-small-reranker"


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
    address = docker(
        "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", "rag-tei-litellm"
    )
    key = yaml.safe_load((INVENTORY / ".secrets" / "tei.yml").read_text())["litellm_master_key"]
    body = {"model": RERANKER, "query": "capital of France", "documents": documents}
    request = urllib.request.Request(
        f"http://{address}:4000/v1/rerank",
        json.dumps(body).encode(),
        {"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_tei_is_deployed_and_proven():
    result = site(inventory=INVENTORY)
    assert result.status == 0
    assert open_errors(installation="tei") == set()


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


def test_a_second_run_changes_nothing():
    before = container_ids()
    again = site(inventory=INVENTORY)
    assert again.status == 0
    assert again.recap()["changed"] == 0
    assert container_ids() == before


def test_it_goes_and_leaves_the_other_installation_alone():
    others = {name: identity for name, identity in container_ids().items() if not name.startswith("rag-tei-")}
    down = run("ansible-playbook", "plumbline.rag.uninstall", "-i", str(INVENTORY), "-e", '{"uninstall_volumes": true}')
    assert down.status == 0
    assert container_ids() == others
    assert docker("volume", "ls", "--quiet", "--filter", "name=^rag-tei-") == ""
