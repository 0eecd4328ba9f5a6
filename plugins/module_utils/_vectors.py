# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arithmetic on vectors and rankings, with the standard library only: targets have no numpy. Pure."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Sequence

Vector = Sequence[float]


def dot(left: Vector, right: Vector) -> float:
    """The scalar product; vectors of different length are an error, never cut to the shorter one."""
    if len(left) != len(right):
        raise ValueError(f"vectors of {len(left)} and {len(right)} numbers cannot be compared")
    return math.fsum(a * b for a, b in zip(left, right))


def norm(vector: Vector) -> float:
    """The Euclidean length."""
    return math.sqrt(math.fsum(a * a for a in vector))


def cosine(left: Vector, right: Vector) -> float:
    """The cosine of the angle between two vectors; 0.0 when one of them has no direction."""
    length = norm(left) * norm(right)
    return dot(left, right) / length if length else 0.0


def is_usable(vector: Vector) -> bool:
    """Whether a vector has only finite numbers and a direction."""
    return bool(vector) and all(math.isfinite(a) for a in vector) and any(vector)


def matrix(rows: Sequence[Vector], columns: Sequence[Vector]) -> list[list[float]]:
    """The cosines of every row with every column."""
    return [[cosine(row, column) for column in columns] for row in rows]


def is_permutation(indexes: Sequence[object], size: int) -> bool:
    """Whether the indexes are exactly 0 … size-1, each once, in any order; booleans are not indexes."""
    if len(indexes) != size or any(isinstance(i, bool) or not isinstance(i, int) for i in indexes):
        return False
    return set(indexes) == set(range(size))


def argmax(values: Sequence[float]) -> int:
    """The position of the largest value, the first one of equals."""
    return max(range(len(values)), key=values.__getitem__)


def ndcg(gains: Sequence[float], k: int, ideal: Sequence[float] | None = None) -> float:
    """nDCG@k of a ranking whose items have these gains, best rank first.

    ``ideal`` holds the gains of all relevant items, for a ranking that does not contain every one of them; without it
    the best order of ``gains`` is the ideal. A ranking with nothing relevant to find scores 0.0.
    """
    best = sorted(gains if ideal is None else ideal, reverse=True)
    denominator = _dcg(best, k)
    return _dcg(gains, k) / denominator if denominator else 0.0


def _dcg(gains: Sequence[float], k: int) -> float:
    return math.fsum(gain / math.log2(rank + 2) for rank, gain in enumerate(gains[:k]))


def recall(ranked: Sequence[object], relevant: Sequence[object], k: int) -> float:
    """The share of the relevant items that is among the first k of a ranking; 0.0 when nothing is relevant."""
    wanted = set(relevant)
    return len(wanted & set(ranked[:k])) / len(wanted) if wanted else 0.0


def decode_base64(text: str) -> list[float]:
    """The numbers of an embedding sent as base64: little-endian 32-bit floats."""
    raw = base64.b64decode(text, validate=True)
    if len(raw) % 4:
        raise ValueError(f"{len(raw)} bytes are not a row of 32-bit floats")
    return list(struct.unpack(f"<{len(raw) // 4}f", raw))


def encode_base64(vector: Vector) -> str:
    """The inverse of :func:`decode_base64`."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that is at least as large as this share of all of them."""
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]
