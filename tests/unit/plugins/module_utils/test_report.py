# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report: the page renders from every kind of result, and JUnit says what failed."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jinja2
import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _lock, _report

from .rag_stack import Stack, error

TEMPLATE = Path(__file__).resolve().parents[4] / "templates" / "report.html.j2"


def document(change: Any = None, accept: str = "") -> dict[str, Any]:
    stack = Stack()
    if change:
        change(stack)
    result = stack.run()
    vectors = result.pop("reference_vectors")
    content = {
        "installation": "default",
        "collection": "0.1.0",
        "time": "2026-01-02T03:04:05+00:00",
        "fingerprint": _lock.fingerprint(stack.plan),
        **result,
    }
    _lock.judge(None, [], content, vectors)
    if accept:
        for found in [*content["findings"], *(one for check in content["checks"] for one in check["findings"])]:
            found["accepted"] = accept
    content["lock"] = _lock.summary(_lock.record(None, content, {"verify": stack.plan, "hosts": {}}, vectors))
    return content


def page(content: dict[str, Any]) -> str:
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(report=_report.view(content))


def broken(stack: Stack) -> None:
    stack.content_prefix = ""
    stack.stored["retrieval"]["TOP_K"] = "<script>alert(1)</script>"
    stack.any_model = True


def dead(stack: Stack) -> None:
    for host in ("rag-embedder", "rag-litellm", "rag-reranker", "rag-open-webui"):
        for end in ("/v1/embeddings", "/v1/rerank", "/api/config", "/signin", "/info", "/details"):
            for method in ("GET", "POST"):
                stack.replies[(method, host + end)] = error(503, "down")
    stack.store.error = "no route"


def logits(stack: Stack) -> None:
    stack.plan["reranker"].update(kind="cross-encoder", score_range=None)

    def answer(_hop: str, given: dict[str, Any]) -> dict[str, Any]:
        results = [{**one, "relevance_score": 20 * one["relevance_score"] - 9} for one in given["results"]]
        return {**given, "results": results}

    stack.rerank_answer = answer


HEALTHY = document()


@pytest.mark.parametrize("change", [None, broken, dead, logits], ids=["healthy", "broken", "dead", "logits"])
def test_page_renders(change: Any) -> None:
    text = page(document(change))
    assert text.rstrip().endswith("</html>")
    assert "<script" not in text
    assert "http://www.w3.org" not in text
    assert "canary" not in text


def test_page_of_a_healthy_installation() -> None:
    text = page(HEALTHY)
    assert "✓ Proven</h1>" in text
    assert "Document prefix: right" in text
    assert "not those of a cross-encoder" in text
    assert "<h2>Findings</h2>" not in text


def test_page_of_a_broken_installation() -> None:
    text = page(document(broken))
    assert "Not proven: 2 errors open" in text
    assert "Document prefix: missing" in text
    assert "&lt;script&gt;" in text
    assert "PL431" in text


def test_cross_encoder_gets_no_notice() -> None:
    assert "not those of a cross-encoder" not in page(document(logits))


def test_accepted_errors_do_not_stop() -> None:
    content = document(broken, accept="known since spring")
    assert _report.view(content)["verdict"]["title"] == "Proven"
    assert "known since spring" in page(content)
    assert ElementTree.fromstring(_report.junit(content)).get("failures") == "0"


def test_diagram_follows_the_hops() -> None:
    direct = copy.deepcopy(HEALTHY)
    del direct["hops"]["proxy"]
    diagram = _report.view(direct)["diagram"]
    assert [node["label"] for node in diagram["nodes"]] == [
        "Open WebUI",
        "Embedding engine",
        "Reranker",
        "Vector store",
    ]
    assert len(diagram["edges"]) == 3
    assert len(_report.view(HEALTHY)["diagram"]["edges"]) == 4


def test_page_draws_what_was_measured() -> None:
    text = page(HEALTHY)
    assert "<h2>With and without the reranker</h2>" in text
    assert "<h2>Lengths</h2>" in text
    assert "<h2>Limits</h2>" in text
    assert "<h2>Time of an answer</h2>" in text
    report = _report.view(HEALTHY)
    assert [line["name"] for line in report["relevance"]["lines"]] == ["all", "en", "de"]
    assert [mark["state"] for mark in report["lengths"]["marks"]] == [*["passed"] * 4, "skipped"]
    assert [row["what"] for row in report["limits"]] == [
        "one batch of 16 passages of 493 characters (8032 bytes)",
        "a passage of 493 characters: CJK",
        "a passage of 493 characters: URLs",
        "a passage of 493 characters: digits",
    ]
    assert all(row["right"] for row in report["limits"])


def test_histograms_of_times() -> None:
    seconds = [0.0001, 0.001, 0.0099, 0.1, 0.1, 99.0, 1000.0]
    route = {"route": "Open WebUI", "seconds": seconds, "p50": 0.1, "p95": 1000.0, "max": 1000.0}
    latency = _report._latency([route])
    assert latency is not None
    (row,) = latency["rows"]
    # 8 bars a decade of 10.5 each, from 1 ms at 220; what is faster or slower stands in the outermost
    assert [one["x"] for one in row["bars"]] == [220.0, 293.5, 388.0, 629.5]
    assert [one["height"] for one in row["bars"]] == [36.0, 18.0, 36.0, 36.0]
    assert (row["count"], row["p50"], row["p95"], row["middle"]) == (7, "100 ms", "1000.00 s", 388.0)
    assert latency["axis"][-1] == {"x": 640.0, "text": "100 s"}
    assert _report._latency([]) is None


def test_fingerprint_and_lock() -> None:
    text = page(HEALTHY)
    assert "<h2>Fingerprint</h2>" in text
    assert "Its 4 reference vectors are of 2026-01-02T03:04:05+00:00" in text
    rows = {row["name"]: row["text"] for row in _report.view(HEALTHY)["fingerprint"]}
    assert (rows["query prefix"], rows["revision"], rows["dimensions"]) == ("'query: '", "not given", "256")
    assert "Nothing is recorded in a lock yet." in page({**HEALTHY, "lock": None})


def test_drawings_have_titles() -> None:
    text = page(HEALTHY)
    drawings = text.count("<svg ") - text.count('aria-hidden="true"')
    assert drawings == text.count("<title>") - 1 == 8
    assert "<desc>Open WebUI: right; LiteLLM: right; Embedding engine: right; " in text


def test_page_names_the_depth() -> None:
    def quick(stack: Stack) -> None:
        stack.plan["depth"] = "quick"

    text = page(document(quick))
    assert "at depth quick. 15 were not made." in text
    assert "left out by rag_verify_depth: quick; standard makes it" in text


def test_heat_map_shades() -> None:
    cells = _report.view(HEALTHY)["similarity"]["cells"]
    assert {cell["shade"] for cell in cells} >= {0.08, 0.92}
    assert [cell["best"] for cell in cells] == [True, False, False, False, True, False, False, False, True]


def test_rerank_bars_start_at_zero() -> None:
    rerank = _report.view(document(logits))["rerank"]
    assert rerank["bars"][0]["right"]
    for drawn in rerank["bars"]:
        nearest = min(abs(drawn["x"] - rerank["zero"]), abs(drawn["x"] + drawn["width"] - rerank["zero"]))
        assert nearest == pytest.approx(0, abs=0.2)


def test_prefix_axis() -> None:
    (proof, _query) = _report.view(HEALTHY)["prefixes"]
    assert [mark["name"] for mark in proof["marks"] if mark["chosen"]] == ["right"]
    assert proof["marks"][0]["x"] == proof["axis"][0]["x"]  # closer than the axis shows
    assert [tick["power"] for tick in proof["axis"]] == [-8, -6, -4, -2, 0]


def test_junit() -> None:
    suite = ElementTree.fromstring(_report.junit(document(broken)))
    failures = {case.get("name"): case.find("failure") for case in suite if case.find("failure") is not None}
    assert set(failures) == {"database settings", "through Open WebUI"}
    failure = failures["through Open WebUI"]
    assert failure is not None
    assert failure.get("type") == "PL431"
    assert suite.get("tests") == str(len(suite))
    assert suite.get("failures") == "2"


def test_junit_survives_control_characters() -> None:
    content = copy.deepcopy(document(broken))
    content["checks"][4]["findings"][0]["message"] = "bad \x00\x1b byte"
    ElementTree.fromstring(_report.junit(content))
