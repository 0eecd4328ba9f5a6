# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings: what is wrong or risky, where, and what to do about it. Pure."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

ERROR = "error"
WARNING = "warning"
NOTE = "note"
_ORDER = {ERROR: 0, WARNING: 1, NOTE: 2}


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that is wrong or risky.

    ``where`` holds any of ``variable``, ``host`` and ``hop``; ``accepted`` is the operator's reason once the finding is
    acknowledged in ``rag_accept``.
    """

    id: str
    severity: str
    where: Mapping[str, str]
    message: str
    remedy: str
    accepted: str | None = None

    @property
    def open_error(self) -> bool:
        """Whether this finding has to stop the run."""
        return self.severity == ERROR and self.accepted is None

    def as_dict(self) -> dict[str, Any]:
        """The JSON form that plan.json, verify.json and the report share."""
        result: dict[str, Any] = {
            "id": self.id,
            "severity": self.severity,
            "where": dict(self.where),
            "message": self.message,
            "remedy": self.remedy,
        }
        if self.accepted is not None:
            result["accepted"] = self.accepted
        return result

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Finding:
        """The inverse of :meth:`as_dict`."""
        return cls(
            str(data["id"]),
            str(data["severity"]),
            dict(data["where"]),
            str(data["message"]),
            str(data["remedy"]),
            data.get("accepted"),
        )


@dataclasses.dataclass(frozen=True)
class Rule:
    """The declaration of one finding id: its meaning never changes once released."""

    id: str
    severity: str
    title: str
    why: str
    fix: str
    example: str
    source: str
    acknowledgeable: bool

    def finding(self, message: str, remedy: str | None = None, severity: str | None = None, **where: str) -> Finding:
        """A finding of this rule; ``where`` takes ``variable``, ``host`` and ``hop``."""
        unknown = set(where) - {"variable", "host", "hop"}
        if unknown:
            raise ValueError(f"{self.id}: a finding has no place called {sorted(unknown)}")
        return Finding(self.id, severity or self.severity, where, message, remedy or self.fix)


_RULES: dict[str, Rule] = {}


def register(
    id: str,
    severity: str,
    title: str,
    why: str,
    fix: str,
    example: str = "",
    source: str = "",
    acknowledgeable: bool = True,
) -> Rule:
    """Declare a finding id, once.

    ``title`` is a short statement of the fault, ``why`` what it does to answers, ``fix`` the default remedy, ``example``
    a YAML snippet for the reference page and ``source`` the public report or measurement that it comes from.
    Raises ValueError when the id is taken or the severity is unknown.
    """
    if id in _RULES:
        raise ValueError(f"rule {id} is declared twice")
    if severity not in _ORDER:
        raise ValueError(f"rule {id} has no such severity: {severity}")
    rule = Rule(id, severity, title, why, fix, example, source, acknowledgeable)
    _RULES[id] = rule
    return rule


def rules() -> dict[str, Rule]:
    """All declared rules by id; complete once the modules that declare them are imported."""
    return dict(sorted(_RULES.items()))


ACCEPT_UNKNOWN = register(
    "PL190",
    ERROR,
    "rag_accept names a finding that does not exist",
    "An acknowledgement with a misspelt id silences nothing, and hides that it silences nothing.",
    "Use an id from the rules reference, with a reason as its value.",
    example='rag_accept:\n  PL170: "demo: no cross-encoder weights here"',
    acknowledgeable=False,
)
ACCEPT_REFUSED = register(
    "PL191",
    ERROR,
    "rag_accept names a finding that cannot be acknowledged, or gives no reason",
    "Some faults leave nothing to deploy; and a reason is what the next operator reads at night.",
    "Fix the finding itself, or write the reason as a non-empty string.",
    example='rag_accept:\n  PL170: ""    # no reason: refused',
    acknowledgeable=False,
)


def acknowledge(findings: Iterable[Finding], accept: Mapping[str, Any]) -> list[Finding]:
    """Mark the findings that ``accept`` (id -> reason) covers, and report acknowledgements that are not valid.

    Notes need no acknowledgement; rules declared with ``acknowledgeable=False`` refuse it.
    """
    result: list[Finding] = []
    valid: dict[str, str] = {}
    for rule_id, reason in accept.items():
        rule = _RULES.get(str(rule_id))
        if rule is None:
            result.append(ACCEPT_UNKNOWN.finding(f"rag_accept has the unknown id {rule_id}.", variable="rag_accept"))
        elif not rule.acknowledgeable:
            message = f"rag_accept lists {rule_id} ({rule.title}), which cannot be acknowledged."
            result.append(ACCEPT_REFUSED.finding(message, variable="rag_accept"))
        elif not isinstance(reason, str) or not reason.strip():
            result.append(ACCEPT_REFUSED.finding(f"rag_accept.{rule_id} has no reason.", variable="rag_accept"))
        else:
            valid[str(rule_id)] = reason.strip()
    return sort([*result, *cover(findings, valid)])


def cover(findings: Iterable[Finding], accept: Mapping[str, Any]) -> list[Finding]:
    """Mark the findings that a valid acknowledgement covers, without judging the acknowledgements again."""
    result = []
    for finding in findings:
        reason = accept.get(finding.id)
        valid = isinstance(reason, str) and bool(reason.strip()) and _RULES[finding.id].acknowledgeable
        result.append(dataclasses.replace(finding, accepted=str(reason).strip()) if valid else finding)
    return result


def sort(findings: Iterable[Finding]) -> list[Finding]:
    """Open errors first, then by severity and id; the order within an id is kept."""
    return sorted(findings, key=lambda f: (f.accepted is not None, _ORDER[f.severity], f.id))


def verdict(findings: Iterable[Finding]) -> str:
    """One line that counts the findings: ``2 errors, 1 warning, 0 notes, 1 accepted``."""
    counts = {ERROR: 0, WARNING: 0, NOTE: 0}
    accepted = 0
    for finding in findings:
        if finding.accepted is not None:
            accepted += 1
        else:
            counts[finding.severity] += 1
    parts = [f"{n} {name}{'' if n == 1 else 's'}" for name, n in counts.items()]
    return ", ".join([*parts, f"{accepted} accepted"])


def table(findings: Iterable[Finding], width: int = 100) -> str:
    """The findings as text for a terminal, wrapped to ``width`` columns; empty when there are none."""
    blocks = []
    for finding in findings:
        place = ", ".join(f"{value}" for value in finding.where.values())
        state = "accepted" if finding.accepted is not None else finding.severity
        lines = [f"{finding.id} {state:<8} {place}".rstrip()]
        texts = [finding.message]
        texts.append(f"accepted: {finding.accepted}" if finding.accepted is not None else f"-> {finding.remedy}")
        for text in texts:
            lines += textwrap.wrap(text, width - 6, initial_indent="      ", subsequent_indent="      ")
        blocks.append("\n".join(lines))
    return "\n".join(blocks)
