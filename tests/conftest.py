# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports the counts of a pytest run to tests/steps.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if target := os.environ.get("PLUMBLINE_TALLY"):
        stats = terminalreporter.stats
        passed = len(stats.get("passed", []))
        failed = len(stats.get("failed", [])) + len(stats.get("error", []))
        with Path(target).open("a", encoding="utf-8") as file:
            file.write(f"passed {passed}\nfailed {failed}\n")
