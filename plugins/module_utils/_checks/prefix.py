# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which text made a vector: the prefixes that could have been sent, and the verdict about them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ansible_collections.plumbline.rag.plugins.module_utils._checks import _faults
from ansible_collections.plumbline.rag.plugins.module_utils._findings import Rule

RIGHT = "right"
OTHER = "something else"


@dataclass(frozen=True)
class Limits:
    """How much two vectors of the same text may differ, and what difference is no difference at all."""

    same: float
    resolution: float


# 1 - cosine with a stored vector; stores keep 32-bit or 16-bit floats.
STORED = Limits(same=1e-3, resolution=1e-5)
# Difference of cosines, which reacts to the angle itself and therefore sooner.
DISTANCE = Limits(same=5e-3, resolution=1e-4)

FAULTS: Mapping[str, Rule] = {
    "missing": _faults.PREFIX_MISSING,
    "of the other side": _faults.PREFIX_SIDE,
    "without its trailing space": _faults.PREFIX_BLANK,
    "with a literal \\n": _faults.PREFIX_LITERAL,
    "in quotes": _faults.PREFIX_LITERAL,
    "in single quotes": _faults.PREFIX_LITERAL,
    "applied twice": _faults.PREFIX_TWICE,
    OTHER: _faults.OTHER_MODEL,
}


def variants(own: str, other: str) -> dict[str, str]:
    """What could have been put before a text, by name; the right one first, and each string once."""
    possible = {
        RIGHT: own,
        "missing": "",
        "of the other side": other,
        "without its trailing space": own.rstrip(" "),
        "with a literal \\n": own.replace("\n", "\\n"),
        "in quotes": f'"{own}"' if own else "",
        "in single quotes": f"'{own}'" if own else "",
        "applied twice": own + own,
    }
    found: dict[str, str] = {}
    for name, prefix in possible.items():
        if prefix not in found.values():
            found[name] = prefix
    return found


@dataclass(frozen=True)
class Verdict:
    """The variant that made the vectors, and how far each variant is from them."""

    name: str
    distances: Mapping[str, float]


def judge(distances: Mapping[str, Iterable[float]], limits: Limits) -> Verdict:
    """Decide between the variants by the worst distance of each; several vectors say more than one.

    Variants that the model cannot tell apart count as the right one.
    """
    worst = {name: max(values) for name, values in distances.items()}
    best = min(worst, key=worst.__getitem__)
    if worst[RIGHT] - worst[best] <= limits.resolution:
        best = RIGHT
    return Verdict(best if worst[best] <= limits.same else OTHER, worst)
