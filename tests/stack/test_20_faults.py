"""Faults planted into the running quickstart: each ends in its finding and exit status 2, and the next good run is clean."""

from __future__ import annotations

import json
import time

import pytest
import yaml

from .conftest import QUICKSTART, ROOT, docker, findings, open_errors, site

IMAGE = "localhost/plumbline/bundled-engine:0.1.0"
DOUBLE = ROOT / "tests" / "stack" / "doubles" / "faulty_engine.py"
EMBEDDER = ["--served-model-name", "intfloat/multilingual-e5-small", "--task", "embed"]
RERANKER = ["--served-model-name", "plumbline/e5-small-cosine", "--task", "rerank", "--max-client-batch-size", "40"]


def secret(name: str) -> str:
    return yaml.safe_load((QUICKSTART / ".secrets" / "default.yml").read_text())[name]


@pytest.fixture(name="faulty")
def _faulty():
    """Starts the double with a fault on the stack's network; removes what was started."""
    started: list[str] = []

    def start(name: str, fault: str, key: str, arguments: list[str]) -> None:
        docker(
            "run", "--detach", "--name", name, "--network", "rag", "--env", f"API_KEY={secret(key)}",
            "--volume", f"{DOUBLE}:/double.py:ro", "--entrypoint", "python3", IMAGE, "/double.py", fault, *arguments,
        )  # fmt: skip
        started.append(name)

    yield start
    for name in started:
        docker("rm", "--force", name)


def test_an_embedder_that_drops_the_prefix_and_a_reranker_that_returns_a_bare_list(faulty, tmp_path):
    faulty("plumbline-faulty-embedder", "drop-prefix", "embedder_api_key", EMBEDDER)
    faulty("plumbline-faulty-reranker", "bare-list", "reranker_api_key", RERANKER)
    overrides = {
        "rag_embedder_engine": "external",
        "rag_embedder_base_url": "http://plumbline-faulty-embedder:8000/v1",
        "rag_reranker_engine": "external",
        "rag_reranker_url": "http://plumbline-faulty-reranker:8000/v1/rerank",
        "rag_embedder_api_key": secret("embedder_api_key"),
        "rag_reranker_api_key": secret("reranker_api_key"),
    }
    variables = tmp_path / "faults.json"
    variables.write_text(json.dumps(overrides))
    result = site("--extra-vars", f"@{variables}")
    assert result.status == 2
    errors = open_errors()
    assert "PL430" in errors  # the prefix has no effect at the engine
    assert "PL442" in errors  # the answer is not of the shape that Open WebUI reads
    hops = {f["id"]: f["where"].get("hop") for f in findings("verify")}
    assert hops["PL430"] == "engine"
    assert hops["PL442"] == "reranker"
    assert docker("ps", "--quiet", "--filter", "name=^rag-open-webui$")  # left standing for inspection


def test_the_next_good_run_mends_it():
    result = site()
    assert result.status == 0
    assert open_errors() == set()


def test_a_database_that_holds_another_model_is_found_and_then_reconciled():
    statement = "UPDATE config SET value = '\"BAAI/bge-m3\"' WHERE key = 'rag.embedding_model'"
    docker("exec", "rag-postgres", "psql", "--username", "open_webui", "--dbname", "open_webui", "--command", statement)
    docker("restart", "rag-open-webui")
    wait_until_healthy("rag-open-webui")
    left_alone = site("--extra-vars", json.dumps({"rag_config_owner": "ui"}))
    assert left_alone.status == 2
    drift = [f for f in findings("verify") if f["id"] == "PL411"]
    assert any("RAG_EMBEDDING_MODEL" in f["message"] and "BAAI/bge-m3" in f["message"] for f in drift)

    reconciled = site()
    assert reconciled.status == 0
    assert reconciled.recap()["changed"] >= 1
    assert open_errors() == set()


def wait_until_healthy(name: str) -> None:
    for _second in range(90):
        if docker("inspect", "--format", "{{.State.Health.Status}}", name) == "healthy":
            return
        time.sleep(1)
    raise AssertionError(f"{name} is not healthy: {docker('logs', '--tail', '20', name)}")
