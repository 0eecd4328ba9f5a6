# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Version arithmetic: floors and deny lists. Pure."""

from __future__ import annotations

import re

_VERSION = re.compile(r"^v?(\d+(?:\.\d+)*)")


def parse(version: str) -> tuple[int, ...]:
    """The numeric part of a version as a tuple: ``v1.94.3-stable`` -> (1, 94, 3). Raises ValueError without one."""
    match = _VERSION.match(version)
    if match is None:
        raise ValueError(f"{version!r} is not a version")
    return tuple(int(part) for part in match.group(1).split("."))


def below(version: str, floor: str) -> bool:
    """Whether ``version`` is older than ``floor``; missing parts count as zero."""
    a, b = parse(version), parse(floor)
    length = max(len(a), len(b))
    return a + (0,) * (length - len(a)) < b + (0,) * (length - len(b))
