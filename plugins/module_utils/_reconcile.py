# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring Open WebUI's stored settings to what the plan says, and make sure that it kept them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._http import MASK, ServiceError
from ansible_collections.plumbline.rag.plugins.module_utils._open_webui import OpenWebUI
from ansible_collections.plumbline.rag.plugins.module_utils._settings import Difference, differences, wanted_forms

SIGNUP = Difference("admin", "ENABLE_SIGNUP", True, False)
# The embedding form resets what it does not get, so that these always travel with it.
_ALWAYS_SENT = (
    "RAG_EMBEDDING_ENGINE",
    "RAG_EMBEDDING_MODEL",
    "RAG_EMBEDDING_BATCH_SIZE",
    "ENABLE_ASYNC_EMBEDDING",
    "RAG_EMBEDDING_CONCURRENT_REQUESTS",
)


@dataclass(frozen=True)
class Result:
    """What differed, and whether it was written."""

    drift: list[Difference]
    changed: bool


async def reconcile(api: OpenWebUI, settings: Mapping[str, Any], secrets: Mapping[str, str], *, write: bool) -> Result:
    """Compare, write the forms that differ, and read them again. Raises ServiceError when a setting does not hold."""
    effective = await _effective(api)
    drift = _drift(settings, effective, secrets)
    if not drift or not write:
        return Result(drift, False)
    forms = wanted_forms(settings, secrets)
    changed = {difference.form for difference in drift}
    if "embedding" in changed:
        await api.update_embedding(_embedding_form(forms["embedding"], effective["embedding"]))
    if "retrieval" in changed:
        await api.update_retrieval(forms["retrieval"])
    if "admin" in changed:
        await api.update_admin(_admin_form(effective["admin"]))
    left = _drift(settings, await _effective(api), secrets)
    if left:
        raise ServiceError(_not_kept(left))
    return Result(drift, True)


def shown(drift: Sequence[Difference]) -> list[dict[str, Any]]:
    """The differences without secrets."""
    return [
        {"name": one.name, "actual": f"{MASK} (another value)", "wanted": MASK}
        if one.secret
        else {"name": one.name, "actual": one.actual, "wanted": one.wanted}
        for one in drift
    ]


async def _effective(api: OpenWebUI) -> dict[str, dict[str, Any]]:
    embedding, retrieval, admin = await asyncio.gather(api.embedding(), api.retrieval(), api.admin())
    return {"embedding": embedding, "retrieval": retrieval, "admin": admin}


def _drift(
    settings: Mapping[str, Any], effective: Mapping[str, Mapping[str, Any]], secrets: Mapping[str, str]
) -> list[Difference]:
    found = differences(settings, effective, secrets)
    return [*found, SIGNUP] if effective["admin"].get("ENABLE_SIGNUP") else found


def _embedding_form(wanted: Mapping[str, Any], current: Mapping[str, Any]) -> dict[str, Any]:
    form = {name: current[name] for name in _ALWAYS_SENT if current.get(name) is not None}
    for name, value in wanted.items():
        # A url or key that is missing inside the sub-object would be emptied.
        form[name] = {**(current.get(name) or {}), **value} if isinstance(value, Mapping) else value
    return form


def _admin_form(current: Mapping[str, Any]) -> dict[str, Any]:
    # Multi-factor settings are not ours: leaving them out keeps them as they are.
    kept = {name: value for name, value in current.items() if value is not None and "MFA" not in name}
    return {**kept, "ENABLE_SIGNUP": False}


def _not_kept(left: Sequence[Difference]) -> str:
    names = ", ".join(one.name for one in left)
    message = f"Open WebUI accepted the settings and does not hold them: {names}."
    if any(one.name == "ENABLE_RAG_HYBRID_SEARCH" for one in left):
        message += (
            " It switches hybrid search off when it cannot build the reranker: check rag_reranker_timeout (whole seconds)"
            " and its log for 'Error loading reranking model'."
        )
    return message
