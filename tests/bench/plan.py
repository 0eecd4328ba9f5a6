# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the time of a plan grows: ansible-playbook plumbline.rag.plan for 10 and for 200 hosts, side by side in one run."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

SMALL, LARGE, RUNS, LIMIT = 10, 200, 3, 10.0
GROUPS = {"rag_databases": 1, "rag_proxies": 1, "rag_open_webui": 1, "rag_embedders": 10, "rag_rerankers": 10}
VARIABLES = {
    "rag_embedder": "BAAI/bge-m3",
    "rag_embedder_engine": "vllm",
    "rag_embedder_gpus": [0],
    "rag_reranker": "BAAI/bge-reranker-v2-m3",
    "rag_reranker_engine": "vllm",
    "rag_reranker_gpus": [1],
}


def write(folder: Path, hosts: int) -> None:
    """An inventory of installations with ten hosts each: all have engines, the first one has the rest."""
    names = [f"h{number:03}" for number in range(hosts)]
    inventory: dict[str, object] = {
        "all": {
            "vars": VARIABLES,
            "hosts": {
                name: {"ansible_host": f"192.0.2.{number % 250}", "rag_installation": f"i{number // 10}"}
                for number, name in enumerate(names)
            },
        }
    }
    for group, each in GROUPS.items():
        inventory[group] = {"hosts": dict.fromkeys(name for number, name in enumerate(names) if number % 10 < each)}
    (folder / f"{hosts}.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")


def seconds(folder: Path, hosts: int) -> float:
    """The shortest of a few runs."""
    times = []
    for _run in range(RUNS):
        start = time.monotonic()
        done = subprocess.run(
            ["ansible-playbook", "plumbline.rag.plan", "-i", str(folder / f"{hosts}.yml")],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        times.append(time.monotonic() - start)
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)
    return min(times)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, SMALL)
        write(folder, LARGE)
        small, large = seconds(folder, SMALL), seconds(folder, LARGE)
    print(f"plan of {SMALL} hosts {small:.2f} s, of {LARGE} hosts {large:.2f} s: ratio {large / small:.2f}")
    print(f"{LARGE} hosts {'stay under' if large < LIMIT else 'TAKE MORE THAN'} {LIMIT:.0f} s")


if __name__ == "__main__":
    main()
