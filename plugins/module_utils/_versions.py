# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Version arithmetic: floors, ranges and deny lists. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

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


def within(version: str, since: str | None = None, until: str | None = None) -> bool:
    """Whether ``version`` lies in the half-open range from ``since`` to ``until``."""
    return not (since and below(version, since)) and (until is None or below(version, until))


def fixed(version: str, fixes: Iterable[str]) -> bool:
    """Whether ``version`` has a fix that was released as ``fixes``, one for each line (major.minor) that got it.

    A line without a release of its own has the fix when it is newer than the newest one.
    """
    ordered = sorted(fixes, key=parse)
    line = parse(version)[:2]
    own = [fix for fix in ordered if parse(fix)[:2] == line]
    return not below(version, own[-1] if own else ordered[-1])
