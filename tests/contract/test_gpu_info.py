# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module gpu_info on a host without cards, and on one whose nvidia-smi is doubled by recorded output."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

CARD = "0, GPU-11111111-2222-3333-4444-555555555555, NVIDIA L4, 8.9, 23034, 22561, 550.54.15, [N/A]"
PROCESS = "GPU-11111111-2222-3333-4444-555555555555, 4211, /usr/local/bin/text-embeddings-router, 1210"


def gpu_info(path: str) -> dict[str, Any]:
    done = subprocess.run(
        ["ansible", "localhost", "-m", "plumbline.rag.gpu_info"],
        env={**os.environ, "PATH": path, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.partition("=>")[2])
    return answer


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
    folders = os.environ["PATH"].split(os.pathsep)
    path = os.pathsep.join(folder for folder in folders if shutil.which("nvidia-smi", path=folder) is None)
    assert gpu_info(path)["gpus"] == []


def test_cards_and_their_processes(double: Path) -> None:
    (card,) = gpu_info(f"{double}{os.pathsep}{os.environ['PATH']}")["gpus"]
    assert (card["name"], card["compute_capability"], card["free_mb"]) == ("NVIDIA L4", "8.9", 22561)
    assert card["processes"] == [{"pid": 4211, "name": "/usr/local/bin/text-embeddings-router", "memory_mb": 1210}]
