# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules: one small function each, grouped by what they guard. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._findings import Finding
from ansible_collections.plumbline.rag.plugins.module_utils._rules import (
    catalog,
    changes,
    engines,
    environment,
    extraction,
    gpus,
    hosted,
    images,
    limits,
    models,
    prefixes,
    processes,
    proxy,
    retrieval,
    security,
    unused,
    urls,
    vectors,
    versions,
)
from ansible_collections.plumbline.rag.plugins.module_utils._rules._subject import Subject

_FAMILIES = (
    urls,
    proxy,
    prefixes,
    models,
    catalog,
    engines,
    limits,
    retrieval,
    versions,
    vectors,
    gpus,
    images,
    hosted,
    security,
    unused,
    environment,
    processes,
    extraction,
)

__all__ = ["Subject", "across", "changes", "check"]


def check(subject: Subject) -> list[Finding]:
    """All findings of all rules on one installation, in the order of the families."""
    return [finding for family in _FAMILIES for rule in family.RULES for finding in rule(subject)]


def across(plans: Mapping[str, Mapping[str, Any]], engines_known: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    """Findings on what the installations of an inventory put on the same host."""
    return [*gpus.shares(plans, engines_known), *processes.ports(plans)]
