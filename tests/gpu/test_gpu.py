"""TEI and vLLM on a real card: deployed, proven with numbers, unchanged by a second run, and removed.

Weights and images may be brought along: PLUMBLINE_GPU_WEIGHTS names a folder of weights, PLUMBLINE_GPU_BUNDLE one of image
archives. Without them they come from the model hub and the registries.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
INVENTORIES = Path(__file__).with_name("inventories")


def missing() -> str | None:
    """What this machine lacks for these tests."""
    if shutil.which("nvidia-smi") is None or output("nvidia-smi", "--list-gpus") is None:
        return "this machine has no NVIDIA card that its driver can use"
    if output("docker", "info") is None:
        return "Docker does not answer on this machine"
    return None


def output(*command: str) -> str | None:
    """What a command prints; None when it is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


REASON = missing()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


def playbook(name: str, engine: str, **variables: Any) -> subprocess.CompletedProcess[str]:
    command = ["ansible-playbook", name, "-i", str(INVENTORIES / engine), "-e", json.dumps(variables)]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def query(field: str) -> list[str]:
    printed = output("nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader,nounits")
    assert printed is not None
    return printed.splitlines()


def brought() -> dict[str, Any]:
    variables: dict[str, Any] = {"rag_gpu_memory": int(query("memory.total")[0]) / 1024}
    if weights := os.environ.get("PLUMBLINE_GPU_WEIGHTS"):
        variables.update(rag_weights_source="folder", rag_weights_dir=weights)
    if bundle := os.environ.get("PLUMBLINE_GPU_BUNDLE"):
        variables.update(rag_image_source="archive", rag_image_bundle_dir=bundle)
    return variables


@pytest.fixture(params=["tei", "vllm"], scope="module", name="engine")
def _engine(request: pytest.FixtureRequest) -> Iterator[str]:
    yield request.param
    playbook("plumbline.rag.uninstall", request.param, uninstall_volumes=True)


def started(engine: str) -> dict[str, str | None]:
    names = output("docker", "ps", "--format", "{{.Names}}", "--filter", f"name=^rag-gpu-{engine}-") or ""
    return {
        name: output("docker", "inspect", "--format", "{{.Id}} {{.State.StartedAt}}", name) for name in names.split()
    }


def test_the_cards_are_read_as_the_driver_shows_them() -> None:
    read = output("ansible", "localhost", "-m", "plumbline.rag.gpu_info", "-o")
    assert read is not None
    gpus = json.loads(read.split(" => ", 1)[1])["gpus"]
    assert [gpu["name"] for gpu in gpus] == query("name")
    assert [gpu["compute_capability"] for gpu in gpus] == query("compute_cap")
    assert [gpu["memory_mb"] for gpu in gpus] == [int(size) for size in query("memory.total")]


def test_the_engine_is_deployed_and_proven(engine: str) -> None:
    done = playbook("site.yml", engine, **brought())
    assert done.returncode == 0, done.stdout
    report = json.loads((ROOT / "reports" / f"gpu-{engine}" / "verify.json").read_text(encoding="utf-8"))
    assert {report["hops"][hop] for hop in ("engine", "proxy", "open_webui", "vector_store")} == {"passed"}
    fixtures = report["measurements"]["reference vectors"]["fixtures"]
    assert fixtures
    assert all(fixture["error"] <= fixture["tolerance"] for fixture in fixtures)


def test_the_card_is_used(engine: str) -> None:
    processes = output("nvidia-smi", "--query-compute-apps=used_memory", "--format=csv,noheader,nounits")
    assert processes
    assert len(processes.splitlines()) >= 2  # the embedder and the reranker


def test_a_second_run_changes_nothing(engine: str) -> None:
    before = started(engine)
    done = playbook("site.yml", engine, **brought())
    assert done.returncode == 0, done.stdout
    assert set(re.findall(r"changed=(\d+)", done.stdout)) == {"0"}
    assert started(engine) == before
