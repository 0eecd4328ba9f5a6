# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The published fault matrix has every cell of the table, found as the table says."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MATRIX = runpy.run_path(str(ROOT / "tests" / "stack" / "fault_matrix.py"))["MATRIX"]
PAGE = (ROOT / "docs" / "fault-matrix.md").read_text(encoding="utf-8")


def published() -> list[tuple[str, str, tuple[str, ...], str, str]]:
    rows = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
    return [
        (
            fault,
            hop,
            tuple(f"{rule} {where}" for rule, where in re.findall(r"\[(PL\d+)\]\S+ (\w+)", found)),
            depth,
            verdict,
        )
        for fault, hop, found, depth, verdict in (
            row for row in rows if len(row) == 5 and row[0] not in ("fault", "---")
        )
    ]


def test_every_cell_is_published_as_found() -> None:
    assert published() == [(cell.fault, cell.hop, cell.findings, cell.depth, "yes") for cell in MATRIX]


def test_the_matrix_is_as_large_as_promised() -> None:
    assert len(MATRIX) >= 60
    assert len({cell.name for cell in MATRIX}) == len(MATRIX)


def test_the_cells_run_often_represent_every_hop_and_finding() -> None:
    often = [cell for cell in MATRIX if cell.often]
    assert {cell.hop for cell in often} == {cell.hop for cell in MATRIX}
    assert len(often) <= 40


def test_no_false_alarm_is_published() -> None:
    assert "False alarms: **0 in 20**" in PAGE
