"""The page that publishes a run of the fault matrix."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from .fault_matrix import MATRIX

HOPS = ("engine", "proxy", "reranker", "open_webui", "vector_store")


@dataclasses.dataclass
class Results:
    """What was found in each cell, and in each run with nothing wrong."""

    cells: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    healthy: list[tuple[str, ...]] = dataclasses.field(default_factory=list)

    def complete(self, healthy: int) -> bool:
        return len(self.healthy) == healthy and all(cell.name in self.cells for cell in MATRIX)


def found(result: Mapping[str, Any]) -> tuple[str, ...]:
    """The findings of a verification as the matrix writes them."""
    return tuple(sorted({f"{finding['id']} {finding['where'].get('hop', '')}" for finding in result["findings"]}))


def linked(findings: Sequence[str]) -> str:
    parts = [finding.partition(" ") for finding in findings]
    return ", ".join(f"[{rule}](rules/{rule}.md) {hop}" for rule, _blank, hop in parts)


def page(results: Results) -> str:
    right = [cell for cell in MATRIX if results.cells[cell.name] == cell.findings]
    alarms = sum(map(bool, results.healthy))
    lines = [
        "<!-- Written by `make test-full` from its results. -->",
        "",
        "# Fault matrix",
        "",
        "A proxy in front of each service of the running quickstart makes one thing wrong at a time, services are stopped and",
        "settings changed; the rest is real software. A cell counts as found when a verification reports exactly the findings of",
        "the table, each at the hop where the fault was made, and no others, and leaves nothing behind.",
        "",
        f"- Found: **{len(right)} of {len(MATRIX)}** ({100 * len(right) / len(MATRIX):.1f} %).",
        f"- False alarms: **{alarms} in {len(results.healthy)}** verifications with nothing wrong, before and after.",
        "",
        "| hop | cells | found |",
        "| --- | --- | --- |",
    ]
    for hop in HOPS:
        here = [cell for cell in MATRIX if cell.hop == hop]
        lines.append(f"| {hop} | {len(here)} | {sum(cell in right for cell in here)} |")
    lines += ["", "| fault | made at | findings | least depth | found |", "| --- | --- | --- | --- | --- |"]
    for cell in MATRIX:
        seen = results.cells[cell.name]
        verdict = "yes" if cell in right else f"no: {linked(seen) or 'nothing'}"
        lines.append(f"| {cell.fault} | {cell.hop} | {linked(cell.findings)} | {cell.depth} | {verdict} |")
    return "\n".join(lines) + "\n"
