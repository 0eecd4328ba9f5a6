# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs make targets one after another until one fails; says how long each took and ends with one line that counts the tests.

A step that runs pytest counts its tests, by way of tests/conftest.py; any other step counts as one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path


def read_tally(path: Path, failed: bool) -> Counter[str]:
    tally: Counter[str] = Counter()
    for line in path.read_text(encoding="utf-8").splitlines():
        outcome, count = line.split()
        tally[outcome] += int(count)
    if not tally or (failed and not tally["failed"]):
        tally["failed" if failed else "passed"] += 1
    return tally


def run_step(step: str, label: str) -> Counter[str]:
    print(f"\n== {label} {step}", flush=True)
    started = time.monotonic()
    with tempfile.NamedTemporaryFile() as file:
        environment = {**os.environ, "PLUMBLINE_TALLY": file.name}
        status = subprocess.run(["make", "--no-print-directory", step], env=environment, check=False).returncode
        tally = read_tally(Path(file.name), status != 0)
    verdict = "failed" if status else "passed"
    print(f"== {label} {step}: {verdict} in {time.monotonic() - started:.0f} s", flush=True)
    return tally


def main(steps: list[str]) -> int:
    started = time.monotonic()
    total: Counter[str] = Counter()
    for number, step in enumerate(steps, 1):
        total += run_step(step, f"[{number}/{len(steps)}]")
        if total["failed"]:
            break
    counts = ", ".join(f"{total[outcome]} {outcome}" for outcome in ("failed", "passed") if total[outcome])
    print(f"\n===== {counts} in {time.monotonic() - started:.2f}s =====")
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
