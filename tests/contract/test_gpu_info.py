# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_info and preflight on a host without cards, and on one whose nvidia-smi is doubled by recorded output."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

CARD = "0, GPU-11111111-2222-3333-4444-555555555555, NVIDIA L4, 8.9, 23034, 22561, 550.54.15, [N/A], [N/A]"
SERVICE = {
    "container": "plumbline-contract-embedder",
    "engine": "tei",
    "device": "gpu",
    "image": "ghcr.io/huggingface/text-embeddings-inference:turing-1.9.3",
    "gpus": [0],
    "card_memory": {},
    "publish": None,
    "memory": "1g",
}
PLAN = {"installation": "contract", "image_source": "registry", "hosts": {"localhost": {"embedder": SERVICE}}}
PROCESS = "GPU-11111111-2222-3333-4444-555555555555, 4211, /usr/local/bin/text-embeddings-router, 1210"


def run(path: str, *arguments: str) -> tuple[int, str]:
    """Status and output of a module on this machine, whose programs are those of ``path``."""
    done = subprocess.run(
        ["ansible", "localhost", "-m", *arguments],
        env={**os.environ, "PATH": path, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def gpu_info(path: str) -> dict[str, Any]:
    status, output = run(path, "plumbline.rag.gpu_info")
    assert status == 0, output
    answer: dict[str, Any] = json.loads(output.partition("=>")[2])
    return answer


def without_nvidia() -> str:
    folders = os.environ["PATH"].split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if shutil.which("nvidia-smi", path=folder) is None)


@pytest.fixture
def double(tmp_path: Path) -> Path:
    program = tmp_path / "nvidia-smi"
    program.write_text(
        f"#!/bin/sh\ncase $1 in --query-gpu=*) echo '{CARD}';; --query-compute-apps=*) echo '{PROCESS}';; *) exit 2;; esac\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    return tmp_path


def test_a_host_without_cards_has_an_empty_list() -> None:
    assert gpu_info(without_nvidia())["gpus"] == []


def test_cards_and_their_processes(double: Path) -> None:
    (card,) = gpu_info(f"{double}{os.pathsep}{os.environ['PATH']}")["gpus"]
    assert (card["name"], card["compute_capability"], card["free_mb"]) == ("NVIDIA L4", "8.9", 22561)
    assert card["processes"] == [{"pid": 4211, "name": "/usr/local/bin/text-embeddings-router", "memory_mb": 1210}]


def test_preflight_compares_the_plan_with_the_cards(double: Path) -> None:
    arguments = ("plumbline.rag.preflight", "-a", json.dumps({"plan": PLAN}))
    status, output = run(without_nvidia(), *arguments)
    assert (status, "PL210: The embedder is given card 0 of localhost, which is not there" in output) == (2, True)
    status, output = run(f"{double}{os.pathsep}{os.environ['PATH']}", *arguments)
    assert (status, "PL210" in output) == (2, False)
    assert "turing-1.9.3 does not run on compute capability 8.9" in output
