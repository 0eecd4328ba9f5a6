# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fault table of verification: every fault, planted in a whole installation, ends in exactly its findings."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from ansible_collections.plumbline.rag.plugins.module_utils._checks import (
    _context,
    _faults,
    _probes,
    _run,
    ingestion,
    limits,
    logs,
    rerank,
    versions,
)

from .rag_stack import DIMENSIONS, MODEL, RERANK_MODEL, SECRETS, Rows, Stack, error, ok, toy, unit

Change = Callable[[Stack], Any]
Finding = tuple[str, str]  # id and hop


def found(result: dict[str, Any]) -> set[Finding]:
    return {(one["id"], one["where"]["hop"]) for one in result["findings"]}


def vectors(hops: tuple[str, ...], change: Callable[[Rows], Rows]) -> Change:
    """Vectors of these hops are changed on their way out."""

    def plant(stack: Stack) -> None:
        stack.embed = lambda hop, texts: (
            change([toy(text) for text in texts]) if hop in hops else [toy(text) for text in texts]
        )

    return plant


def texts(hops: tuple[str, ...], change: Callable[[str], str]) -> Change:
    """Texts are changed before these hops embed them."""

    def plant(stack: Stack) -> None:
        stack.embed = lambda hop, given: [toy(change(text) if hop in hops else text) for text in given]

    return plant


def reranked(hops: tuple[str, ...], change: Callable[[list[dict[str, Any]]], Any]) -> Change:
    """Rerank results of these hops are changed; a list stands for the answer's results."""

    def plant(stack: Stack) -> None:
        def answer(hop: str, given: dict[str, Any]) -> Any:
            if hop not in hops:
                return given
            changed = change(given["results"])
            return {**given, "results": changed} if isinstance(changed, list) else changed

        stack.rerank_answer = answer

    return plant


def scored(change: Callable[[float], Any]) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    return lambda results: [{**one, "relevance_score": change(one["relevance_score"])} for one in results]


def assign(**values: Any) -> Change:
    """Attributes of the stack; a double underscore leads into dictionaries and objects."""

    def plant(stack: Stack) -> None:
        for path, value in values.items():
            target: Any = stack
            *parents, last = path.split("__")
            for parent in parents:
                target = target[parent] if isinstance(target, dict) else getattr(target, parent)
            if isinstance(target, dict):
                target[last] = value
            else:
                setattr(target, last, value)

    return plant


def both(*changes: Change) -> Change:
    def plant(stack: Stack) -> None:
        for change in changes:
            change(stack)

    return plant


def in_batches(change: Callable[[Rows], Rows]) -> Callable[[Rows], Rows]:
    return lambda rows: change(rows) if len(rows) > 1 else rows


def base64_answers(change: Callable[[list[float]], list[float]]) -> Change:
    def plant(stack: Stack) -> None:
        def answer(hop: str, body: dict[str, Any], given: dict[str, Any]) -> Any:
            if hop == "engine" and body.get("encoding_format") == "base64":
                row = given["data"][0]
                return {**given, "data": [{**row, "embedding": change(toy(body["input"][0]))}]}
            return given

        stack.embedding_answer = answer

    return plant


def renumbered(hop: str) -> Change:
    def plant(stack: Stack) -> None:
        def answer(where: str, _body: Any, given: dict[str, Any]) -> Any:
            if where != hop:
                return given
            rows = [{**row, "index": len(given["data"]) - row["index"]} for row in given["data"]]
            return {**given, "data": rows}

        stack.embedding_answer = answer

    return plant


def planets(error_of_first: float, tolerance: float = 0.01, **more: Any) -> Change:
    """A fixture whose first cosine is off by so much; the values are the toy model's own."""
    query, documents = "red planet", ["venus is bright", "mars the red planet"]
    rows = [[sum(a * b for a, b in zip(toy(query), toy(document))) for document in documents]]
    rows[0][0] += error_of_first
    fixture = {"queries": [query], "documents": documents, "cosines": rows, "tolerance": tolerance, **more}
    return assign(plan__embedder__fixtures=[fixture])


def encrypted(stack: Stack) -> None:
    """The store holds its texts encrypted; vectors are not."""
    original = stack.store.chunks

    async def chunks(collections: Any) -> Any:
        found = await original(collections)
        return {
            name: [dataclasses.replace(one, text=None, metadata={}) for one in rows] for name, rows in found.items()
        }

    stack.store.chunks = chunks


def keep_chunks(stack: Stack) -> None:
    """Open WebUI says that it removed the vectors, and did not."""

    async def count(_collections: Any) -> int:
        return 3

    stack.store.count = count


def too_many(results: list[dict[str, Any]]) -> Any:
    return error(413, "batch size 40 > maximum allowed batch size 32") if len(results) > 32 else results


def proxy_model(stack: Stack) -> None:
    """The proxy serves another model under the name; Open WebUI uses it, and the engine is right."""
    stack.embed = lambda hop, given: [toy(f"{text} other" if hop == "proxy" else text) for text in given]


def now_and_then(where: str) -> Change:
    """Some of the calls for the same text reach a server with another model."""

    def plant(stack: Stack) -> None:
        calls = 0

        def embed(hop: str, given: list[str]) -> Rows:
            nonlocal calls
            if hop == where and given == [f"passage: {_probes.PASSAGES[0]}"]:
                calls += 1
                if 8 < calls < 15 and calls % 2:
                    return [toy("another model")]
            return [toy(text) for text in given]

        stack.embed = embed

    return plant


def each_second(where: str) -> Change:
    """Each second request reaches a server with another model."""

    def plant(stack: Stack) -> None:
        calls = 0

        def embed(hop: str, given: list[str]) -> Rows:
            nonlocal calls
            calls += hop == where
            return [toy(f"{text} other" if hop == where and calls % 2 else text) for text in given]

        stack.embed = embed

    return plant


def more_tokens(count: int) -> Change:
    """The engine counts more tokens in each text than the text has."""

    def plant(stack: Stack) -> None:
        def answer(_hop: str, body: dict[str, Any], given: dict[str, Any]) -> Any:
            tokens = given["usage"]["prompt_tokens"] + count * len(body["input"])
            return {**given, "usage": {"prompt_tokens": tokens}}

        stack.embedding_answer = answer

    return plant


def long_texts(where: str, change: Callable[[dict[str, Any]], Any]) -> Change:
    """A hop's answers for long texts are changed."""

    def plant(stack: Stack) -> None:
        def answer(hop: str, body: dict[str, Any], given: dict[str, Any]) -> Any:
            return change(given) if hop == where and max(map(len, body["input"])) > 1000 else given

        stack.embedding_answer = answer

    return plant


def at_once(where: str, change: Callable[[dict[str, Any]], Any]) -> Change:
    """A hop's answers are changed while it has many requests."""

    def plant(stack: Stack) -> None:
        host = {"engine": "rag-embedder", "proxy": "rag-litellm"}[where]

        def answer(hop: str, _body: Any, given: dict[str, Any]) -> Any:
            return change(given) if hop == where and stack.in_flight[host] >= 8 else given

        stack.embedding_answer = answer

    return plant


def mixed_up(given: dict[str, Any]) -> dict[str, Any]:
    return {**given, "data": [{**row, "embedding": row["embedding"][::-1]} for row in given["data"]]}


def of(count: int, change: Callable[[list[dict[str, Any]]], Any]) -> Callable[[list[dict[str, Any]]], Any]:
    """Only answers with so many results are changed."""
    return lambda results: change(results) if len(results) == count else results


def passages(condition: Callable[[list[str]], bool], change: Callable[[dict[str, Any]], Any]) -> Change:
    """The proxy's answers to some lists of texts are changed."""

    def plant(stack: Stack) -> None:
        def answer(hop: str, body: dict[str, Any], given: dict[str, Any]) -> Any:
            return change(given) if hop == "proxy" and condition(body["input"]) else given

        stack.embedding_answer = answer

    return plant


def full(given: list[str]) -> bool:
    return len(given) == 16 and len(given[0]) > 400


def second_open_webui(stack: Stack) -> None:
    replicas = [{"host": "box-2", "url": "http://box-2:3000"}, {"host": "box-3", "url": None}]
    stack.plan["open_webui"]["replicas"] = replicas


def slow(stack: Stack) -> None:
    stack.most_documents = 32


ENGINE, PROXY, WEBUI, STORE, RERANKER = "engine", "proxy", "open_webui", "vector_store", "reranker"
EVERYWHERE = (ENGINE, PROXY)
NAN = float("nan")
NO_HITS = {"distances": [[]], "documents": [[]], "metadatas": [[]]}

FAULTS: dict[str, tuple[set[Finding], Change]] = {
    "Open WebUI below the floor": (
        {("PL401", WEBUI)},
        assign(version="0.11.0", plan__open_webui__version="0.11.0"),
    ),
    "LiteLLM below the floor": (
        {("PL401", PROXY)},
        assign(litellm_version="1.83.7", plan__proxy__version="1.83.7"),
    ),
    "pgvector below the floor": (
        {("PL401", STORE)},
        lambda s: setattr(s.store, "description", dataclasses.replace(s.store.description, pgvector="0.7.4")),
    ),
    "another Open WebUI runs": ({("PL402", WEBUI)}, assign(version="0.12.3")),
    "another LiteLLM runs": ({("PL402", PROXY)}, assign(litellm_version="1.104.0")),
    "no version": ({("PL403", WEBUI)}, assign(version="")),
    "LiteLLM keeps its version": (
        {("PL403", PROXY)},
        assign(replies={("GET", "/health/readiness/details"): error(404, "Not Found")}),
    ),
    "another image": ({("PL410", WEBUI)}, assign(image="open-webui:0")),
    "an older image of the same name": ({("PL410", WEBUI)}, assign(named_id="sha256:2")),
    "a further Open WebUI with an old setting": (
        {("PL418", WEBUI)},
        both(second_open_webui, assign(replies={("GET", "box-2/api/v1/retrieval/config"): ok({"TOP_K": 3})})),
    ),
    "a further Open WebUI of another version": (
        {("PL418", WEBUI)},
        both(second_open_webui, assign(replies={("GET", "box-2/api/config"): ok({"version": "0.12.3"})})),
    ),
    "stored model": ({("PL411", WEBUI)}, assign(stored__embedding__RAG_EMBEDDING_MODEL="other")),
    "stored top_k": ({("PL411", WEBUI)}, assign(stored__retrieval__TOP_K=3)),
    "stored key": ({("PL411", WEBUI)}, assign(stored__embedding__openai_config__key="sk-canary-other")),
    "stored hybrid": ({("PL411", WEBUI)}, assign(stored__retrieval__ENABLE_RAG_HYBRID_SEARCH=False)),
    "blank lost in the environment": ({("PL412", WEBUI)}, assign(environment__RAG_EMBEDDING_QUERY_PREFIX="query:")),
    "variable missing": ({("PL412", WEBUI)}, lambda s: s.environment.pop("RAG_EMBEDDING_CONTENT_PREFIX")),
    "field name set": ({("PL412", WEBUI)}, assign(environment__RAG_EMBEDDING_PREFIX_FIELD_NAME="")),
    "sign-up open": ({("PL413", WEBUI)}, assign(stored__admin__ENABLE_SIGNUP=True)),
    "engine open": ({("PL414", ENGINE)}, assign(open_hops={ENGINE})),
    "proxy open": ({("PL414", PROXY)}, assign(open_hops={PROXY})),
    "reranker open": ({("PL414", RERANKER)}, assign(open_hops={RERANKER})),
    "not slim": ({("PL415", WEBUI)}, assign(features={"slim": False})),
    "wrong password": ({("PL416", WEBUI)}, assign(replies={("POST", "/signin"): error(400, "incorrect")})),
    "password sign-in off": ({("PL416", WEBUI)}, assign(replies={("POST", "/signin"): error(403, "prohibited")})),
    "multi-factor sign-in": ({("PL416", WEBUI)}, assign(signin={"next_step": "verify"})),
    "not an administrator": ({("PL416", WEBUI)}, assign(signin={"token": "a-token", "role": "user"})),
    "no administrator yet": ({("PL417", WEBUI)}, assign(public={"onboarding": True})),
    "engine drops a vector": ({("PL420", ENGINE)}, vectors((ENGINE,), in_batches(lambda rows: rows[1:]))),
    "proxy drops a vector": ({("PL420", PROXY)}, vectors((PROXY,), in_batches(lambda rows: rows[1:]))),
    "proxy doubles a vector": ({("PL420", PROXY)}, vectors((PROXY,), in_batches(lambda rows: [*rows, rows[0]]))),
    "engine fails": (
        {("PL421", ENGINE)},
        assign(replies={("POST", "rag-embedder/v1/embeddings"): error(500, "broken")}),
    ),
    "proxy fails": (
        {("PL421", PROXY)},
        assign(replies={("POST", "rag-litellm/v1/embeddings"): error(429, "cooldown")}),
    ),
    "proxy answers HTML": (
        {("PL421", PROXY)},
        assign(replies={("POST", "rag-litellm/v1/embeddings"): httpx.Response(200, html="<html></html>")}),
    ),
    "a null among the vectors": ({("PL438", PROXY)}, vectors((PROXY,), lambda rows: [None, *rows[1:]])),
    "wrong dimension": ({("PL422", ENGINE)}, assign(plan__embedder__dimensions=2 * DIMENSIONS)),
    "not normalised": (
        {("PL423", ENGINE)},
        vectors(EVERYWHERE, lambda rows: [[3 * number for number in row] for row in rows]),
    ),
    "engine reverses": ({("PL424", ENGINE)}, vectors(EVERYWHERE, in_batches(lambda rows: rows[::-1]))),
    "proxy reverses": ({("PL424", PROXY)}, vectors((PROXY,), in_batches(lambda rows: rows[::-1]))),
    "proxy numbers wrongly": ({("PL424", PROXY)}, renumbered("proxy")),
    "batch changes vectors": (
        {("PL425", ENGINE)},
        vectors(EVERYWHERE, in_batches(lambda rows: [unit([row[0] + 0.2, *row[1:]]) for row in rows])),
    ),
    "proxy serves another model": ({("PL426", PROXY)}, proxy_model),
    "any model name": ({("PL427", ENGINE)}, assign(any_model=True)),
    "reference missed": ({("PL429", ENGINE)}, planets(0.02)),
    "leading numbers missed": ({("PL429", ENGINE)}, planets(0.0, leading=[9.0])),
    "prefix dropped": (
        {("PL430", ENGINE)},
        texts(EVERYWHERE, lambda text: text.replace("passage: ", "").replace("query: ", "")),
    ),
    "content prefix missing": ({("PL431", WEBUI)}, assign(content_prefix="")),
    "query prefix missing": ({("PL431", WEBUI)}, assign(query_prefix="")),
    "prefixes exchanged": ({("PL432", WEBUI)}, assign(content_prefix="query: ", query_prefix="passage: ")),
    "blank lost": ({("PL433", WEBUI)}, assign(content_prefix="passage:")),
    "query blank lost": ({("PL433", WEBUI)}, assign(query_prefix="query:")),
    "literal newline": (
        {("PL434", WEBUI)},
        assign(
            plan__embedder__query_prefix="Instruct: find\nQuery: ",
            query_prefix="Instruct: find\\nQuery: ",
        ),
    ),
    "quotes kept": ({("PL434", WEBUI)}, assign(content_prefix='"passage: "')),
    "single quotes kept": ({("PL434", WEBUI)}, assign(query_prefix="'query: '")),
    "content prefix twice": ({("PL435", WEBUI)}, assign(content_prefix="passage: passage: ")),
    "query prefix twice": ({("PL435", WEBUI)}, assign(query_prefix="query: query: ")),
    "another prefix": ({("PL436", WEBUI)}, assign(content_prefix="search_document: ")),
    "encrypted texts": ({("PL437", STORE)}, encrypted),
    "zero vector": ({("PL438", ENGINE)}, vectors((ENGINE,), lambda rows: [[0.0] * DIMENSIONS, *rows[1:]])),
    "not a number": ({("PL438", PROXY)}, vectors((PROXY,), lambda rows: [[NAN] * DIMENSIONS, *rows[1:]])),
    "blind reference": ({("PL439", ENGINE)}, planets(0.0, tolerance=2.0)),
    "base64 differs": ({("PL440", ENGINE)}, base64_answers(lambda row: row[::-1])),
    "reranker fails": ({("PL441", RERANKER)}, reranked((RERANKER,), lambda _results: error(500, "out of memory"))),
    "proxy has no rerank route": ({("PL441", PROXY)}, reranked((PROXY,), lambda _results: error(404, "Not Found"))),
    "bare list": (
        {("PL442", RERANKER)},
        reranked((RERANKER,), lambda results: ok([{"index": r["index"], "score": 0.5} for r in results])),
    ),
    "score instead of relevance_score": (
        {("PL442", PROXY)},
        reranked((PROXY,), lambda results: [{"index": r["index"], "score": 0.5} for r in results]),
    ),
    "result missing": ({("PL443", RERANKER)}, reranked((RERANKER,), lambda results: results[:-1])),
    "result twice": ({("PL443", PROXY)}, reranked((PROXY,), lambda results: [results[0], *results[:-1]])),
    "inverted": (
        {("PL444", RERANKER)},
        reranked((RERANKER,), scored(lambda score: -score)),
    ),
    "all equal": ({("PL445", RERANKER)}, reranked((RERANKER,), scored(lambda _score: 0.5))),
    "logits": ({("PL446", RERANKER)}, reranked((RERANKER,), scored(lambda score: 20 * score))),
    "batch refused": ({("PL447", PROXY)}, reranked((PROXY,), too_many)),
    "batch cut": ({("PL443", PROXY)}, reranked((PROXY,), lambda results: results[:32])),
    "scores as text": ({("PL448", RERANKER)}, reranked((RERANKER,), scored(str))),
    "null score": ({("PL448", PROXY)}, reranked((PROXY,), scored(lambda _score: None))),
    "null scores that break the search": (
        {("PL448", PROXY)},
        both(
            reranked((PROXY,), scored(lambda _score: None)),
            assign(replies={("POST", "/query/collection"): error(400, "Error querying knowledge base")}),
        ),
    ),
    "proxy serves another reranker": ({("PL449", PROXY)}, reranked((PROXY,), scored(lambda score: score / 2))),
    "now and then another model": ({("PL462", ENGINE)}, now_and_then(ENGINE)),
    "now and then another model at the proxy": ({("PL462", PROXY)}, now_and_then(PROXY)),
    "mixed up at once": ({("PL463", ENGINE)}, at_once(ENGINE, mixed_up)),
    "mixed up at once by the proxy": ({("PL463", PROXY)}, at_once(PROXY, mixed_up)),
    "refused at once": ({("PL464", ENGINE)}, at_once(ENGINE, lambda _given: error(429, "Model is overloaded"))),
    "short engine": ({("PL465", ENGINE)}, assign(max_tokens=200)),
    "engine adds a prompt": ({("PL482", ENGINE)}, more_tokens(5)),
    "never the same vector": ({("PL462", ENGINE)}, each_second(ENGINE)),
    "never the same vector at the proxy": ({("PL462", PROXY)}, each_second(PROXY)),
    "short proxy": ({("PL465", PROXY)}, long_texts(PROXY, lambda _given: error(413, "too large"))),
    "silently cut by the proxy": ({("PL466", PROXY)}, texts((PROXY,), lambda text: " ".join(text.split()[:100]))),
    "silently cut": ({("PL466", ENGINE)}, texts((ENGINE,), lambda text: " ".join(text.split()[:100]))),
    "cut past the limit": ({("PL467", ENGINE)}, assign(max_tokens=None)),
    "refused past the limit": ({("PL467", ENGINE)}, assign(plan__embedder__truncates=True)),
    "empty document refused": ({("PL468", RERANKER)}, assign(refuse_empty=True)),
    "scores lean on others": ({("PL469", PROXY)}, reranked((PROXY,), of(4, scored(lambda score: 2 * score)))),
    "long document refused": ({("PL470", RERANKER)}, assign(longest_document=512, plan__reranker__truncates=True)),
    "slow reranker": ({("PL473", RERANKER)}, slow),
    "weak reranker": ({("PL474", RERANKER)}, reranked((PROXY,), of(10, scored(lambda score: -score)))),
    "wrong in another language": (
        {("PL444", PROXY), ("PL469", PROXY)},
        reranked((PROXY,), of(4, scored(lambda score: -score))),
    ),
    "full batch refused": ({("PL493", PROXY)}, passages(full, lambda _given: error(413, "length limit exceeded"))),
    "full batch loses a vector": (
        {("PL420", PROXY)},
        passages(full, lambda given: {**given, "data": given["data"][1:]}),
    ),
    "URLs refused": (
        {("PL494", PROXY)},
        passages(lambda given: "://" in given[0], lambda _given: error(400, "maximum context length is 512 tokens")),
    ),
    "full passages at once refused": (
        {("PL464", PROXY)},
        passages(lambda given: full(given) or "://" in given[0], lambda _given: error(429, "Model is overloaded")),
    ),
    "logged": ({("PL481", WEBUI)}, assign(log="12:00 | ERROR | Error in external reranking: what a user asked")),
    "file not processed": ({("PL451", WEBUI)}, assign(process_error="503: Configure PGVECTOR_DB_URL")),
    "upload refused": ({("PL451", WEBUI)}, assign(replies={("POST", "/api/v1/files/"): error(413, "too large")})),
    "knowledge refused": ({("PL452", WEBUI)}, assign(replies={("POST", "/knowledge/create"): error(400, "refused")})),
    "wrong passage first": ({("PL453", WEBUI)}, assign(search_order=lambda hits: hits[::-1])),
    "nothing found": ({("PL453", WEBUI)}, assign(search_order=lambda _hits: [])),
    "nothing found in a chat": (
        {("PL453", WEBUI)},
        assign(plan__depth="quick", replies={("POST", "/query/collection"): ok(NO_HITS)}),
    ),
    "another model noted": ({("PL454", WEBUI)}, assign(noted_model="other/model")),
    "another store": ({("PL455", STORE)}, assign(store__empty=True)),
    "narrow column": ({("PL456", STORE)}, assign(store__width=DIMENSIONS // 2)),
    "fused ranks": ({("PL457", WEBUI)}, assign(chat_scores=lambda _scores: [1 / 61, 1 / 62, 1 / 63])),
    "null scores": ({("PL457", WEBUI)}, assign(chat_scores=lambda _scores: [None, None, None])),
    "an old reranker answers": ({("PL458", WEBUI)}, assign(chat_scores=lambda scores: [s + 0.1 for s in scores])),
    "search fails": ({("PL459", WEBUI)}, assign(replies={("POST", "/query/doc"): error(400, "Error querying")})),
    "search answers null": ({("PL459", WEBUI)}, assign(replies={("POST", "/query/collection"): ok(None)})),
    "files stay": ({("PL461", WEBUI)}, assign(replies={("DELETE", "/delete"): error(500, "broken")})),
    "chunks stay": ({("PL461", STORE)}, keep_chunks),
    "store unreachable": ({("PL471", STORE)}, assign(store__error="PostgreSQL at rag-postgres:5432: refused")),
    "engine is down": ({("PL497", ENGINE)}, assign(dead={"rag-embedder"})),
    "proxy is down": ({("PL497", PROXY)}, assign(dead={"rag-litellm"})),
    "reranker is down": ({("PL497", RERANKER)}, assign(dead={"rag-reranker"})),
    "Open WebUI is down": ({("PL497", WEBUI)}, assign(dead={"rag-open-webui"})),
    "no vector extension": (
        {("PL472", STORE)},
        lambda s: setattr(s.store, "description", dataclasses.replace(s.store.description, pgvector=None)),
    ),
}


@pytest.mark.parametrize(
    ("expected", "plant"),
    [
        pytest.param(expected, plant, id=name, marks=pytest.mark.rule(*{i for i, _hop in expected}, fires=True))
        for name, (expected, plant) in FAULTS.items()
    ],
)
def test_fault(expected: set[Finding], plant: Change) -> None:
    stack = Stack()
    plant(stack)
    result = stack.run()
    assert found(result) == expected, [one["message"] for one in result["findings"]]


# What the controller finds when it compares with the lock.
LOCK_RULES = {"PL490", "PL491", "PL492"}


@pytest.mark.rule(*sorted(set(_faults.RULES) - LOCK_RULES), fires=False)
def test_healthy() -> None:
    stack = Stack()
    planets(0.0)(stack)
    result = stack.run(budget=_run.BUDGETS["standard"])
    assert result["findings"] == []
    assert set(result["hops"].values()) == {"passed"}
    assert result["requests"] < 180
    measured = result["measurements"]["through Open WebUI"]
    assert measured["document_prefix"]["verdict"] == "right"
    assert measured["document_prefix"]["distances"]["right"] == pytest.approx(0.0, abs=1e-12)
    assert measured["query_prefix"]["distances"]["missing"] > 0.01
    assert result["versions"]["open_webui"] == "0.12.4"


def test_quick_says_what_it_leaves_out() -> None:
    stack = Stack()
    planets(0.0)(stack)
    stack.plan["depth"] = "quick"
    result = stack.run(budget=_run.BUDGETS["quick"])
    assert result["findings"] == []
    assert (result["depth"], result["budget"]) == ("quick", 100)
    left_out = {check["name"]: check["skipped"] for check in result["checks"] if check["state"] == "skipped"}
    assert set(left_out) == {
        "embedding again and at once",
        "again and at once through the proxy",
        "lengths of texts",
        "configured limits",
        "a long text through the proxy",
        "reranking at the edges",
        "reranking in other languages",
        "reranking against no reranking",
        "recall of the index",
        "models of the rows",
        "a memory",
        "files that must be refused",
        "a user without rights",
    }
    assert left_out["lengths of texts"] == ["left out by rag_verify_depth: quick; standard makes it"]


def test_further_containers_of_open_webui() -> None:
    stack = Stack()
    second_open_webui(stack)
    result = stack.run()
    assert result["findings"] == []
    (check,) = [check for check in result["checks"] if check["name"] == "further containers of Open WebUI"]
    assert check["skipped"] == ["Open WebUI on box-3 is published on its own host only (rag_open_webui_address)"]
    FAULTS["a further Open WebUI with an old setting"][1](stack)
    (finding,) = stack.run()["findings"]
    assert finding["message"].startswith("Open WebUI on box-2 differs from the plan in TOP_K, TOP_K_RERANKER, ")
    assert finding["where"]["host"] == "box-2"


def test_limits_are_measured() -> None:
    result = Stack().run()
    measured = result["measurements"]["configured limits"]
    # 16 passages of 493 characters and their prefix
    full_batch = {name: measured["full_batch"][name] for name in ("texts", "characters", "bytes", "status")}
    assert full_batch == {"texts": 16, "characters": 493, "bytes": 16 * 502, "status": 200}
    assert [(row["kind"], row["status"]) for row in measured["dense"]] == [("CJK", 200), ("URLs", 200), ("digits", 200)]


def test_limits_of_other_plans() -> None:
    stack = Stack()
    stack.plan["open_webui"]["settings"]["retrieval"]["TEXT_SPLITTER"] = "token"
    stack.plan["open_webui"]["settings"]["retrieval"]["CHUNK_SIZE"] = 100
    stack.stored["retrieval"].update(TEXT_SPLITTER="token", CHUNK_SIZE=100)
    result = stack.run()
    assert result["findings"] == []
    measured = result["measurements"]["configured limits"]
    assert (measured["full_batch"]["characters"], measured["dense"]) == (400, [])
    (check,) = [check for check in result["checks"] if check["name"] == "configured limits"]
    assert check["skipped"] == ["dense passages: rag_text_splitter measures them in tokens of another model"]


@pytest.mark.parametrize(("configured", "at_once"), [(1, 1), (2, 2), (4, 4), (0, 4)])
def test_no_more_at_once_than_open_webui_sends(configured: int, at_once: int) -> None:
    stack = Stack()
    stack.plan["open_webui"]["settings"]["embedding"]["RAG_EMBEDDING_CONCURRENT_REQUESTS"] = configured
    original, seen = stack.answer, []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(stack.in_flight["rag-litellm"])
        return original(request)

    stack.answer = answer

    async def alone() -> _context.Outcome:
        async with stack.http() as http:
            return await limits.limits(_context.Context(stack.plan, SECRETS, http, {}, None, None), {})

    assert asyncio.run(alone()).findings == []
    assert (len(seen), max(seen)) == (4, at_once)


def test_latency_and_reference_vectors() -> None:
    result = Stack().run()
    routes = {row["route"]: row for row in result["latency"]}
    assert list(routes) == [
        "embedding at the engine",
        "reranking through the proxy",
        "embedding through the proxy",
        "reranking at the reranker",
        "Open WebUI",
    ]
    for row in routes.values():
        assert row["p50"] <= row["p95"] <= row["max"] == row["seconds"][-1]
    texts = [row["text"] for row in result["reference_vectors"]]
    assert texts == [
        f"passage: {_probes.PASSAGES[0]}",
        f"query: {_probes.QUESTIONS[0]}",
        _probes.PASSAGES[0],
        _probes.QUESTIONS[0],
    ]


def test_long_models_are_not_swept_to_their_limit() -> None:
    for depth, reach in (("standard", 2048), ("deep", 9000)):
        stack = Stack()
        stack.max_tokens = 4500
        stack.plan["depth"] = depth
        stack.plan["embedder"]["max_input_tokens"] = stack.plan["reranker"]["max_input_tokens"] = 4500
        result = stack.run()
        assert result["findings"] == []
        sent = max(len(body["input"][0].split()) for _m, path, body in stack.sent if path.endswith("embeddings"))
        assert reach / 2 < sent < reach
        reasons = [reason for check in result["checks"] for reason in check["skipped"]]
        assert any("lengths above 2048 of 4500 tokens" in reason for reason in reasons) is (depth == "standard")


def test_lengths_that_cannot_be_told_are_not_checked() -> None:
    stack = Stack()
    stack.embedding_answer = lambda _hop, _body, given: {**given, "usage": None}
    result = stack.run()
    assert result["findings"] == []
    (check,) = [check for check in result["checks"] if check["name"] == "lengths of texts"]
    assert (check["state"], check["skipped"]) == ("skipped", ["the engine does not say how many tokens it reads"])


def test_models_of_one_language_are_asked_in_it() -> None:
    stack = Stack()
    planets(0.0)(stack)
    stack.plan["reranker"]["languages"] = ["ja"]
    result = stack.run()
    skipped = {check["name"] for check in result["checks"] if check["state"] == "skipped"}
    assert skipped == {
        "reranking in other languages",
        "reranking against no reranking",
        "files that must be refused",
        "a user without rights",
    }


def test_a_weak_cosine_is_no_news() -> None:
    for kind, severity in (("cosine", "note"), ("cross-encoder", "error")):
        stack = Stack()
        stack.plan["reranker"]["kind"] = kind
        FAULTS["weak reranker"][1](stack)
        (finding,) = stack.run()["findings"]
        assert finding["severity"] == severity
        assert "with the reranker and 1.000 without it" in finding["message"]


def test_almost_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rerank, "_SHARE_OF_TIMEOUT", 0.0)
    (finding,) = Stack().run()["findings"]
    assert (finding["id"], finding["severity"]) == ("PL473", "warning")
    assert "Open WebUI waits 30 s" in finding["message"]


def test_logs_are_counted_and_not_shown() -> None:
    stack = Stack()
    stack.log = "ERROR | Error in external reranking: who is Ada\n" * 3
    (finding,) = stack.run()["findings"]
    assert finding["message"] == "The log of rag-open-webui says 3 times that a rerank request failed."


LOG_LINES = {
    "embeddings generated 7 for 8 items": "passages and vectors differ in number",
    "Failed to process 3 files": "a re-index lost files",
    "2026-01-01 | ERROR | open_webui.routers.retrieval:save_docs_to_vector_db:1 - timeout": "a file was not embedded",
    "No deployments available for selected model": "the proxy had no engine to send a request to",
    '{"error":"Model is overloaded"}': "requests were refused because too many came at once",
}


@pytest.mark.parametrize(("line", "meaning"), LOG_LINES.items())
def test_log_lines(line: str, meaning: str) -> None:
    signs = (*logs.OPEN_WEBUI, *logs.PROXY, *logs.ENGINE)
    (finding,) = logs.judge([line, "embeddings generated 8 for 8 items"], signs, "rag-x", "proxy")
    assert finding.message == f"The log of rag-x says once that {meaning}."


@pytest.mark.rule("PL428", fires=True)
def test_null_encoding_format() -> None:
    stack = Stack()
    original = stack.answer

    def answer(request: Any) -> Any:
        if request.url.host == "rag-embedder" and b'"encoding_format":null' in request.content.replace(b" ", b""):
            return error(500, "internal error")
        return original(request)

    stack.answer = answer
    assert found(stack.run()) == {("PL428", "engine")}


@pytest.mark.rule("PL498", fires=True)
def test_budget() -> None:
    stack = Stack()
    assert "PL498" in {rule_id for rule_id, _hop in found(stack.run(budget=45))}
    assert (stack.files, stack.knowledge) == ({}, {})  # cleaning is not bounded


@pytest.mark.rule("PL499", fires=True)
def test_a_broken_check_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(_context: Any, _before: Any) -> Any:
        raise KeyError("canary-password")

    monkeypatch.setattr(versions, "engines", broken)
    result = Stack().run()
    (finding,) = result["findings"]
    assert (finding["id"], finding["where"]["hop"]) == ("PL499", "engine")
    assert "engine information: KeyError" in finding["message"]
    assert "canary" not in finding["message"]


@pytest.mark.parametrize("host", ["rag-embedder", "rag-litellm", "rag-reranker", "rag-open-webui"])
def test_a_dead_service_is_named_once(host: str) -> None:
    stack = Stack()
    stack.dead = {host}
    (finding,) = stack.run()["findings"]
    assert f"http://{host}:" in finding["message"]


def test_what_may_only_follow_is_not_judged() -> None:
    stack = Stack()
    proxy_model(stack)
    result = stack.run()
    assert result["hops"]["open_webui"] == "skipped"
    (check,) = [check for check in result["checks"] if check["name"] == "through Open WebUI"]
    assert check["state"] == "skipped"
    assert any(
        text.startswith("PL436 may only follow from PL426 (proxy): The stored vectors") for text in check["skipped"]
    )


def test_what_follows_from_an_acknowledged_finding_is_a_finding() -> None:
    stack = Stack()
    stack.accepted = ("PL426",)
    proxy_model(stack)
    assert found(stack.run()) == {("PL426", "proxy"), ("PL436", "open_webui")}


def test_ui_owner_gets_a_warning() -> None:
    stack = Stack()
    assign(stored__retrieval__TOP_K=3, plan__open_webui__config_owner="ui")(stack)
    (finding,) = stack.run()["findings"]
    assert (finding["id"], finding["severity"]) == ("PL411", "warning")
    assert finding["message"] == "TOP_K is 3 in Open WebUI's database; the plan has 20."
    assert finding["where"]["variable"] == "rag_top_k"


def test_messages_show_bytes() -> None:
    stack = Stack()
    stack.environment["RAG_EMBEDDING_QUERY_PREFIX"] = "query:"
    (finding,) = stack.run()["findings"]
    assert "b'query:'" in finding["message"]
    assert "b'query: '" in finding["message"]


def test_prefix_message() -> None:
    stack = Stack()
    stack.content_prefix = ""
    (finding,) = stack.run()["findings"]
    assert finding["message"] == (
        "From the stored vectors of the uploaded passages, the document prefix is missing; it should be 'passage: '."
    )
    assert finding["where"] == {"hop": "open_webui", "variable": "rag_embedder_document_prefix"}


@pytest.mark.parametrize("removed", ["proxy", "reranker", "vector_store"])
def test_smaller_installations(removed: str) -> None:
    stack = Stack()
    stack.plan[removed] = None
    if removed == "reranker":
        stack.plan["open_webui"].update(rerank_url=None, rerank_model=None)
    if removed == "proxy":
        stack.plan["open_webui"].update(
            rerank_url=stack.plan["reranker"]["url"], rerank_key_secret="reranker_api_key", embedding_base_url="unused"
        )
    result = stack.run()
    assert result["findings"] == []
    assert removed not in result["hops"]


def test_tei_without_a_proxy_speaks_another_dialect() -> None:
    stack = Stack()
    stack.plan["proxy"] = None
    url = "http://rag-reranker:8000/rerank"
    stack.plan["reranker"].update(engine="tei", url=url)
    stack.plan["open_webui"].update(rerank_url=url, rerank_key_secret="reranker_api_key")

    original = stack.answer

    def tei(request: Any) -> Any:
        if (
            request.url.host != "rag-reranker"
            or request.url.path != "/rerank"
            or "authorization" not in request.headers
        ):
            return original(request)
        body = json.loads(request.content)
        if "texts" not in body:
            return error(422, "Failed to deserialize the JSON body: missing field `texts`")
        scores = stack.scores(body["query"], body["texts"])
        return ok([{"index": index, "score": score} for index, score in enumerate(scores)])

    stack.answer = tei
    assert found(stack.run()) == {("PL441", "reranker")}


def test_open_webui_gets_its_own_payload() -> None:
    stack = Stack()
    stack.run()
    documents, _right = _probes.rerank_documents()
    sent = [body for _method, path, body in stack.sent if path == "/v1/rerank" and len(body["documents"]) == 5]
    bodies = [body for body in sent if body["documents"][0] == documents[0]]
    assert {json.dumps(body, sort_keys=True) for body in bodies} == {
        json.dumps(
            {"model": RERANK_MODEL, "query": _probes.QUESTIONS[0], "documents": documents, "top_n": 5}, sort_keys=True
        )
    }
    assert any(len(body["documents"]) == 40 for _m, path, body in stack.sent if path == "/v1/rerank")


def test_one_sign_in() -> None:
    stack = Stack()
    stack.run()
    assert sum(path.endswith("/signin") for _method, path, _body in stack.sent) == 1


def test_everything_is_removed() -> None:
    stack = Stack()
    stack.files["old"] = (f"{_probes.NAME}-0.txt", "left by an interrupted run")
    stack.files["theirs"] = ("report.txt", "the operator's")
    stack.run()
    assert list(stack.files) == ["theirs"]
    assert stack.knowledge == {}
    assert stack.collections == {}


@pytest.mark.parametrize("end", ["/knowledge/create", "/files/", "/query/doc", "/query/collection", "/memories/query"])
def test_everything_is_removed_after_a_failure(end: str) -> None:
    stack = Stack()
    stack.replies[("POST", end)] = error(500, "broken")
    stack.run()
    assert (stack.files, stack.knowledge, stack.collections) == ({}, {}, {})


def test_everything_is_removed_after_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = Stack()

    async def interrupted() -> None:
        running = asyncio.ensure_future(stack._run(0))
        original = ingestion._Ingestion._ask_plain

        async def hang(walk: Any) -> Any:
            running.cancel()
            await asyncio.sleep(60)
            return await original(walk)

        monkeypatch.setattr(ingestion._Ingestion, "_ask_plain", hang)
        await running

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(interrupted())
    assert (stack.files, stack.knowledge, stack.collections) == ({}, {}, {})


def test_no_secret_in_the_result() -> None:
    stack = Stack()
    leak = " ".join(SECRETS.values())
    for end in ("rag-embedder/v1/embeddings", "rag-litellm/v1/rerank", "/api/v1/files/", "/api/config"):
        for method in ("GET", "POST"):
            stack.replies[(method, end)] = error(500, leak)
    stack.store.error = "store"
    text = json.dumps(stack.run())
    assert "canary" not in text
    assert "********" in text


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([0.01639, 0.0161], True),
        ([None, None], True),
        ([0.9, None], True),
        ([0.9, 0.1], False),
        ([0.0165], False),
        ([-4.2, -7.0], False),
        ([0.01, -0.3], False),
        ([], False),
    ],
)
def test_is_fallback(scores: list[float | None], expected: bool) -> None:
    assert ingestion.is_fallback(scores) is expected


def test_toy_model_tells_probes_apart() -> None:
    """The table above rests on this."""
    for position, question in enumerate(_probes.QUESTIONS):
        cosines = [math.fsum(a * b for a, b in zip(toy(question), toy(passage))) for passage in _probes.PASSAGES]
        assert max(range(3), key=cosines.__getitem__) == position
    assert MODEL.startswith("toy/")
