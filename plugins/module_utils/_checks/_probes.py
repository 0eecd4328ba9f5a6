# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts that the checks send: our own, plain English, so that every model and every licence can take them. Pure."""

from __future__ import annotations

NAME = "plumbline-verify"
DESCRIPTION = "Probe of plumbline.rag; safe to delete."

QUESTIONS = (
    "How can a mason tell whether a wall is vertical?",
    "What makes sourdough bread rise?",
    "Why does the sea level go up and down twice a day?",
)

# PASSAGES[i] answers QUESTIONS[i] and no other.
PASSAGES = (
    "A mason hangs a plumb line, a weight on a string, beside the wall: where the gap stays even, the wall is vertical.",
    "Sourdough bread rises because wild yeast in the dough makes gas, which the gluten of the flour holds back.",
    "The sea level goes up and down twice a day, because the moon and the sun pull at the water while the earth turns.",
)

DISTRACTORS = (
    "A cartographer draws the contour lines of a mountain from measured heights.",
    "Violins are tuned in fifths, starting from the note A.",
)


# Short everyday words, which most tokenizers keep whole; repeated to any length.
FILLER = "the wall is straight and the line is even so the house will stand for a long time and"


def rerank_documents() -> tuple[list[str], int]:
    """Documents for QUESTIONS[0], and the position of the right one, which is not the first."""
    return [DISTRACTORS[0], PASSAGES[1], PASSAGES[0], DISTRACTORS[1], PASSAGES[2]], 2


def candidates(count: int) -> list[str]:
    """As many distinct short documents as a hybrid search may send to the reranker."""
    return [f"{PASSAGES[number % len(PASSAGES)]} ({number})" for number in range(count)]


def file_content(passage: str) -> str:
    """A passage as an uploaded file: with a newline inside, which Open WebUI turns into a blank before embedding."""
    words = passage.split(" ")
    middle = len(words) // 2
    return f"{' '.join(words[:middle])}\n{' '.join(words[middle:])}\n"
