# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Client of the LiteLLM proxy, for what is its own: the rest of it speaks the shapes of `_engines`."""

from __future__ import annotations

from ansible_collections.plumbline.rag.plugins.module_utils._http import Http, ServiceError


async def version(http: Http, base_url: str, key: str | None) -> str:
    """The version that the running proxy reports."""
    root = base_url[: -len("/v1")] if base_url.endswith("/v1") else base_url
    reply = await http.request("GET", f"{root}/health/readiness/details", key=key)
    answer = reply.expect()
    found = answer.get("litellm_version") if isinstance(answer, dict) else None
    if not isinstance(found, str) or not found:
        raise ServiceError(f"{reply.resource} names no litellm_version: {reply.excerpt}")
    return found
