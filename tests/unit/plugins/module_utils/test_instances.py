# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two engines and two rerankers in one installation: alike, one dead, one that gives something else."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from .rag_stack import Rows, Stack, toy

OTHER = "192.0.2.2"
VECTORS, SCORES = "embedding at every engine", "reranking at every reranker"


class Several(Stack):
    """The stack with a second engine on port 8000 of another host, and a second reranker on 8001."""

    def __init__(self) -> None:
        super().__init__()
        for service, port, path in (("embedder", 8000, "/v1"), ("reranker", 8001, "/v1/rerank")):
            self.plan[service]["instances"] = [
                {"host": "g1", "url": f"http://rag-{service}:8000{path}", "container": f"rag-{service}"},
                {"host": "g2", "url": f"http://{OTHER}:{port}{path}", "container": None},
            ]

    def answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.host != OTHER or OTHER in self.dead:
            return super().answer(request)
        body = json.loads(request.content)
        return self._rerank("other", body) if request.url.path.endswith("rerank") else self._embeddings("other", body)


def found(result: dict[str, Any], name: str) -> list[tuple[str, str]]:
    check = next(check for check in result["checks"] if check["name"] == name)
    return [(one["id"], one["where"]["host"]) for one in check["findings"]]


def elsewhere(change: Callable[[Rows], Rows]) -> Callable[[str, list[str]], Rows]:
    def embed(hop: str, texts: list[str]) -> Rows:
        rows = [toy(text) for text in texts]
        return change(rows) if hop == "other" else rows

    return embed


@pytest.mark.rule("PL407", "PL408", "PL409", fires=False)
def test_engines_that_are_alike() -> None:
    result = Several().run()
    assert result["findings"] == []
    assert result["measurements"][VECTORS] == {"g2": pytest.approx(1.0)}
    assert result["measurements"][SCORES] == {"g2": 0.0}


def test_a_single_engine_is_not_asked_twice() -> None:
    names = {check["name"] for check in Stack().run()["checks"]}
    assert not {VECTORS, SCORES} & names


@pytest.mark.rule("PL407", fires=True)
def test_an_engine_that_is_dead() -> None:
    stack = Several()
    stack.dead.add(OTHER)
    result = stack.run()
    assert found(result, VECTORS) == [("PL407", "g2")]
    assert found(result, SCORES) == [("PL407", "g2")]


@pytest.mark.rule("PL407", fires=True)
@pytest.mark.parametrize("change", [lambda rows: rows[:-1], lambda rows: [row[:8] for row in rows]])
def test_an_engine_that_answers_with_something_else(change: Callable[[Rows], Rows]) -> None:
    stack = Several()
    stack.embed = elsewhere(change)
    assert found(stack.run(), VECTORS) == [("PL407", "g2")]


@pytest.mark.rule("PL408", fires=True)
def test_an_engine_with_other_weights() -> None:
    stack = Several()
    stack.embed = elsewhere(lambda rows: [row[1:] + row[:1] for row in rows])
    assert found(stack.run(), VECTORS) == [("PL408", "g2")]


@pytest.mark.rule("PL409", fires=True)
def test_a_reranker_with_other_weights() -> None:
    stack = Several()

    def answer(hop: str, given: Any) -> Any:
        changed = [{**one, "relevance_score": one["relevance_score"] / 2} for one in given["results"]]
        return {**given, "results": changed} if hop == "other" else given

    stack.rerank_answer = answer
    assert found(stack.run(), SCORES) == [("PL409", "g2")]


@pytest.mark.rule("PL407", fires=True)
def test_a_reranker_that_leaves_documents_out() -> None:
    stack = Several()

    def answer(hop: str, given: Any) -> Any:
        return {**given, "results": given["results"][1:]} if hop == "other" else given

    stack.rerank_answer = answer
    assert found(stack.run(), SCORES) == [("PL407", "g2")]


def test_what_the_first_engine_does_wrong_is_not_held_against_the_second() -> None:
    stack = Several()
    stack.dead.add("rag-embedder")
    result = stack.run()
    assert found(result, VECTORS) == []
    skipped = next(check["skipped"] for check in result["checks"] if check["name"] == VECTORS)
    assert skipped == ["the first engine gives no usable vectors"]
