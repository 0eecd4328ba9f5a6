# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arithmetic, with values worked out by hand."""

from __future__ import annotations

import math

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _vectors


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ([1.0, 0.0], [1.0, 0.0], 1.0),
        ([1.0, 0.0], [0.0, 5.0], 0.0),
        ([1.0, 1.0], [-2.0, -2.0], -1.0),
        ([3.0, 4.0], [4.0, 3.0], 0.96),  # 24 / 25
        ([0.0, 0.0], [1.0, 1.0], 0.0),
    ],
)
def test_cosine(left: list[float], right: list[float], expected: float) -> None:
    assert _vectors.cosine(left, right) == pytest.approx(expected, abs=1e-12)


def test_dot_refuses_vectors_of_different_length() -> None:
    with pytest.raises(ValueError, match="2 and 3 numbers"):
        _vectors.dot([1.0, 2.0], [1.0, 2.0, 3.0])


def test_norm() -> None:
    assert _vectors.norm([3.0, 4.0]) == 5.0


@pytest.mark.parametrize(
    ("vector", "expected"),
    [([1.0, 0.0], True), ([0.0, 0.0], False), ([], False), ([math.nan, 1.0], False), ([math.inf], False)],
)
def test_is_usable(vector: list[float], expected: bool) -> None:
    assert _vectors.is_usable(vector) is expected


def test_matrix() -> None:
    assert _vectors.matrix([[1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]) == [[1.0, 0.0]]


@pytest.mark.parametrize(
    ("indexes", "size", "expected"),
    [
        ([2, 0, 1], 3, True),
        ([], 0, True),
        ([0, 0, 1], 3, False),
        ([0, 1], 3, False),
        ([1, 2, 3], 3, False),
        (["0", "1"], 2, False),
        ([False, True], 2, False),
    ],
)
def test_is_permutation(indexes: list[object], size: int, expected: bool) -> None:
    assert _vectors.is_permutation(indexes, size) is expected


def test_argmax_takes_the_first_of_equals() -> None:
    assert _vectors.argmax([1.0, 3.0, 3.0]) == 1


@pytest.mark.parametrize(
    ("gains", "k", "ideal", "expected"),
    [
        ([1.0, 0.0, 0.0], 10, None, 1.0),
        ([0.0, 1.0], 10, None, 1 / math.log2(3)),
        ([0.0, 1.0], 1, None, 0.0),
        ([0.0, 0.0], 10, None, 0.0),
        ([1.0], 10, [1.0, 1.0], 1 / (1 + 1 / math.log2(3))),  # one of two found
        # graded: DCG = 3 + 2/1.58496, ideal the same; exchanged it is 2 + 3/1.58496
        ([2.0, 3.0], 10, None, (2 + 3 / math.log2(3)) / (3 + 2 / math.log2(3))),
    ],
)
def test_ndcg(gains: list[float], k: int, ideal: list[float] | None, expected: float) -> None:
    assert _vectors.ndcg(gains, k, ideal) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("ranked", "relevant", "k", "expected"),
    [(["a", "b", "c"], ["a", "c"], 2, 0.5), (["a", "c"], ["a", "c"], 2, 1.0), (["a"], [], 2, 0.0)],
)
def test_recall(ranked: list[str], relevant: list[str], k: int, expected: float) -> None:
    assert _vectors.recall(ranked, relevant, k) == expected


def test_decode_base64() -> None:
    # 1.0 is 00 00 80 3f and -2.0 is 00 00 00 c0, lowest byte first
    assert _vectors.decode_base64("AACAPwAAAMA=") == [1.0, -2.0]


@pytest.mark.parametrize("text", ["AAAA", "not base64!"])
def test_decode_base64_refuses(text: str) -> None:
    with pytest.raises(ValueError, match=r"32-bit floats|base64|Non-base64|padding|alphabet|discontinuous|Only"):
        _vectors.decode_base64(text)


def test_encode_base64() -> None:
    assert _vectors.encode_base64([1.0, -2.0]) == "AACAPwAAAMA="


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [([3.0], 0.5, 3.0), ([4.0, 1.0, 3.0, 2.0], 0.5, 2.0), ([1.0, 2.0, 3.0, 4.0], 0.95, 4.0), ([1.0, 2.0], 0.0, 1.0)],
)
def test_percentile(values: list[float], share: float, expected: float) -> None:
    assert _vectors.percentile(values, share) == expected
