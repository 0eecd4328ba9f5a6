# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP client: what it tries again, how it finds containers, and that nothing secret leaves it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _http

SECRET = "sk-canary-0123"
Answer = Callable[[httpx.Request], httpx.Response]


def get(answer: Answer, url: str = "http://svc:1/path", **options: Any) -> _http.Reply:
    async def ask() -> _http.Reply:
        settings = {"secrets": [SECRET], "transport": httpx.MockTransport(answer), **options}
        async with _http.Http(**settings) as http:
            return await http.request("GET", url, key=SECRET)

    return asyncio.run(ask())


def fail(error: Exception) -> tuple[Answer, list[httpx.Request]]:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        raise error

    return answer, seen


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def sleep(_seconds: float) -> None:
        return None

    monkeypatch.setattr(_http.asyncio, "sleep", sleep)


@pytest.mark.parametrize(
    ("error", "attempts", "text"),
    [
        (httpx.ConnectError("refused"), 3, "^http://svc:1 cannot be reached: refused"),
        (httpx.ConnectTimeout(""), 3, "^http://svc:1 cannot be reached: ConnectTimeout"),
        (httpx.ReadTimeout("slow"), 1, "^GET http://svc:1/path did not answer in time: slow"),
        (httpx.RemoteProtocolError("closed"), 1, "^GET http://svc:1/path failed: closed"),
    ],
)
def test_only_connections_are_tried_again(error: Exception, attempts: int, text: str) -> None:
    answer, seen = fail(error)
    with pytest.raises(_http.ServiceError, match=text):
        get(answer)
    assert len(seen) == attempts


def test_a_second_connection_may_succeed() -> None:
    answers = iter([httpx.ConnectError("refused"), httpx.Response(200, json={})])

    def answer(_request: httpx.Request) -> httpx.Response:
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    assert get(answer).ok


@pytest.mark.parametrize(
    ("url", "target", "host"),
    [
        ("http://svc:4000/v1", "http://10.0.0.2:4000/v1", "svc:4000"),
        ("http://svc/v1", "http://10.0.0.2/v1", "svc"),
        ("http://other:4000/v1", "http://other:4000/v1", "other:4000"),
    ],
)
def test_containers_are_found_and_the_host_header_is_kept(url: str, target: str, host: str) -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={})

    get(answer, url, resolve={"svc": "10.0.0.2"})
    assert str(seen[0].url) == target
    assert seen[0].headers["host"] == host


def test_wrong_url() -> None:
    with pytest.raises(_http.ServiceError, match=r"is not a URL|failed"):
        get(lambda _request: httpx.Response(200), "http://[::1")


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (httpx.Response(500, text=f"bad key {SECRET}"), r"answered 500: bad key \*{8}"),
        (httpx.Response(200, html="<html>"), "text/html; charset=utf-8 instead of JSON: <html>"),
        (httpx.Response(200, text="{", headers={"content-type": "application/json"}), "broken JSON"),
    ],
)
def test_errors_name_the_resource(reply: httpx.Response, text: str) -> None:
    with pytest.raises(_http.ServiceError, match=text) as raised:
        get(lambda _request: reply).expect()
    assert "GET http://svc:1/path" in str(raised.value)
    assert SECRET not in str(raised.value)


def test_secrets_in_urls_and_reprs_are_hidden() -> None:
    answer, _seen = fail(httpx.ConnectError(f"no route with {SECRET}"))
    with pytest.raises(_http.ServiceError) as raised:
        get(answer, f"http://svc:1/?key={SECRET}")
    assert SECRET not in str(raised.value)
    assert SECRET not in repr(get(lambda _request: httpx.Response(200, text=SECRET)))


def test_redactor() -> None:
    redact = _http.Redactor(["abcd", "abcdefgh", "x", ""])
    assert redact("abcdefgh and abcd, x") == "******** and ********, x"
    assert redact.data({"abcd": ["abcd", 1, None], "n": {"t": "abcd"}}) == {
        "********": ["********", 1, None],
        "n": {"t": "********"},
    }


def test_budget_counts_every_attempt() -> None:
    answer, seen = fail(httpx.ConnectError("refused"))
    with pytest.raises(_http.BudgetExceeded, match="budget of 2 requests"):
        get(answer, budget=2)
    assert len(seen) == 2


def test_concurrency_is_limited() -> None:
    running, most = 0, 0

    async def answer(_request: httpx.Request) -> httpx.Response:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.wait([asyncio.ensure_future(asyncio.to_thread(lambda: None))])
        running -= 1
        return httpx.Response(200, json={})

    async def ask() -> None:
        async with _http.Http(transport=httpx.MockTransport(answer), concurrency=3) as http:
            await asyncio.gather(*(http.request("GET", "http://svc/") for _number in range(12)))
            assert http.requests == 12

    asyncio.run(ask())
    assert most == 3


def test_each_request_has_a_connection_of_its_own() -> None:
    connections: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(0)
        while await reader.readuntil(b"\r\n\r\n"):
            connections[-1] += 1
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
            await writer.drain()

    async def ask() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, _http.Http(secrets=[]) as http:
            for _number in range(3):
                await http.request("GET", f"http://127.0.0.1:{port}/")

    asyncio.run(ask())
    assert connections == [1, 1, 1]
