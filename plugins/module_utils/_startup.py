# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How large a model's files are and how long an engine may take to load them. Estimates, on the safe side. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

# A network disk or a slow array, read for the first time.
BYTES_PER_SECOND = 50_000_000
# A model whose size is not known may be a large one.
UNKNOWN = 900
_STEP = 30


def file_bytes(parameters: Any) -> int | None:
    """Size of the weights on disk: small models are published in single precision, large ones in half."""
    if not isinstance(parameters, int) or isinstance(parameters, bool) or parameters <= 0:
        return None
    return parameters * (4 if parameters < 1_000_000_000 else 2)


def timeout(engine: Mapping[str, Any], device: str, parameters: Any) -> int | None:
    """Seconds until the engine has to answer: what its start takes without a model, and reading the files.

    None for an engine whose role has a fixed one.
    """
    base: int | None = (engine.get("start_seconds") or {}).get(device)
    if base is None:
        return None
    size = file_bytes(parameters)
    if size is None:
        return UNKNOWN
    return math.ceil((base + size / BYTES_PER_SECOND) / _STEP) * _STEP
