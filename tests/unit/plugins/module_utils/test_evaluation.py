# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labelled sets: the shipped one is sound, a wrong one is told apart, and an order is worth what it is worth."""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.plumbline.rag.plugins.module_utils import _evaluation

ROOT = Path(__file__).resolve().parents[4]
SHIPPED = _evaluation.parse(yaml.safe_load((ROOT / "catalog" / "eval" / "languages.yml").read_text(encoding="utf-8")))
SMALL: dict[str, Any] = {"questions": [{"text": "q", "answers": ["a"]}], "passages": {"a": "x", "b": "y"}}


def test_shipped_set() -> None:
    assert Counter(question.language for question in SHIPPED.questions) == dict.fromkeys(
        ("en", "de", "fr", "es", "zh", "ja", "ar"), 2
    )
    assert len(SHIPPED.passages) >= 40
    assert len(set(SHIPPED.passages.values())) == len(SHIPPED.passages)
    # Each question's answer is followed by two hard negatives of the same language.
    names = list(SHIPPED.passages)
    assert [q.answers[0] for q in SHIPPED.questions] == names[::3]
    assert all(name.startswith(f"{q.language}-") for q in SHIPPED.questions for name in q.answers)


def test_only() -> None:
    assert SHIPPED.only(["multilingual"]) is SHIPPED.only(None) is SHIPPED
    assert {q.language for q in SHIPPED.only(["zh", "en"]).questions} == {"zh", "en"}
    first = SHIPPED.only(["de"]).first(1, 3)
    assert [question.language for question in first.questions] == ["de"]
    assert list(first.passages) == ["en-curing", "en-concrete-mix", "de-reifen"]
    assert len(_evaluation.parse(SMALL).only(["en"]).questions) == 1


WRONG = {
    "a list": (lambda d: d.clear(), "must hold `questions` and `passages`"),
    "one passage": (lambda d: d["passages"].pop("b"), "at least two"),
    "an empty passage": (lambda d: d["passages"].update(b=" "), "must map an id to a text"),
    "no question": (lambda d: d["questions"].clear(), "a list that is not empty"),
    "an unknown key": (lambda d: d["questions"][0].update(answer="a"), "question 1 must have `text` and `answers`"),
    "no answers": (lambda d: d["questions"][0].update(answers=[]), "question 1 must have a list of passage ids"),
    "answers as text": (lambda d: d["questions"][0].update(answers="a"), "question 1 must have a list of passage ids"),
    "an unknown passage": (lambda d: d["questions"][0].update(answers=["c"]), "'c', which is not in `passages`"),
}


@pytest.mark.parametrize(("change", "words"), WRONG.values(), ids=WRONG)
def test_wrong_sets(change: Any, words: str) -> None:
    document = copy.deepcopy(SMALL)
    change(document)
    with pytest.raises(ValueError, match=words):
        _evaluation.parse(document)


def test_quality() -> None:
    questions = [_evaluation.Question("q", ("a",)), _evaluation.Question("r", ("b", "c"))]
    best = _evaluation.quality([["a", "b"], ["c", "b", "a"]], questions)
    assert best == {"ndcg": 1.0, "recall": 1.0}
    second = _evaluation.quality([["b", "a"], ["a", "d"]], questions)
    assert second["ndcg"] == pytest.approx(0.6309 / 2, abs=1e-4)
    assert second["recall"] == 0.5
