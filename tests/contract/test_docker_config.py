# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docker_config on files of this machine: check mode, the second run, and the way back."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

OTHER = {"log-driver": "json-file"}
CDI = {"features": {"cdi": True}}


def docker_config(folder: Path, *options: str, **arguments: Any) -> tuple[int, dict[str, Any]]:
    """Status and answer of the module."""
    paths = {"path": str(folder / "daemon.json"), "record": str(folder / "record" / "ours.json")}
    command = ["ansible", "localhost", "-m", "plumbline.rag.docker_config", "-a", json.dumps({**paths, **arguments})]
    done = subprocess.run(
        [*command, *options],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"},
    )
    return done.returncode, json.loads(done.stdout.partition("=>")[2])


def test_there_and_back(tmp_path: Path) -> None:
    file = tmp_path / "daemon.json"
    file.write_text(json.dumps(OTHER), encoding="utf-8")
    assert docker_config(tmp_path, "--check", settings=CDI)[1]["changed"] is True
    assert json.loads(file.read_text(encoding="utf-8")) == OTHER
    assert docker_config(tmp_path, settings=CDI)[1]["changed"] is True
    assert json.loads(file.read_text(encoding="utf-8")) == {"log-driver": "json-file", "features": {"cdi": True}}
    assert docker_config(tmp_path, settings=CDI)[1]["changed"] is False
    assert docker_config(tmp_path, state="absent")[1]["changed"] is True
    assert json.loads(file.read_text(encoding="utf-8")) == OTHER
    assert list((tmp_path / "record").iterdir()) == []


def test_a_broken_file_is_left(tmp_path: Path) -> None:
    file = tmp_path / "daemon.json"
    file.write_text("{", encoding="utf-8")
    status, answer = docker_config(tmp_path, settings=CDI)
    assert status == 2
    assert answer["msg"].startswith(f"{file} cannot be read: ")
    assert file.read_text(encoding="utf-8") == "{"
