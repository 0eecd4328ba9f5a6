# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""text-embeddings-inference: which image runs on which card, and the limits that are always stated. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

LOWEST = (7, 5)
# Tag prefix -> lowest and highest compute capability that its binary runs on; the lowest is what it is compiled for.
SINGLE: dict[str, tuple[tuple[int, int], tuple[int, int]]] = {
    "turing-": ((7, 5), (7, 5)),
    "": ((8, 0), (8, 9)),
    "86-": ((8, 6), (8, 9)),
    "89-": ((8, 9), (8, 9)),
    "hopper-": ((9, 0), (9, 0)),
    "100-": ((10, 0), (10, 0)),
    "120-": ((12, 0), (12, 1)),
}
# The image whose entry point selects the binary; it looks for these, and for every 8.x takes the one of 8.0.
MULTIPLE = "cuda-"
_MULTIPLE_EXACT = ((7, 5), (9, 0), (10, 0), (12, 0))
# The catalog's word for how a model pools -> TEI's; anything else is left to the model's own configuration.
POOLINGS = {"cls": "cls", "mean": "mean", "last": "last-token"}


class NoImage(ValueError):
    """No image of TEI runs on the cards; the message says why."""


def capability(text: str) -> tuple[int, int]:
    """A compute capability such as ``8.6``."""
    major, _dot, minor = text.partition(".")
    return int(major), int(minor or 0)


def runs(prefix: str, card: tuple[int, int]) -> bool:
    """Whether the image of a tag prefix runs on a card."""
    if prefix == MULTIPLE:
        return card[0] == 8 or card in _MULTIPLE_EXACT
    known = SINGLE.get(prefix)
    return known is not None and known[0] <= card <= known[1]


def tag(version: str, cards: Iterable[str] | None) -> str:
    """The tag for a service on cards of these compute capabilities.

    None means that the cards are not known yet: the image with several binaries. No card at all is the processor.
    """
    if cards is None:
        return f"{MULTIPLE}{version}"
    wanted = sorted({capability(card) for card in cards})
    if not wanted:
        return f"cpu-{version}"
    if len(wanted) > 1:
        kinds = ", ".join(f"{major}.{minor}" for major, minor in wanted)
        raise NoImage(f"the cards have the compute capabilities {kinds}, and one container runs on one kind")
    (card,) = wanted
    reason = refusal(card)
    if reason is not None:
        raise NoImage(reason)
    # The narrowest image that fits is the one compiled for the card.
    _lowest, prefix = max((low, prefix) for prefix, (low, _high) in SINGLE.items() if runs(prefix, card))
    return f"{prefix}{version}"


def refusal(card: tuple[int, int]) -> str | None:
    """Why no image runs on a card; None when one does."""
    name = f"{card[0]}.{card[1]}"
    if card < LOWEST:
        return f"compute capability {name} is below {LOWEST[0]}.{LOWEST[1]}, the lowest that is supported"
    if not any(runs(prefix, card) for prefix in SINGLE):
        return f"no image is compiled for compute capability {name}"
    return None


def prefix_of(reference: str) -> str:
    """The part of an image's tag before its version: ``cuda-`` of ``…:cuda-1.9.3``."""
    name = reference.rpartition(":")[2]
    return name[: len(name) - len(name.rpartition("-")[2])]


def limits(
    engine: Mapping[str, Any], args: Sequence[Any], max_batch: int | None, dtype: str, pooling: str | None = None
) -> list[str]:
    """Every limit as an argument, so that no release's default decides; those that ``args`` has are left to it."""
    length, permits, payload = engine["length"], engine["permits"], engine["payload"]
    stated: dict[str, Any] = {
        engine["batch_flag"]: max_batch or engine["max_batch"],
        length["flag"]: length["default"],
        permits["flag"]: permits["number"],
        payload["flag"]: payload["bytes"],
        "--auto-truncate": "true" if engine["truncates"] else "false",
        "--dtype": dtype,
    }
    if pooling in POOLINGS:
        stated["--pooling"] = POOLINGS[pooling]
    given = {str(arg).partition("=")[0] for arg in args}
    return [text for flag, value in stated.items() if flag not in given for text in (flag, str(value))]
