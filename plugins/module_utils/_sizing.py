# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the services take of their graphics cards, and the share that vLLM is told to reserve. Estimates; pure.

The parts are those of _advice.memory. A service needs its weights, the activations of its largest batch and, on vLLM, a
gibibyte for CUDA and its graphs; it wants a key-value cache for its longest input beside that.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _advice
from ansible_collections.plumbline.rag.plugins.module_utils._catalog import Embedder, Reranker
from ansible_collections.plumbline.rag.plugins.module_utils._choice import flag_value

GIB = 2**30
CONTEXT = GIB
# Of a card whose size is known, this much is given away; the rest is for the driver and for what the estimates miss.
FULL = 0.95
# Where there is room, a service may take this much more than was estimated.
HEADROOM = 1.5


@dataclasses.dataclass(frozen=True)
class Need:
    """Bytes of one card that a service does not start without, and those it can use."""

    least: int
    most: int


def need(planned: Mapping[str, Any], engine: Mapping[str, Any], entry: Embedder | Reranker) -> Need | None:
    """What a service takes of each of its cards; None where the catalog does not know the model's size."""
    arguments = [*planned["limits"], *planned["args"]]
    length = flag_value(arguments, engine["length"]["flag"])
    batch = engine.get("batch_tokens", engine["length"])
    tokens = flag_value(arguments, batch["flag"]) or batch["default"]
    width = entry.dimensions if isinstance(entry, Embedder) else None
    # what is sent in one batch is as long as the batch, not as one text
    text = min(tokens, entry.max_tokens)
    parts = _advice.memory(planned, entry, math.ceil(tokens / text), text, width)
    if parts is None:
        return None
    cards = flag_value(arguments, "--tensor-parallel-size") or 1
    context = CONTEXT if "memory_share" in engine else 0
    least = parts["weights"] // cards + parts["activations"] + context
    read = min(length or entry.max_tokens, entry.max_tokens)
    return Need(least, least + parts["cache"] * read // entry.max_tokens // cards)


def shares(needs: Sequence[Need], card: int, others: int = 0) -> list[float] | None:
    """A share of a card for each of its services, ``others`` bytes left out; None when they do not fit.

    Each gets what it does not start without, then of its cache what there is room for, then what the estimate may miss.
    """
    room = math.floor(card * FULL) - others
    least, most = sum(one.least for one in needs), sum(one.most for one in needs)
    if room < least:
        return None
    if room < most:
        part = (room - least) / (most - least)
        given = [one.least + part * (one.most - one.least) for one in needs]
    else:
        given = [one.most * min(HEADROOM, room / most) for one in needs]
    # downwards, so that the sum stays within the card
    return [math.floor(size / card * 1000) / 1000 for size in given]
