"""Real LiteLLM, with the entries of plans for hosted backends, in front of a double that notes what reaches it."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from .conftest import ROOT, docker, run

NETWORK = "plumbline-backends"
ENGINE = "localhost/plumbline/bundled-engine:0.1.0"
LITELLM = "ghcr.io/berriai/litellm:v1.106.12"
KEY = "sk-backends-0123456789abcdef"
DOUBLE = ROOT / "tests" / "stack" / "doubles" / "backend.py"
# The models of each backend, and the field that Open WebUI is told to send with a question.
BACKENDS: dict[str, tuple[str, str, dict[str, str]]] = {
    "cohere": ("embed-v4.0", "rerank-v4.0-fast", {"input_type": "search_query"}),
    "jina": ("jina-embeddings-v3", "jinaai/jina-reranker-v2-base-multilingual", {"task": "retrieval.query"}),
    "voyage": ("voyage-3.5", "rerank-2.5", {"input_type": "query"}),
    "openrouter": ("openai/text-embedding-3-small", "cohere/rerank-v3.5", {}),
}
ARRIVES: dict[str, tuple[tuple[str, dict[str, Any]], tuple[str, dict[str, Any]]]] = {
    "cohere": (
        (
            "/v2/embed",
            {
                "model": "embed-v4.0",
                "texts": ["a", "b"],
                "input_type": "search_query",
                "embedding_types": ["float"],
                "output_dimension": 512,
            },
        ),
        ("/v2/rerank", {"model": "rerank-v4.0-fast", "query": "q", "documents": ["a", "b"], "top_n": 2}),
    ),
    "jina": (
        (
            "/v1/embeddings",
            {"model": "jina-embeddings-v3", "input": ["a", "b"], "task": "retrieval.query", "dimensions": 512},
        ),
        (
            "/v1/rerank",
            {"model": "jina-reranker-v2-base-multilingual", "query": "q", "documents": ["a", "b"], "top_n": 2},
        ),
    ),
    "voyage": (
        (
            "/v1/embeddings",
            {"model": "voyage-3.5", "input": ["a", "b"], "input_type": "query", "output_dimension": 512},
        ),
        ("/v1/rerank", {"model": "rerank-2.5", "query": "q", "documents": ["a", "b"], "top_k": 2}),
    ),
    "openrouter": (
        (
            "/api/v1/embeddings",
            {
                "model": "openai/text-embedding-3-small",
                "input": ["a", "b"],
                "dimensions": 512,
                "encoding_format": "float",
            },
        ),
        ("/api/v1/rerank", {"model": "cohere/rerank-v3.5", "query": "q", "documents": ["a", "b"], "top_n": 2}),
    ),
}


def planned(folder: Path) -> list[dict[str, Any]]:
    """The entries of a plan for each backend, with the double's name in place of the backend's host."""
    shared = {"ansible_connection": "local", "rag_embedder_dimensions": 512, "rag_accept": {"PL153": "a test"}}
    hosts = {
        name: {
            **shared,
            "rag_installation": name,
            "rag_open_webui_port": 3100 + number,
            "rag_embedder": embedder,
            "rag_embedder_engine": name,
            "rag_embedder_api_key": KEY,
            "rag_reranker": reranker,
            "rag_reranker_engine": name,
            "rag_reranker_api_key": KEY,
        }
        for number, (name, (embedder, reranker, _fields)) in enumerate(BACKENDS.items())
    }
    groups = ("rag_proxies", "rag_databases", "rag_open_webui")
    children = {group: {"hosts": dict.fromkeys(hosts)} for group in groups}
    inventory = folder / "hosts.yml"
    inventory.write_text(yaml.safe_dump({"all": {"hosts": hosts, "children": children}}))
    assert run("ansible-playbook", "plumbline.rag.plan", "-i", str(inventory), cwd=folder).status == 0
    models = []
    for name in BACKENDS:
        plan = json.loads((folder / "reports" / name / "plan.json").read_text())["plan"]
        for model in plan["hosts"][name]["litellm"]["config"]["model_list"]:
            path = urlsplit(model["litellm_params"]["api_base"]).path
            models.append(
                {
                    **model,
                    "model_name": f"{name}/{model['model_info']['mode']}",
                    "litellm_params": {**model["litellm_params"], "api_base": f"http://double:9000{path}"},
                }
            )
    return models


@pytest.fixture(scope="module", name="proxy")
def _proxy(tmp_path_factory):
    """The address of LiteLLM."""
    folder: Path = tmp_path_factory.mktemp("backends")
    folder.chmod(0o755)
    config = folder / "config.yaml"
    master = {"master_key": "os.environ/LITELLM_MASTER_KEY"}
    config.write_text(yaml.safe_dump({"model_list": planned(folder), "general_settings": master}))
    docker("network", "create", NETWORK)
    try:
        docker(
            "run", "--detach", "--name", f"{NETWORK}-double", "--network", NETWORK, "--network-alias", "double",
            "--volume", f"{DOUBLE}:/double.py:ro", "--entrypoint", "python3", ENGINE, "/double.py",
        )  # fmt: skip
        keys = [f"--env={name}={KEY}" for name in ("LITELLM_MASTER_KEY", "EMBEDDER_API_KEY", "RERANKER_API_KEY")]
        docker(
            "run", "--detach", "--name", f"{NETWORK}-app", "--network", NETWORK, *keys,
            "--volume", f"{config}:/app/config.yaml:ro", LITELLM, "--config", "/app/config.yaml", "--port", "4000",
        )  # fmt: skip
        form = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        address = docker("inspect", "--format", form, f"{NETWORK}-app")
        end = time.monotonic() + 180
        while post(address, "/v1/embeddings", {"model": "voyage/embedding", "input": ["wait"]})[0] != 200:
            assert time.monotonic() < end, docker("logs", "--tail", "30", f"{NETWORK}-app")
            time.sleep(1)
        yield address
    finally:
        names = docker("ps", "--all", "--quiet", "--filter", f"name=^{NETWORK}-").split()
        subprocess.run(["docker", "rm", "--force", "--volumes", *names], check=False, capture_output=True)
        docker("network", "rm", NETWORK)


def post(address: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
    """Status and content of LiteLLM's answer; 0 where there is none."""
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://{address}:4000{path}", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, None


def arrived() -> tuple[str, dict[str, Any]]:
    """Path and body of the last request that reached the double."""
    path, _blank, body = docker("logs", f"{NETWORK}-double").splitlines()[-1].partition(" ")
    return path, json.loads(body)


@pytest.mark.parametrize("name", BACKENDS)
def test_an_embedding_request_of_open_webui_arrives_in_the_backends_words(proxy, name):
    status, answer = post(
        proxy, "/v1/embeddings", {"model": f"{name}/embedding", "input": ["a", "b"], **BACKENDS[name][2]}
    )
    assert status == 200, answer
    assert [row["embedding"] for row in answer["data"]] == [[0.1, 0.2], [0.1, 0.2]]
    assert arrived() == ARRIVES[name][0]


@pytest.mark.parametrize("name", BACKENDS)
def test_a_rerank_request_of_open_webui_arrives_in_the_backends_words(proxy, name):
    body = {"model": f"{name}/rerank", "query": "q", "documents": ["a", "b"], "top_n": 2}
    status, answer = post(proxy, "/v1/rerank", body)
    assert status == 200, answer
    assert [(row["index"], row["relevance_score"]) for row in answer["results"]] == [(0, 0.5), (1, 0.5)]
    assert arrived() == ARRIVES[name][1]
