"""Real LiteLLM, with the configuration of the plan, in front of two engines and two rerankers that come and go."""

from __future__ import annotations

import collections
import json
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

from .conftest import docker, run

NETWORK = "plumbline-instances"
ENGINE = "localhost/plumbline/bundled-engine:0.1.0"
LITELLM = "ghcr.io/berriai/litellm:v1.106.12"
KEY = "sk-instances-0123456789abcdef"
# Fixed, as those of hosts are: a name that is gone would say something else than a host that is.
ADDRESSES = {"g1": "10.213.37.11", "g2": "10.213.37.12", "app": "10.213.37.13"}
EMBEDDER, RERANKER = "intfloat/multilingual-e5-small", "plumbline/e5-small-cosine"
INVENTORY = {
    "all": {
        "vars": {
            "ansible_connection": "local",
            "rag_installation": "instances",
            "rag_open_webui_port": 3013,
            "rag_embedder": EMBEDDER,
            "rag_embedder_engine": "bundled",
            "rag_reranker": RERANKER,
            "rag_reranker_engine": "bundled",
            "rag_image_source": "build",
            "rag_accept": {"PL153": "a test"},
        },
        "children": {
            "rag_embedders": {"hosts": {name: {"rag_address": ADDRESSES[name]} for name in ("g1", "g2")}},
            "rag_rerankers": {"hosts": {"g1": None, "g2": None}},
            **{group: {"hosts": {"app": None}} for group in ("rag_proxies", "rag_databases", "rag_open_webui")},
        },
    }
}


def engine(host: str, task: str, port: int, *network: str) -> None:
    """An engine that listens where the plan has it on the host."""
    name = EMBEDDER if task == "embed" else RERANKER
    docker(
        "run", "--detach", "--name", f"{NETWORK}-{host}-{task}", *network, "--env", f"API_KEY={KEY}", ENGINE,
        "--task", task, "--model", EMBEDDER, "--served-model-name", name, "--port", str(port),
    )  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _proxy(tmp_path_factory):
    """Two hosts with an embedder and a reranker each, and the proxy."""
    folder: Path = tmp_path_factory.mktemp("instances")
    (folder / "hosts.yml").write_text(yaml.safe_dump(INVENTORY))
    assert run("ansible-playbook", "plumbline.rag.plan", "-i", str(folder / "hosts.yml"), cwd=folder).status == 0
    plan = json.loads((folder / "reports" / "instances" / "plan.json").read_text())["plan"]
    assert [one["host"] for one in plan["verify"]["embedder"]["instances"]] == ["g1", "g2"]
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump(plan["hosts"]["app"]["litellm"]["config"]))
    folder.chmod(0o755)
    config.chmod(0o644)
    docker("network", "create", "--subnet", "10.213.37.0/24", NETWORK)
    try:
        for host in ("g1", "g2"):
            engine(host, "embed", 8000, "--network", NETWORK, "--ip", ADDRESSES[host])
            engine(host, "rerank", 8001, "--network", f"container:{NETWORK}-{host}-embed")
        keys = [f"--env={name}={KEY}" for name in ("LITELLM_MASTER_KEY", "EMBEDDER_API_KEY", "RERANKER_API_KEY")]
        docker(
            "run", "--detach", "--name", f"{NETWORK}-app", "--network", NETWORK, "--ip", ADDRESSES["app"], *keys,
            "--volume", f"{config}:/app/config.yaml:ro", LITELLM, "--config", "/app/config.yaml", "--port", "4000",
        )  # fmt: skip
        wait(lambda: status("/health/liveliness") == 200, 180)
        yield
    finally:
        names = docker("ps", "--all", "--quiet", "--filter", f"name=^{NETWORK}-").split()
        subprocess.run(["docker", "rm", "--force", "--volumes", *names], check=False, capture_output=True)
        docker("network", "rm", NETWORK)


def status(path: str, body: dict | None = None) -> int:
    """The status of LiteLLM's answer; 0 where there is none."""
    request = urllib.request.Request(
        f"http://{ADDRESSES['app']}:4000{path}",
        None if body is None else json.dumps(body).encode(),
        {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=130) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def wait(condition, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, docker("logs", "--tail", "30", f"{NETWORK}-app")
        time.sleep(0.5)


def asked(times: int) -> collections.Counter:
    """How often which status comes for embeddings and for reranking."""
    embed = {"model": EMBEDDER, "input": ["query: plumb"]}
    rerank = {"model": RERANKER, "query": "plumb", "documents": ["a plumb line", "a violin"], "top_n": 2}
    found = collections.Counter(status("/v1/embeddings", embed) for _time in range(times))
    return found + collections.Counter(status("/v1/rerank", rerank) for _time in range(times))


def served(host: str, task: str) -> float:
    """How many requests an engine has answered, of those that are its task; 0 while it does not answer at all."""
    port, route = {"embed": (8000, "/v1/embeddings"), "rerank": (8001, "/v1/rerank")}[task]
    try:
        with urllib.request.urlopen(f"http://{ADDRESSES[host]}:{port}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return 0
    start = f'bundled_requests_total{{route="{route}",status="200"}} '
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(start))


def stop(host: str) -> None:
    docker("stop", "--time", "20", f"{NETWORK}-{host}-rerank", f"{NETWORK}-{host}-embed")


def start(host: str) -> None:
    docker("start", f"{NETWORK}-{host}-embed")
    docker("start", f"{NETWORK}-{host}-rerank")


def test_all_engines_answer():
    assert asked(10) == {200: 20}
    assert all(served(host, task) for host in ("g1", "g2") for task in ("embed", "rerank"))


def test_one_host_is_gone_and_every_request_succeeds():
    stop("g1")
    assert asked(10) == {200: 20}


def test_all_are_gone_and_the_answer_is_not_that_there_are_too_many_requests():
    stop("g2")
    found = asked(2)
    assert sum(found.values()) == 4
    assert not {200, 429} & set(found)


def test_one_that_comes_back_is_enough():
    start("g2")
    # the next health check tells it from the one that is still gone
    wait(lambda: asked(3) == {200: 6}, 180)


def test_one_that_was_left_out_stands_in_again():
    start("g1")
    wait(lambda: served("g1", "embed") and served("g1", "rerank"), 90)  # health checks have found it
    stop("g2")
    assert asked(10) == {200: 20}
    assert served("g1", "embed") >= 10
