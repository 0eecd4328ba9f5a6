# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Open WebUI's stored settings: what differs, what is sent, and that it holds."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import Any

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _reconcile, _settings
from ansible_collections.plumbline.rag.plugins.module_utils._http import ServiceError
from ansible_collections.plumbline.rag.plugins.module_utils._open_webui import OpenWebUI

from .rag_stack import SECRETS, SETTINGS, Stack, error


def reconcile(stack: Stack, settings: dict[str, Any] | None = None, write: bool = True) -> _reconcile.Result:
    async def run() -> _reconcile.Result:
        async with stack.http() as http:
            password = SECRETS["open_webui_admin_password"]
            api = OpenWebUI(http, "http://rag-open-webui:8080", "admin@example.test", password)
            await api.wait_ready(1)
            return await _reconcile.reconcile(api, settings or SETTINGS, SECRETS, write=write)

    return asyncio.run(run())


def posts(stack: Stack) -> dict[str, Any]:
    return {path: body for method, path, body in stack.sent if method == "POST" and not path.endswith("signin")}


@pytest.mark.parametrize(
    ("actual", "wanted", "names"),
    [
        ({"A": 1}, {"A": 1}, []),
        ({"A": 1, "B": 2}, {"A": 1}, []),
        ({"A": 2}, {"A": 1}, ["A"]),
        ({}, {"A": 1}, ["A"]),
        ({"A": 0.0}, {"A": 0}, []),
        ({"A": 1}, {"A": True}, ["A"]),
        ({"A": None}, {"A": ""}, []),
        ({"A": "x"}, {"A": ""}, ["A"]),
        ({"A": "x"}, {"A": None}, []),
        ({"x_config": {"url": "u", "key": "k"}}, {"x_config": {"url": "u"}}, []),
        ({"x_config": {"url": "v"}}, {"x_config": {"url": "u"}}, ["x_config.url"]),
        ({}, {"x_config": {"url": "u"}}, ["x_config.url"]),
        ({"P": {"a": 1, "b": 2}}, {"P": {"a": 1}}, ["P"]),
    ],
)
def test_differences(actual: dict[str, Any], wanted: dict[str, Any], names: list[str]) -> None:
    found = _settings.differences({"retrieval": wanted}, {"retrieval": actual}, {})
    assert [one.name for one in found] == names


def test_secrets_are_filled_in_and_marked() -> None:
    stored = {"embedding": {"openai_config": {"key": "old"}}, "retrieval": {"KEY": "new"}}
    settings = {"secret_fields": {"openai_config.key": "first", "KEY": "second", "OTHER": "unknown"}}
    found = _settings.differences(settings, stored, {"first": "new", "second": "new"})
    assert [(one.form, one.name, one.secret) for one in found] == [("embedding", "openai_config.key", True)]


def test_nothing_is_sent_when_nothing_differs() -> None:
    stack = Stack()
    assert reconcile(stack) == _reconcile.Result([], False)
    assert posts(stack) == {}


def test_embedding_form_is_complete() -> None:
    stack = Stack()
    settings = copy.deepcopy(SETTINGS)
    settings["embedding"] = {"RAG_EMBEDDING_ENGINE": "openai", "RAG_EMBEDDING_MODEL": "new/model"}
    settings["secret_fields"] = {}
    settings["embedding"]["openai_config"] = {"url": "http://new/v1"}
    assert reconcile(stack, settings).changed
    assert posts(stack) == {
        "/api/v1/retrieval/embedding/update": {
            "RAG_EMBEDDING_ENGINE": "openai",
            "RAG_EMBEDDING_MODEL": "new/model",
            "RAG_EMBEDDING_BATCH_SIZE": 16,
            "ENABLE_ASYNC_EMBEDDING": True,
            "RAG_EMBEDDING_CONCURRENT_REQUESTS": 4,
            "openai_config": {"url": "http://new/v1", "key": SECRETS["litellm_master_key"]},
        }
    }


def test_retrieval_form_has_no_nulls_and_no_web() -> None:
    stack = Stack()
    stack.stored["retrieval"].update(TOP_K=3, web={"x": 1}, FILE_MAX_SIZE=None)
    settings = copy.deepcopy(SETTINGS)
    settings["retrieval"]["RAG_RERANKING_BATCH_SIZE"] = None
    assert reconcile(stack, settings).changed
    ((path, form),) = posts(stack).items()
    assert path == "/api/v1/retrieval/config/update"
    assert form == {**SETTINGS["retrieval"], "RAG_EXTERNAL_RERANKER_API_KEY": SECRETS["litellm_master_key"]}


def test_sign_up_is_closed_and_the_rest_kept() -> None:
    stack = Stack()
    stack.stored["admin"].update(ENABLE_SIGNUP=True, DEFAULT_USER_ROLE="pending")
    result = reconcile(stack)
    assert [one.name for one in result.drift] == ["ENABLE_SIGNUP"]
    assert posts(stack) == {
        "/api/v1/auths/admin/config": {"ENABLE_SIGNUP": False, "WEBUI_URL": "", "DEFAULT_USER_ROLE": "pending"}
    }


def test_without_write_it_only_looks() -> None:
    stack = Stack()
    stack.stored["retrieval"]["TOP_K"] = 3
    result = reconcile(stack, write=False)
    assert (result.changed, [one.name for one in result.drift]) == (False, ["TOP_K"])
    assert posts(stack) == {}


def test_what_does_not_hold_is_an_error() -> None:
    stack = Stack()
    stack.stored["retrieval"]["TOP_K"] = 3
    stack.keep = lambda _form, sent: {**sent, "ENABLE_RAG_HYBRID_SEARCH": False}
    with pytest.raises(ServiceError, match=r"does not hold them: ENABLE_RAG_HYBRID_SEARCH.*rag_reranker_timeout"):
        reconcile(stack)


def test_shown_hides_secrets() -> None:
    stack = Stack()
    stack.stored["embedding"]["openai_config"]["key"] = "sk-canary-old"
    stack.stored["retrieval"]["TOP_K"] = 3
    shown = _reconcile.shown(reconcile(stack, write=False).drift)
    assert {"name": "TOP_K", "actual": 3, "wanted": 20} in shown
    assert "canary" not in json.dumps(shown)


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (error(400, "incorrect"), "answered 400 for admin@example.test: the e-mail address or the password is wrong"),
        (error(429, "slow down"), "too many sign-ins"),
        (error(403, "no"), "ENABLE_PASSWORD_AUTH"),
        (None, "multi-factor sign-in asks for the step 'verify'"),
    ],
)
def test_sign_in_messages(reply: Any, text: str) -> None:
    stack = Stack()
    if reply is None:
        stack.signin = {"next_step": "verify"}
    else:
        stack.replies[("POST", "/signin")] = reply
    with pytest.raises(ServiceError, match=text):
        reconcile(stack)
