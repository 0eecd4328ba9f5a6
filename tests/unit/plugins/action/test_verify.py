# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What verify reads on the controller: a labelled set, the time of the last run, and the lock."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.plumbline.rag.plugins.action import verify
from ansible_collections.plumbline.rag.plugins.plugin_utils import _controller

SMALL = "questions: [{text: q, answers: [a]}]\npassages: {a: x, b: y}\n"


def test_labelled(tmp_path: Path) -> None:
    path = tmp_path / "own.yml"
    path.write_text(SMALL)
    assert verify._labelled(path)["passages"] == {"a": "x", "b": "y"}
    assert len(verify._labelled(verify._EVAL_SET)["questions"]) >= 12


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: No such file"),
        ("- a", "must hold `questions` and `passages`"),
        ("a: [", "while parsing"),
        (SMALL.replace("[a]", "[c]"), "question 1 is answered by 'c'"),
        (SMALL + "#" * 5_000_000, "larger than 5000000 bytes"),
    ],
)
def test_a_wrong_set_is_named(tmp_path: Path, content: str | None, words: str) -> None:
    path = tmp_path / "own.yml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(AnsibleActionFail, match=r"rag_eval_set: .*own\.yml") as raised:
        verify._labelled(path)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"time": "2026-01-01T00:00:00+00:00"}', 1767225600.0),
        ("{}", 0.0),
        ('{"time": 7}', 0.0),
        ('{"time": "yesterday"}', 0.0),
        ("half a fi", 0.0),
    ],
)
def test_last_run(tmp_path: Path, content: str, expected: float) -> None:
    assert verify._last_run(tmp_path) == 0.0
    (tmp_path / "verify.json").write_text(content)
    assert verify._last_run(tmp_path) == expected


def test_a_lock_that_cannot_be_read_is_a_finding(tmp_path: Path) -> None:
    assert _controller.read_lock(tmp_path) == (None, [])
    (tmp_path / "lock.json").write_text("half a fi")
    lock, (finding,) = _controller.read_lock(tmp_path)
    assert (lock, finding.id) == (None, "PL492")
    assert finding.message.startswith(f"{tmp_path}/lock.json: it is not JSON (")
    (tmp_path / "lock.json").unlink()
    (tmp_path / "lock.json").mkdir()
    assert _controller.read_lock(tmp_path)[1][0].message.endswith("lock.json: it cannot be read (Is a directory).")


@pytest.mark.parametrize("content", [b"\xff\xfe", b"{}", b"[]"])
def test_no_lock_ends_in_a_traceback(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "lock.json").write_bytes(content)
    assert [finding.id for finding in _controller.read_lock(tmp_path)[1]] == ["PL492"]
