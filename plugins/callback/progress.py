# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: progress
type: aggregate
short_description: Says that a long task is still running
version_added: 0.1.0
description:
  - Prints nothing for a task that ends within 10 seconds.
  - For a longer one prints its name and elapsed time every 15 seconds, and its total time when it ends.
author:
  - plumbline.rag contributors (@plumbline)
requirements:
  - To be enabled, for example by C(callbacks_enabled = plumbline.rag.progress) in C(ansible.cfg).
"""

import threading
import time
from collections.abc import Callable
from typing import Any

from ansible.plugins.callback import CallbackBase

THRESHOLD = 10.0
INTERVAL = 15.0


class Progress:
    """Decides when a running task is worth a line; knows neither threads nor Ansible."""

    def __init__(self, clock: Callable[[], float], emit: Callable[[str], None]) -> None:
        self._clock = clock
        self._emit = emit
        self._lock = threading.Lock()
        self._name: str | None = None
        self._started = 0.0
        self._next = 0.0

    def begin(self, name: str) -> None:
        self.end()
        with self._lock:
            self._name = name
            self._started = self._clock()
            self._next = THRESHOLD

    def tick(self) -> None:
        with self._lock:
            elapsed = self._clock() - self._started
            if self._name is None or elapsed < self._next:
                return
            while self._next <= elapsed:
                self._next += INTERVAL
            self._emit(f"… {self._name}: {elapsed:.0f} s")

    def end(self) -> None:
        with self._lock:
            elapsed = self._clock() - self._started
            if self._name is not None and elapsed >= THRESHOLD:
                self._emit(f"… {self._name}: took {elapsed:.0f} s")
            self._name = None


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "plumbline.rag.progress"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._progress = Progress(time.monotonic, self._display.display)
        self._finished = threading.Event()

    def _watch(self) -> None:
        while not self._finished.wait(1):
            self._progress.tick()

    def v2_playbook_on_start(self, playbook: Any) -> None:
        threading.Thread(target=self._watch, name="progress", daemon=True).start()

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        self._progress.begin(task.get_name().strip())

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        self._progress.begin(task.get_name().strip())

    def v2_playbook_on_play_start(self, play: Any) -> None:
        self._progress.end()

    def v2_playbook_on_stats(self, stats: Any) -> None:
        self._progress.end()
        self._finished.set()
