# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock: what is recorded, when it stays, and what a later run finds against it."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _lock, _vectors

from .installation import resolve
from .rag_stack import PLAN, Stack

ROOT = Path(__file__).resolve().parents[4]
SCHEMA = jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "lock.schema.json").read_text(encoding="utf-8")))
FIRST, LATER = "2026-01-01T00:00:00+00:00", "2026-02-02T00:00:00+00:00"
Rows = list[dict[str, str]]


@functools.cache
def whole_plan() -> dict[str, Any]:
    plan, _findings = resolve()
    assert plan is not None
    return plan


def row(text: str, *numbers: float) -> dict[str, str]:
    return {"text": text, "vector": _vectors.encode_base64(numbers)}


VECTORS = [row("passage: a", 1.0, 0.0), row("query: b", 0.6, 0.8)]
QUALITY = {
    "set": "shipped",
    "questions": 14,
    "passages": 28,
    "rows": [{"name": "all", "without": {"ndcg": 0.9, "recall": 1.0}, "with": {"ndcg": 0.95, "recall": 1.0}}],
}


def document(time: str = LATER, **changes: Any) -> dict[str, Any]:
    """As much of verify.json as the lock reads."""
    content = {
        "collection": "0.1.0",
        "installation": "default",
        "time": time,
        "requests": 180,
        "depth": "standard",
        "hops": {"engine": "passed"},
        "versions": {"open_webui": "0.12.4"},
        "fingerprint": _lock.fingerprint(PLAN),
        "latency": [{"route": "Open WebUI", "p50": 0.05}],
        "measurements": {
            "container images": {"rag-x": {"image": "x:1", "id": "sha256:1", "digests": []}},
            "reranking against no reranking": copy.deepcopy(QUALITY),
        },
        "checks": [],
        "findings": [],
    }
    return {**content, **changes}


LOCK = _lock.record(None, document(FIRST), whole_plan(), VECTORS)


def judged(lock: _lock.Lock | None, vectors: Rows, **changes: Any) -> tuple[dict[str, Any], list[str]]:
    content = document(**changes)
    _lock.judge(lock, [], content, vectors)
    return content, [found["id"] for found in content["findings"]]


def with_quality(without: float, with_: float) -> dict[str, Any]:
    measured = copy.deepcopy(QUALITY)
    measured["rows"][0]["without"]["ndcg"], measured["rows"][0]["with"]["ndcg"] = without, with_
    return {"reranking against no reranking": measured}


def test_what_is_recorded() -> None:
    SCHEMA.validate(LOCK)
    assert _lock.parse(json.dumps(LOCK)) == LOCK
    assert LOCK["time"] == LOCK["vectors"]["time"] == LOCK["baseline"]["time"] == FIRST
    assert LOCK["vectors"]["rows"][0] == {"text": "passage: a", "vector": "AACAPwAAAAA="}
    assert LOCK["fingerprint"]["reranker"] == "toy/overlap"
    assert LOCK["baseline"]["quality"]["with"] == {"ndcg": 0.95, "recall": 1.0}
    assert LOCK["baseline"]["latency"] == {"Open WebUI": 0.05}
    assert LOCK["images"]["rag-x"]["id"] == "sha256:1"
    assert LOCK["plan"]["verify"]["embedder"]["model"] == "intfloat/multilingual-e5-small"
    assert LOCK["plan"]["hosts"]["h1"]["open_webui"] == {"version": "0.12.4"}
    assert "canary" not in json.dumps(LOCK)


def test_a_whole_verification_is_recorded() -> None:
    stack = Stack()
    result = stack.run()
    content = {**document(FIRST), **{name: result[name] for name in ("measurements", "latency", "versions")}}
    lock = _lock.record(None, content, whole_plan(), result["reference_vectors"])
    SCHEMA.validate(lock)
    assert len(lock["vectors"]["rows"]) == 4
    assert lock["baseline"]["quality"]["without"]["ndcg"] == 1.0


@pytest.mark.rule("PL490", "PL491", fires=False)
def test_the_same_again() -> None:
    content, ids = judged(LOCK, VECTORS)
    assert ids == []
    assert content["measurements"][_lock.CHECK] == {
        "recorded": FIRST,
        "texts": 2,
        "lowest_cosine": pytest.approx(1.0),
        "ndcg_without_reranker": [0.9, 0.9],
        "ndcg_with_reranker": [0.95, 0.95],
    }
    assert (content["checks"][0]["state"], content["hops"]) == ("passed", {"engine": "passed"})


@pytest.mark.rule("PL490", fires=True)
def test_other_vectors() -> None:
    content, ids = judged(LOCK, [VECTORS[0], row("query: b", 0.8, 0.6)])
    assert ids == ["PL490"]
    assert "cosine 0.960000 with its vector of 2026-01-01T00:00:00+00:00" in content["findings"][0]["message"]
    assert content["findings"][0]["where"] == {"variable": "rag_embedder", "hop": "engine"}
    assert (content["checks"][0]["state"], content["hops"]) == ("failed", {"engine": "failed"})


@pytest.mark.rule("PL490", fires=False)
@pytest.mark.parametrize(
    ("vectors", "changes", "reason"),
    [
        ([row("query: b", 0.8, 0.6)], {"model": "b/other"}, "the lock holds vectors of another model"),
        ([row("query: b", 0.8, 0.6)], {"document_prefix": ""}, "the lock holds vectors of another document prefix"),
        ([row("query: c", 0.8, 0.6)], {}, "the lock was recorded with other texts"),
        ([], {}, "there are no vectors to compare"),
    ],
)
def test_what_cannot_be_compared_is_said(vectors: Rows, changes: dict[str, Any], reason: str) -> None:
    fingerprint = {**_lock.fingerprint(PLAN), **changes}
    content, ids = judged(LOCK, vectors, fingerprint=fingerprint, measurements={})
    assert ids == []
    assert (content["checks"][0]["state"], content["checks"][0]["skipped"]) == ("skipped", [reason])


def test_another_engine_is_compared() -> None:
    fingerprint = {**_lock.fingerprint(PLAN), "engine": "vllm"}
    assert judged(LOCK, [row("query: b", 0.8, 0.6)], fingerprint=fingerprint)[1] == ["PL490"]


def test_without_a_lock() -> None:
    content, ids = judged(None, VECTORS)
    assert (ids, content["checks"][0]["skipped"]) == ([], ["there was no lock yet"])
    assert _lock.summary(None) is None


@pytest.mark.rule("PL491", fires=True)
@pytest.mark.parametrize(
    ("without", "with_", "hop", "words"),
    [
        (0.9, 0.9, "reranker", "nDCG is 0.900 with the reranker, and was 0.950 on 2026"),
        (0.5, 0.95, "engine", "nDCG is 0.500 without the reranker, and was 0.900 on 2026"),
        (0.5, 0.9, "engine", "0.900; it is 0.900 with the reranker, and was 0.950 on 2026"),
    ],
)
def test_worse_answers(without: float, with_: float, hop: str, words: str) -> None:
    content, ids = judged(LOCK, VECTORS, measurements=with_quality(without, with_))
    assert ids == ["PL491"]
    assert words in content["findings"][0]["message"]
    assert (content["checks"][0]["state"], content["hops"][hop]) == ("warned", "warned")


@pytest.mark.rule("PL491", fires=False)
@pytest.mark.parametrize(("without", "with_"), [(0.89, 0.94), (1.0, 1.0)])
def test_answers_that_are_good_enough(without: float, with_: float) -> None:
    assert judged(LOCK, VECTORS, measurements=with_quality(without, with_))[1] == []


@pytest.mark.rule("PL491", fires=False)
def test_another_set_has_another_baseline() -> None:
    measurements = with_quality(0.1, 0.1)
    measurements["reranking against no reranking"]["set"] = "own.yml"
    content, ids = judged(LOCK, VECTORS, measurements=measurements)
    assert ids == []
    assert _lock.record(LOCK, content, whole_plan(), VECTORS)["baseline"]["time"] == LATER


def test_what_was_recorded_stays() -> None:
    almost = [row("passage: a", 1.0, 0.01), VECTORS[1]]
    lock = _lock.record(LOCK, document(measurements=with_quality(0.89, 0.94)), whole_plan(), almost)
    assert (lock["time"], lock["vectors"], lock["baseline"]) == (LATER, LOCK["vectors"], LOCK["baseline"])
    assert _lock.record(LOCK, document(measurements={}), whole_plan(), [])["baseline"] == LOCK["baseline"]


def test_another_model_is_recorded_anew() -> None:
    fingerprint = {**_lock.fingerprint(PLAN), "model": "b/other"}
    lock = _lock.record(LOCK, document(fingerprint=fingerprint), whole_plan(), [row("query: b", 0.8, 0.6)])
    assert lock["vectors"]["time"] == lock["baseline"]["time"] == LATER
    assert lock["fingerprint"]["model"] == "b/other"
    assert _lock.record(LOCK, document(fingerprint=fingerprint), whole_plan(), [])["vectors"] is None


@pytest.mark.parametrize(("rule", "vectors", "baseline"), [("PL490", LATER, FIRST), ("PL491", FIRST, LATER)])
def test_an_acknowledged_difference_is_recorded(rule: str, vectors: str, baseline: str) -> None:
    accepted = [{"id": rule, "accepted": "re-indexed"}]
    lock = _lock.record(LOCK, document(findings=accepted), whole_plan(), VECTORS)
    assert (lock["vectors"]["time"], lock["baseline"]["time"]) == (vectors, baseline)
    open_ = [{"id": rule}]
    assert _lock.record(LOCK, document(findings=open_), whole_plan(), VECTORS)["vectors"]["time"] == FIRST


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("half a fi", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("[]", "it does not hold an object"),
        ("{}", "its schema is None, and this release reads 1"),
        (json.dumps({**LOCK, "schema": 2}), "its schema is 2"),
        (json.dumps({"schema": 1}), "collection, installation, time, plan, .* are missing or of another type"),
        (json.dumps({**LOCK, "baseline": None}), "baseline is missing or of another type"),
        (json.dumps({**LOCK, "vectors": {}}), "its plan, vectors or baseline cannot be read"),
        (
            json.dumps({**LOCK, "vectors": {"time": FIRST, "rows": [{"text": "a", "vector": "AAA"}]}}),
            "its plan, vectors or",
        ),
        (json.dumps({**LOCK, "vectors": {"time": FIRST, "rows": [7]}}), "its plan, vectors or baseline cannot be read"),
    ],
)
def test_a_broken_lock_says_what_is_wrong(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        _lock.parse(text)


def damaged(value: Any) -> Iterator[Any]:
    """The value with one part after the other replaced or taken away."""
    yield 7
    if isinstance(value, dict):
        for key, part in value.items():
            rest = {name: one for name, one in value.items() if name != key}
            yield rest
            yield from ({**rest, key: wrong} for wrong in damaged(part))
    if isinstance(value, list) and value:
        yield from ([wrong, *value[1:]] for wrong in damaged(value[0]))


def test_no_damage_ends_in_a_traceback() -> None:
    refused = 0
    for lock in damaged(LOCK):
        try:
            read = _lock.parse(json.dumps(lock))
        except ValueError:
            refused += 1
            continue
        content, _ids = judged(read, VECTORS)
        _lock.record(read, content, whole_plan(), VECTORS)
    assert refused > 50


@pytest.mark.rule("PL492", fires=True)
def test_a_broken_lock_is_a_finding() -> None:
    content = document()
    _lock.judge(None, [_lock.unreadable("reports/lock.json", "it is not JSON")], content, VECTORS)
    (found,) = content["findings"]
    assert (found["id"], found["message"]) == ("PL492", "reports/lock.json: it is not JSON.")
    assert (content["checks"][0]["state"], content["checks"][0]["skipped"]) == ("failed", ["the lock cannot be read"])
    assert content["hops"] == {"engine": "passed"}


@pytest.mark.rule("PL492", fires=False)
def test_no_lock_and_a_good_one_are_no_findings() -> None:
    assert judged(None, VECTORS)[1] == judged(LOCK, VECTORS)[1] == []
