# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock: what made the stored vectors, and how an installation answered when that was proven. Pure.

A later run compares itself with it, so that it needs neither published values nor a second engine. Vectors and baseline stay
as they were recorded until what they belong to changes, or until the operator acknowledges that they differ: a slow drift is
then still seen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _vectors
from ansible_collections.plumbline.rag.plugins.module_utils._checks import _context, _faults
from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, Finding
from ansible_collections.plumbline.rag.plugins.module_utils._rules import changes

SCHEMA = 1
NAME = "lock.json"
CHECK = "comparison with the lock"
# Another precision or engine stays above it; another model, pooling or prefix does not.
SAME_VECTOR = 0.999
_MARGIN = 0.02
# Fields of the plan's embedder: the first ones decide which vectors a text gets.
_IDENTITY = ("model", "revision", "dimensions", "pooling", "normalized", "query_prefix", "document_prefix")
_FINGERPRINT = (*_IDENTITY, "engine")
_PARTS: Mapping[str, type | tuple[type, ...]] = {
    "collection": str,
    "installation": str,
    "time": str,
    "plan": dict,
    "fingerprint": dict,
    "vectors": (dict, type(None)),
    "baseline": dict,
    "images": dict,
    "versions": dict,
}
Lock = dict[str, Any]
Document = Mapping[str, Any]


def fingerprint(plan: Mapping[str, Any]) -> dict[str, Any]:
    """The models and what decides which vector a text gets, from the plan's ``verify`` part."""
    reranker = plan.get("reranker") or {}
    return {**{name: plan["embedder"].get(name) for name in _FINGERPRINT}, "reranker": reranker.get("model")}


def parse(text: str) -> Lock:
    """A lock from its file; raises ValueError that says what is wrong with it."""
    try:
        lock = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"it is not JSON ({problem})") from None
    if not isinstance(lock, dict):
        raise ValueError("it does not hold an object")
    if lock.get("schema") != SCHEMA:
        raise ValueError(f"its schema is {lock.get('schema')!r}, and this release reads {SCHEMA}")
    wrong = [name for name, kind in _PARTS.items() if name not in lock or not isinstance(lock[name], kind)]
    if wrong:
        raise ValueError(f"{', '.join(wrong)} {'is' if len(wrong) == 1 else 'are'} missing or of another type")
    try:
        _read_through(lock)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ValueError("its plan, vectors or baseline cannot be read") from None
    return lock


def unreadable(path: str, problem: str) -> Finding:
    """The finding for a lock that is there and cannot be used."""
    return _faults.LOCK_UNREADABLE.finding(f"{path}: {problem}.", variable="rag_report_dir")


def judge(
    lock: Lock | None, unusable: Sequence[Finding], document: dict[str, Any], vectors: Sequence[Mapping[str, str]]
) -> None:
    """Compare a verification with the lock: adds a check, its findings and its measurements to verify.json's content."""
    findings: list[Finding] = list(unusable)
    measured: dict[str, Any] = {}
    skipped: list[str] = []
    if lock is None:
        skipped.append("the lock cannot be read" if unusable else "there was no lock yet")
    else:
        other = _differs(lock["fingerprint"], document["fingerprint"])
        if other:
            skipped.append(f"the lock holds vectors of another {', '.join(other)}")
        elif lock["vectors"] is None or not vectors:
            skipped.append("there are no vectors to compare")
        else:
            findings += _vectors_changed(lock["vectors"], vectors, measured, skipped)
        if not other:
            findings += _quality_dropped(lock["baseline"], document, measured)
    errors = any(finding.severity == ERROR for finding in findings)
    state = "failed" if errors else "warned" if findings else "passed" if measured else "skipped"
    check = {"name": CHECK, "hop": _context.ENGINE, "state": state, "seconds": 0.0, "skipped": skipped}
    document["checks"].append({**check, "findings": [finding.as_dict() for finding in findings]})
    document["findings"] += [finding.as_dict() for finding in findings]
    document["measurements"][CHECK] = measured
    for finding in findings:
        hop = finding.where.get("hop")
        if hop and document["hops"].get(hop) != "failed":
            document["hops"][hop] = "failed" if finding.severity == ERROR else "warned"


def summary(lock: Lock | None) -> dict[str, Any] | None:
    """What the report says of the lock: when its parts were recorded."""
    if lock is None:
        return None
    vectors = lock["vectors"]
    return {
        "proven": lock["time"],
        "vectors": vectors["time"] if vectors else None,
        "texts": len(vectors["rows"]) if vectors else 0,
        "baseline": lock["baseline"]["time"],
    }


def record(
    previous: Lock | None, document: Document, plan: Mapping[str, Any], vectors: Sequence[Mapping[str, str]]
) -> Lock:
    """The lock after a verification without open errors."""
    accepted = {found["id"] for found in document["findings"] if "accepted" in found}
    same = previous is not None and not _differs(previous["fingerprint"], document["fingerprint"])
    kept_vectors = previous["vectors"] if previous and same and _faults.VECTORS_CHANGED.id not in accepted else None
    baseline = _baseline(document)
    old = previous["baseline"] if previous and same and _faults.QUALITY_DROPPED.id not in accepted else None
    return {
        "schema": SCHEMA,
        "collection": document["collection"],
        "installation": document["installation"],
        "time": document["time"],
        "plan": changes.extract(plan),
        "fingerprint": document["fingerprint"],
        "vectors": kept_vectors or ({"time": document["time"], "rows": list(vectors)} if vectors else None),
        "baseline": old if old and _comparable(old, baseline) else baseline,
        "images": document["measurements"].get("container images", {}),
        "versions": document["versions"],
    }


def _read_through(lock: Lock) -> None:
    """Touch everything that is compared later, so that a damaged file fails here."""
    summary(lock)
    changes.compare(lock["plan"], lock["plan"])
    if lock["vectors"] is not None:
        _table(lock["vectors"]["rows"])
    quality = lock["baseline"].get("quality")
    if quality is not None:
        _comparable(lock["baseline"], {"quality": quality})
        for way in ("without", "with"):
            float(quality[way]["ndcg"])


def _table(rows: Sequence[Mapping[str, str]]) -> dict[str, list[float]]:
    return {row["text"]: _vectors.decode_base64(row["vector"]) for row in rows}


def _differs(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    return [name.replace("_", " ") for name in _IDENTITY if before.get(name) != now.get(name)]


def _vectors_changed(
    recorded: Mapping[str, Any], vectors: Sequence[Mapping[str, str]], measured: dict[str, Any], skipped: list[str]
) -> Iterator[Finding]:
    before, now = _table(recorded["rows"]), _table(vectors)
    texts = [text for text in before if text in now and len(before[text]) == len(now[text])]
    if not texts:
        skipped.append("the lock was recorded with other texts")
        return
    lowest = min(_vectors.cosine(before[text], now[text]) for text in texts)
    measured.update(recorded=recorded["time"], texts=len(texts), lowest_cosine=lowest)
    if lowest < SAME_VECTOR:
        message = (
            f"The same text has cosine {lowest:.6f} with its vector of {recorded['time']}; it should be at least "
            f"{SAME_VECTOR}. Vectors that are stored do not belong to this engine any more."
        )
        yield _faults.VECTORS_CHANGED.finding(message, variable="rag_embedder", hop=_context.ENGINE)


def _baseline(document: Document) -> dict[str, Any]:
    relevance = document["measurements"].get("reranking against no reranking", {})
    rows = relevance.get("rows")
    return {
        "time": document["time"],
        "requests": document["requests"],
        "depth": document["depth"],
        "latency": {row["route"]: row["p50"] for row in document["latency"]},
        "quality": {
            "set": relevance["set"],
            "questions": relevance["questions"],
            "passages": relevance["passages"],
            "reranker": document["fingerprint"]["reranker"],
            "without": rows[0]["without"],
            "with": rows[0]["with"],
        }
        if rows
        else None,
    }


def _comparable(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether a baseline still stands: it does when this run measured nothing, or the same thing."""
    old, new = before.get("quality"), now["quality"]
    if new is None:
        return True
    return old is not None and all(old[name] == new[name] for name in ("set", "questions", "passages", "reranker"))


def _quality_dropped(baseline: Mapping[str, Any], document: Document, measured: dict[str, Any]) -> Iterator[Finding]:
    now = _baseline(document)
    if now["quality"] is None or not baseline.get("quality") or not _comparable(baseline, now):
        return
    worse: dict[str, str] = {}
    for way in ("without", "with"):
        before, after = baseline["quality"][way]["ndcg"], now["quality"][way]["ndcg"]
        measured[f"ndcg_{way}_reranker"] = [before, after]
        if after < before - _MARGIN:
            worse[way] = f"{after:.3f} {way} the reranker, and was {before:.3f}"
    if worse:
        message = f"nDCG is {'; it is '.join(worse.values())} on {baseline['time']}."
        # Whoever puts the passages in order first is named.
        embedder, reranker = ("rag_embedder", _context.ENGINE), ("rag_reranker", _context.RERANKER)
        variable, hop = embedder if "without" in worse else reranker
        yield _faults.QUALITY_DROPPED.finding(message, variable=variable, hop=hop)
