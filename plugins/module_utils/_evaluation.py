# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A labelled set of questions and passages, and how good an order of the passages is. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _vectors

NDCG_AT = 10
RECALL_AT = 5


@dataclass(frozen=True)
class Question:
    """A question with the ids of the passages that answer it."""

    text: str
    answers: tuple[str, ...]
    language: str = ""


@dataclass(frozen=True)
class EvalSet:
    """Questions, and all passages by id."""

    questions: tuple[Question, ...]
    passages: Mapping[str, str]

    def only(self, languages: Sequence[str] | None) -> EvalSet:
        """The questions in these languages, with every passage; a question without a language suits all."""
        if not languages or "multilingual" in languages:
            return self
        chosen = (q for q in self.questions if not q.language or q.language in languages)
        return EvalSet(tuple(chosen), self.passages)

    def first(self, questions: int, passages: int) -> EvalSet:
        """The first questions, with the passages that answer them and the first others up to a number."""
        asked = self.questions[:questions]
        answers = [name for question in asked for name in question.answers]
        kept = set(list(dict.fromkeys([*answers, *self.passages]))[:passages]).union(answers)
        return EvalSet(asked, {name: text for name, text in self.passages.items() if name in kept})


def parse(document: Any) -> EvalSet:
    """Read a set; raises ValueError that says what is wrong and where."""
    if not isinstance(document, Mapping) or set(document) != {"questions", "passages"}:
        raise ValueError("it must hold `questions` and `passages` and nothing else")
    passages = document["passages"]
    if not isinstance(passages, Mapping) or not all(_is_text(text) for text in passages.values()):
        raise ValueError("`passages` must map an id to a text that is not empty")
    if len(passages) < 2:
        raise ValueError("`passages` must hold at least two, or there is no order")
    known = {str(name): str(text) for name, text in passages.items()}
    rows = document["questions"]
    if not isinstance(rows, Sequence) or isinstance(rows, str) or not rows:
        raise ValueError("`questions` must be a list that is not empty")
    return EvalSet(tuple(_question(row, known, number) for number, row in enumerate(rows, 1)), known)


def _question(row: Any, passages: Mapping[str, str], number: int) -> Question:
    if not isinstance(row, Mapping) or not set(row) <= {"text", "answers", "language"} or not _is_text(row.get("text")):
        raise ValueError(f"question {number} must have `text` and `answers`, and may have `language`")
    answers = row.get("answers")
    if not isinstance(answers, Sequence) or isinstance(answers, str) or not answers:
        raise ValueError(f"question {number} must have a list of passage ids in `answers`")
    names = tuple(map(str, answers))
    unknown = [name for name in names if name not in passages]
    if unknown:
        raise ValueError(f"question {number} is answered by {unknown[0]!r}, which is not in `passages`")
    return Question(str(row["text"]), names, str(row.get("language") or ""))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def quality(orders: Sequence[Sequence[str]], questions: Sequence[Question]) -> dict[str, float]:
    """Mean nDCG and recall of one order of passage ids a question, best first."""
    gains = [[float(name in q.answers) for name in order] for order, q in zip(orders, questions)]
    ndcg = [_vectors.ndcg(row, NDCG_AT, [1.0] * len(q.answers)) for row, q in zip(gains, questions)]
    recall = [_vectors.recall(order, q.answers, RECALL_AT) for order, q in zip(orders, questions)]
    return {"ndcg": math.fsum(ndcg) / len(ndcg), "recall": math.fsum(recall) / len(recall)}
