# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verification report: what the page shows, with every position computed here, and junit.xml. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from ansible_collections.plumbline.rag.plugins.module_utils import _findings
from ansible_collections.plumbline.rag.plugins.module_utils._checks import _faults
from ansible_collections.plumbline.rag.plugins.module_utils._findings import Finding

Document = Mapping[str, Any]

# Where each hop stands in the diagram, and which hops it talks to.
_NODES: Mapping[str, tuple[str, int, int]] = {
    "open_webui": ("Open WebUI", 1, 70),
    "proxy": ("LiteLLM", 270, 20),
    "engine": ("Embedding engine", 540, 20),
    "reranker": ("Reranker", 540, 90),
    "vector_store": ("Vector store", 270, 160),
}
_NODE_SIZE = (200, 50)
_PROXIED = (("open_webui", "proxy"), ("proxy", "engine"), ("proxy", "reranker"), ("open_webui", "vector_store"))
_DIRECT = (("open_webui", "engine"), ("open_webui", "reranker"), ("open_webui", "vector_store"))
_STATE_WORDS = {"passed": "right", "warned": "warning", "failed": "error", "skipped": "not checked"}

# XML 1.0 has no other control characters than tab and the line ends.
_NOT_XML = re.compile(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")


def view(document: Document) -> dict[str, Any]:
    """Everything that the template shows, in the order of the page; ``document`` is the content of verify.json."""
    findings = [Finding.from_dict(found) for found in document["findings"]]
    measurements = document["measurements"]
    return {
        "installation": document["installation"],
        "time": document["time"],
        "collection": document["collection"],
        "verdict": _verdict(findings, document),
        "diagram": _diagram(document["hops"]),
        "findings": [_finding(finding) for finding in findings],
        "similarity": _heat_map(measurements.get("embedding at the engine", {}).get("similarity")),
        "prefixes": list(_prefixes(measurements.get("through Open WebUI", {}))),
        "rerank": _rerank(measurements),
        "relevance": _relevance(measurements.get("reranking against no reranking", {})),
        "lengths": _lengths(measurements.get("lengths of texts", {})),
        "limits": list(_limits(measurements.get("configured limits", {}))),
        "latency": _latency(document["latency"]),
        "checks": [_check(check) for check in document["checks"]],
        "gaps": [
            {"name": check["name"], "reason": reason} for check in document["checks"] for reason in check["skipped"]
        ],
        "versions": [{"name": name, "version": version} for name, version in sorted(document["versions"].items())],
        "fingerprint": _fingerprint(document["fingerprint"]),
        "lock": document["lock"],
        "numbers": list(_numbers(measurements)),
    }


def junit(document: Document) -> bytes:
    """The checks as a JUnit test suite: an error finding that is not accepted is a failure."""
    checks = document["checks"]
    suite = ElementTree.Element("testsuite", name=f"plumbline.rag {document['installation']}")
    counts = {"tests": len(checks), "failures": 0, "errors": 0, "skipped": 0}
    for check in checks:
        findings = [Finding.from_dict(found) for found in check["findings"]]
        case = ElementTree.SubElement(
            suite, "testcase", classname=f"plumbline.{check['hop']}", name=check["name"], time=f"{check['seconds']:.3f}"
        )
        stopping = [finding for finding in findings if finding.open_error]
        if stopping:
            counts["failures"] += 1
            failure = ElementTree.SubElement(case, "failure", type=stopping[0].id, message=_xml(stopping[0].message))
            failure.text = _xml(_findings.table(stopping))
        elif check["state"] == "skipped":
            counts["skipped"] += 1
            ElementTree.SubElement(case, "skipped", message=_xml("; ".join(check["skipped"])))
        rest = [finding for finding in findings if not finding.open_error]
        if rest:
            ElementTree.SubElement(case, "system-out").text = _xml(_findings.table(rest))
    for name, count in counts.items():
        suite.set(name, str(count))
    suite.set("time", f"{document['duration']:.3f}")
    suite.set("timestamp", document["time"])
    result: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return result


def _xml(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def _verdict(findings: Sequence[Finding], document: Document) -> dict[str, Any]:
    errors = sum(finding.open_error for finding in findings)
    warnings = sum(finding.severity == _findings.WARNING and finding.accepted is None for finding in findings)
    skipped = sum(check["state"] == "skipped" for check in document["checks"])
    if errors:
        state, title = "failed", f"Not proven: {errors} {_plural('error', errors)} open"
    elif warnings:
        state, title = "warned", f"Proven, with {warnings} {_plural('warning', warnings)}"
    else:
        state, title = "passed", "Proven"
    return {
        "state": state,
        "title": title,
        "checks": len(document["checks"]) - skipped,
        "skipped": skipped,
        "requests": document["requests"],
        "budget": document["budget"],
        "depth": document["depth"],
        "duration": f"{document['duration']:.1f}",
        "counts": _findings.verdict(findings),
    }


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "severity": "accepted" if finding.accepted is not None else finding.severity,
        "title": _title(finding.id),
        "where": [value.replace("_", " ") if key == "hop" else value for key, value in sorted(finding.where.items())],
        "message": finding.message,
        "remedy": finding.remedy,
        "accepted": finding.accepted or "",
    }


def _title(rule_id: str) -> str:
    # Its own rules, and those of the plan as far as they are declared here.
    rule = _faults.RULES.get(rule_id) or _findings.rules().get(rule_id)
    return rule.title if rule else rule_id


def _check(check: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": check["name"],
        "hop": check["hop"].replace("_", " "),
        "state": check["state"],
        "word": _STATE_WORDS[check["state"]],
        "seconds": f"{check['seconds']:.2f}",
        "ids": ", ".join(dict.fromkeys(found["id"] for found in check["findings"])),
    }


# -- drawings --------------------------------------------------------------------------------------------------------


def _diagram(hops: Mapping[str, str]) -> dict[str, Any]:
    """Boxes and the lines between them; a line is as good as the hop that it leads to."""
    width, height = _NODE_SIZE
    nodes = []
    for hop, (label, x, y) in _NODES.items():
        if hop in hops:
            node = {"label": label, "x": x, "y": y, "state": hops[hop], "word": _STATE_WORDS[hops[hop]]}
            nodes.append(node)
    edges = []
    for start, end in _PROXIED if "proxy" in hops else _DIRECT:
        if start in hops and end in hops:
            x1, y1 = _NODES[start][1] + width, _NODES[start][2] + height / 2
            x2, y2 = _NODES[end][1], _NODES[end][2] + height / 2
            middle = (x1 + x2) / 2
            path = f"M{x1:g} {y1:g} C{middle:g} {y1:g} {middle:g} {y2:g} {x2 - 7:g} {y2:g}"
            edges.append({"path": path, "x": x2, "y": y2, "state": hops[end]})
    text = "; ".join(f"{node['label']}: {node['word']}" for node in nodes)
    return {"nodes": nodes, "edges": edges, "node_width": width, "node_height": height, "text": text}


def _heat_map(similarity: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Cells with their shade between the lowest and the highest value."""
    if not similarity:
        return None
    values = similarity["values"]
    low, high = min(map(min, values)), max(map(max, values))
    cells = []
    for row, line in enumerate(values):
        for column, value in enumerate(line):
            share = (value - low) / (high - low) if high > low else 0.5
            cells.append(
                {
                    "x": 56 + column * 104,
                    "y": 30 + row * 64,
                    "shade": round(0.08 + 0.84 * share, 3),
                    "dark": share > 0.5,
                    "best": value == max(line),
                    "text": f"{value:.4f}",
                }
            )
    return {
        "cells": cells,
        "columns": [{"x": 56 + index * 104 + 50, "text": f"P{index + 1}"} for index in range(len(values[0]))],
        "lines": [{"y": 30 + index * 64 + 35, "text": f"Q{index + 1}"} for index in range(len(values))],
        "width": 60 + 104 * len(values[0]),
        "height": 34 + 64 * len(values),
        "questions": similarity["rows"],
        "passages": similarity["columns"],
    }


_LOWEST, _HIGHEST = 1e-8, 1.0
_AXIS_START = 200


def _prefixes(measured: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """For each side, how far every variant of the prefix is from what Open WebUI made, on a logarithmic axis."""
    evidence = {
        "document": "1 - cosine to the vector in the store",
        "query": "difference to the cosine behind the returned score",
    }
    for side, meaning in evidence.items():
        proof = measured.get(f"{side}_prefix")
        if not proof:
            continue
        marks = []
        for index, (name, distance) in enumerate(proof["distances"].items()):
            chosen = name == proof["verdict"]
            x = _AXIS_START + 400 * _log_share(distance)
            mark = {"y": 34 + index * 26, "x": round(x, 1), "name": name, "chosen": chosen, "text": f"{distance:.1e}"}
            marks.append(mark)
        powers = range(-8, 1, 2)
        yield {
            "side": side,
            "meaning": meaning,
            "verdict": proof["verdict"],
            "state": "passed" if proof["verdict"] == "right" else "failed",
            "marks": marks,
            "axis": [{"x": round(_AXIS_START + 400 * _log_share(10.0**power), 1), "power": power} for power in powers],
            "height": 40 + 26 * len(marks) + 16,
            "bottom": 26 + 26 * len(marks),
        }


def _log_share(distance: float) -> float:
    low, high = math.log10(_LOWEST), math.log10(_HIGHEST)
    return (math.log10(min(max(distance, _LOWEST), _HIGHEST)) - low) / (high - low)


def _rerank(measurements: Mapping[str, Any]) -> dict[str, Any] | None:
    """The scores as bars from zero, best first."""
    found = [measurements.get(name, {}) for name in ("reranking as Open WebUI asks", "reranking at the reranker")]
    measured = next((one for one in found if one.get("scores")), None)
    if measured is None:
        return None
    scores = measured["scores"]
    low, high = min(0.0, *scores), max(0.0, *scores)
    scale = 420 / ((high - low) or 1.0)
    zero = 40 + (0 - low) * scale
    bars = []
    for place, index in enumerate(sorted(range(len(scores)), key=lambda i: -scores[i])):
        length = scores[index] * scale
        bars.append(
            {
                "y": 8 + place * 34,
                "x": round(zero + min(length, 0), 1),
                "width": round(max(abs(length), 1), 1),
                "label": f"D{index + 1}",
                "right": index == measured["right"],
                "text": f"{scores[index]:.4f}",
                "text_x": round(zero + max(length, 0) + 8, 1),
            }
        )
    return {
        "bars": bars,
        "zero": round(zero, 1),
        "height": 12 + 34 * len(bars),
        "query": measured["query"],
        "documents": measured["documents"],
        "right": f"D{measured['right'] + 1}",
        "cosine": measured["kind"] == "cosine",
        "spread": f"{measured['spread']:.4f}",
    }


_PLOT = (60, 620)


def _relevance(measured: Mapping[str, Any]) -> dict[str, Any] | None:
    """nDCG without and with the reranker, as two dots a line on an axis from 0 to 1; all questions first."""
    rows = measured.get("rows")
    if not rows:
        return None
    start, width = 120, 420
    lines = []
    for place, row in enumerate(rows):
        without, with_ = row["without"]["ndcg"], row["with"]["ndcg"]
        lines.append(
            {
                "name": row["name"],
                "y": 34 + place * 26,
                "without": round(start + width * without, 1),
                "with": round(start + width * with_, 1),
                "worse": with_ < without,
                "text": f"{without:.3f} → {with_:.3f}",
            }
        )
    total = rows[0]
    return {
        "lines": lines,
        "height": 40 + 26 * len(lines) + 20,
        "bottom": 26 + 26 * len(lines),
        "axis": [{"x": start + width * share, "text": f"{share:g}"} for share in (0, 0.5, 1)],
        "questions": measured["questions"],
        "passages": measured["passages"],
        "own": measured["set"] != "shipped",
        "recall": f"{total['without']['recall']:.3f} without and {total['with']['recall']:.3f} with the reranker",
    }


def _lengths(measured: Mapping[str, Any]) -> dict[str, Any] | None:
    """Seconds against tokens, with the limit; a text that was refused has no tokens and stands by its words."""
    points = measured.get("lengths")
    if not points:
        return None
    left, right = _PLOT
    sizes = [point["tokens"] or point["words"] for point in points]
    most = float(max(*sizes, measured["limit"]))
    slowest = max(point["seconds"] for point in points) or 1.0

    def across(tokens: float) -> float:
        return round(left + (right - left) * tokens / most, 1)

    marks = []
    for point, size in zip(points, sizes):
        right_ = bool(point.get("usable"))
        expected = right_ or bool(point.get("past"))
        marks.append(
            {
                "x": across(size),
                "y": round(150 - 120 * point["seconds"] / slowest, 1),
                "state": "passed" if right_ else "skipped" if expected else "failed",
                "size": size,
                "text": f"{point['seconds'] * 1000:.0f} ms" if right_ else f"status {point['status']}",
            }
        )
    return {"marks": marks, "limit": measured["limit"], "limit_x": across(measured["limit"])}


_FASTEST, _DECADES, _BINS_PER_DECADE = 1e-3, 5, 8
_BAR = 10.5
_ROUTES_START = 220


def _latency(routes: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """A histogram for each route, all on one logarithmic axis from a millisecond to 100 seconds."""
    if not routes:
        return None
    rows = []
    for place, route in enumerate(routes):
        bottom = 44 + place * 52
        bins = [0] * (_DECADES * _BINS_PER_DECADE)
        for seconds in route["seconds"]:
            bins[_bin(seconds)] += 1
        most = max(bins)
        bars = [
            {
                "x": round(_ROUTES_START + index * _BAR, 1),
                "y": round(bottom - max(36 * count / most, 2), 1),
                "height": round(max(36 * count / most, 2), 1),
            }
            for index, count in enumerate(bins)
            if count
        ]
        rows.append(
            {
                "route": route["route"],
                "bottom": bottom,
                "bars": bars,
                "middle": round(_ROUTES_START + _log_time(route["p50"]) * _BAR, 1),
                "count": len(route["seconds"]),
                **{name: _duration(route[name]) for name in ("p50", "p95", "max")},
            }
        )
    step = _BINS_PER_DECADE * _BAR
    labels = ("1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s")
    return {
        "rows": rows,
        "bottom": rows[-1]["bottom"],
        "axis": [{"x": round(_ROUTES_START + index * step, 1), "text": text} for index, text in enumerate(labels)],
        "height": rows[-1]["bottom"] + 34,
    }


def _log_time(seconds: float) -> float:
    """The place on the axis of times, in bins."""
    within = min(max(seconds, _FASTEST), _FASTEST * 10**_DECADES)
    return math.log10(within / _FASTEST) * _BINS_PER_DECADE


def _bin(seconds: float) -> int:
    return min(int(_log_time(seconds)), _DECADES * _BINS_PER_DECADE - 1)


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _limits(measured: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What was sent as one request or at once, how large it was, and what came of it."""
    full = measured.get("full_batch")
    if full:
        what = f"one batch of {full['texts']} passages of {full['characters']} characters ({full['bytes']} bytes)"
        result = _duration(full["seconds"]) if full["status"] == 200 else f"status {full['status']}"
        yield {"what": what, "tokens": full["tokens"], "result": result, "right": full["status"] == 200}
    for row in measured.get("dense", ()):
        right = row["status"] == 200
        result = "embedded" if right else f"status {row['status']}"
        what = f"a passage of {row['characters']} characters: {row['kind']}"
        yield {"what": what, "tokens": row["tokens"], "result": result, "right": right}


def _fingerprint(fingerprint: Mapping[str, Any]) -> list[dict[str, str]]:
    """Its fields as text; a prefix in quotes, so that its blanks show."""
    rows = []
    for name, value in fingerprint.items():
        text = repr(value) if name.endswith("prefix") else "not given" if value is None else str(value)
        rows.append({"name": name.replace("_", " "), "text": text})
    return rows


def _numbers(measurements: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """The single values of each check; tables and lists have their own drawing."""
    for check, measured in measurements.items():
        for name, value in measured.items():
            if isinstance(value, (bool, str)):
                text = str(value)
            elif isinstance(value, (int, float)):
                text = f"{value:.6g}"
            elif isinstance(value, list) and len(value) == 2 and all(isinstance(one, float) for one in value):
                text = f"{value[0]:.6g} … {value[1]:.6g}"
            else:
                continue
            if len(text) <= 80:
                yield {"check": check, "name": name.replace("_", " "), "text": text}
