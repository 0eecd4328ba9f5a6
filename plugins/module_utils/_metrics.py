# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A verification as gauges for the textfile collector of Prometheus' node exporter. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, NOTE, WARNING, Finding

Document = Mapping[str, Any]
Sample = tuple[dict[str, str], float]


def text(document: Document) -> str:
    """The content of metrics.prom; ``document`` is the content of verify.json."""
    lines = []
    for name, meaning, samples in _gauges(document):
        full = f"plumbline_verify_{name}"
        lines += [f"# HELP {full} {meaning}", f"# TYPE {full} gauge"]
        for labels, value in samples:
            given = {"installation": document["installation"], **labels}
            shown = ",".join(f'{key}="{_escaped(word)}"' for key, word in given.items())
            lines.append(f"{full}{{{shown}}} {value:.12g}")
    return "\n".join([*lines, ""])


def _gauges(document: Document) -> Iterator[tuple[str, str, list[Sample]]]:
    findings = [Finding.from_dict(found) for found in document["findings"]]
    proven = not any(finding.open_error for finding in findings)
    yield "proven", "1 when no error is open.", [({}, float(proven))]
    when = datetime.fromisoformat(document["time"]).timestamp()
    yield "time_seconds", "When the verification ended, since 1970.", [({}, when)]
    counts = [
        ({"severity": severity}, float(sum(f.severity == severity and f.accepted is None for f in findings)))
        for severity in (ERROR, WARNING, NOTE)
    ]
    accepted = float(sum(finding.accepted is not None for finding in findings))
    yield "findings", "Findings by severity.", [*counts, ({"severity": "accepted"}, accepted)]
    states = [check["state"] for check in document["checks"]]
    by_state = [({"state": state}, float(states.count(state))) for state in ("passed", "warned", "failed", "skipped")]
    yield "checks", "Checks by state.", by_state
    yield "duration_seconds", "How long the verification took.", [({}, document["duration"])]
    yield "requests", "Requests that it made.", [({}, float(document["requests"]))]
    if document["latency"]:
        times = [
            ({"route": row["route"], "quantile": quantile}, float(row[name]))
            for row in document["latency"]
            for quantile, name in (("0.5", "p50"), ("0.95", "p95"), ("1", "max"))
        ]
        yield "answer_seconds", "How long answers took, by route.", times
    compared = document["measurements"].get("comparison with the lock", {})
    if "lowest_cosine" in compared:
        meaning = "Lowest cosine between the vectors of the lock and the engine's."
        yield "lock_cosine", meaning, [({}, float(compared["lowest_cosine"]))]
    if document["lock"]:
        proven_at = datetime.fromisoformat(document["lock"]["proven"]).timestamp()
        yield "lock_time_seconds", "When the installation was last proven, since 1970.", [({}, proven_at)]
    through = document["measurements"].get("through Open WebUI", {})
    sides = [side for side in ("document", "query") if f"{side}_prefix" in through]
    if sides:
        distances = [({"side": side}, float(through[f"{side}_prefix"]["distances"]["right"])) for side in sides]
        yield "prefix_distance", "How far the text with the planned prefix is from what was sent.", distances
    rows = document["measurements"].get("reranking against no reranking", {}).get("rows") or []
    if rows:
        for name, meaning in (("ndcg", "nDCG@10 of the labelled set."), ("recall", "Recall@5 of the labelled set.")):
            samples = [({"reranker": way}, float(rows[0][way][name])) for way in ("with", "without")]
            yield name, meaning, samples


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
