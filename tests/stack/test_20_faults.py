"""Faults planted into the running quickstart: each ends in its finding and exit status 2, and the next good run is clean."""

from __future__ import annotations

import json

import pytest
import yaml

from .conftest import QUICKSTART, docker, findings, open_errors, site
from .interposition import control, start_proxy, wait_until_healthy


def secret(name: str) -> str:
    return yaml.safe_load((QUICKSTART / ".secrets" / "default.yml").read_text())[name]


@pytest.fixture(name="faulty")
def _faulty():
    """Puts a fault in front of a service under another name; removes what was started."""
    started: list[str] = []

    def start(name: str, service: str, fault: str) -> None:
        started.append(name)
        start_proxy(name, service, 8000)
        control(name, 8000, "PUT", {"kind": fault, "keyed": True})

    yield start
    for name in started:
        docker("rm", "--force", name)


def test_an_embedder_that_drops_the_prefix_and_a_reranker_that_returns_a_bare_list(faulty, tmp_path):
    faulty("plumbline-faulty-embedder", "rag-embedder", "drop-prefix")
    faulty("plumbline-faulty-reranker", "rag-reranker", "bare-list")
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
