# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules: one small function each, grouped by what they guard. Pure."""

from __future__ import annotations

from ansible_collections.plumbline.rag.plugins.module_utils._findings import Finding
from ansible_collections.plumbline.rag.plugins.module_utils._rules import (
    limits,
    prefixes,
    security,
    urls,
    vectors,
    versions,
)
from ansible_collections.plumbline.rag.plugins.module_utils._rules._subject import Subject

_FAMILIES = (urls, prefixes, limits, versions, vectors, security)

__all__ = ["Subject", "check"]


def check(subject: Subject) -> list[Finding]:
    """All findings of all rules on one installation, in the order of the families."""
    return [finding for family in _FAMILIES for rule in family.RULES for finding in rule(subject)]
