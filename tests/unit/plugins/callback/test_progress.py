# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.plumbline.rag.plugins.callback.progress import Progress


class Run:
    """A task watched under a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.lines: list[str] = []
        self.progress = Progress(lambda: self.now, self.lines.append)

    def pass_seconds(self, seconds: int) -> None:
        for _second in range(seconds):
            self.now += 1
            self.progress.tick()


@pytest.fixture
def run() -> Run:
    return Run()


@pytest.mark.parametrize(
    ("seconds", "lines"),
    [
        (9, []),
        (10, ["… build: 10 s"]),
        (24, ["… build: 10 s"]),
        (25, ["… build: 10 s", "… build: 25 s"]),
        (41, ["… build: 10 s", "… build: 25 s", "… build: 40 s"]),
    ],
)
def test_lines_while_a_task_runs(run: Run, seconds: int, lines: list[str]) -> None:
    run.progress.begin("build")
    run.pass_seconds(seconds)
    assert run.lines == lines


def test_a_long_task_ends_with_its_time(run: Run) -> None:
    run.progress.begin("build")
    run.pass_seconds(12)
    run.progress.begin("start")
    assert run.lines[-1] == "… build: took 12 s"


def test_a_quick_task_ends_silently(run: Run) -> None:
    run.progress.begin("build")
    run.pass_seconds(3)
    run.progress.end()
    assert run.lines == []


def test_each_task_starts_from_zero(run: Run) -> None:
    run.progress.begin("build")
    run.pass_seconds(9)
    run.progress.begin("start")
    run.pass_seconds(9)
    assert run.lines == []


def test_nothing_is_said_between_tasks(run: Run) -> None:
    run.progress.begin("build")
    run.progress.end()
    run.pass_seconds(60)
    assert run.lines == []


def test_a_late_tick_reports_once(run: Run) -> None:
    run.progress.begin("build")
    run.now += 60
    run.progress.tick()
    run.progress.tick()
    assert run.lines == ["… build: 60 s"]
