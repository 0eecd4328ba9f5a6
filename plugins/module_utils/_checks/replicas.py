# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Further containers of Open WebUI, each asked itself and not through a balancer: a setting reaches one process only."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._checks import _context, _faults
from ansible_collections.plumbline.rag.plugins.module_utils._findings import Finding
from ansible_collections.plumbline.rag.plugins.module_utils._open_webui import OpenWebUI
from ansible_collections.plumbline.rag.plugins.module_utils._settings import differences


async def replicas(context: _context.Context, _before: _context.Before) -> _context.Outcome:
    """Version and effective settings of each against the plan."""
    outcome = _context.Outcome()
    for replica in context.plan["open_webui"]["replicas"]:
        if replica["url"] is None:
            reason = f"Open WebUI on {replica['host']} is published on its own host only (rag_open_webui_address)"
            outcome.skipped.append(reason)
            continue
        outcome.findings += await _compared(context, replica, outcome.measurements)
    return outcome


async def _compared(context: _context.Context, replica: Mapping[str, Any], measured: dict[str, Any]) -> list[Finding]:
    plan = context.plan["open_webui"]
    password = context.secret(plan["admin_password_secret"]) or ""
    client = OpenWebUI(context.http, replica["url"], plan["admin_email"], password)
    public, embedding, retrieval = await asyncio.gather(client.public_config(), client.embedding(), client.retrieval())
    measured[replica["host"]] = {"version": public.get("version")}
    effective = {"embedding": embedding, "retrieval": retrieval}
    wrong = [difference.name for difference in differences(plan["settings"], effective, context.secrets)]
    if public.get("version") != plan["version"]:
        wrong.insert(0, f"version ({public.get('version')}, the plan has {plan['version']})")
    if not wrong:
        return []
    message = f"Open WebUI on {replica['host']} differs from the plan in {', '.join(wrong)}."
    where = {"variable": "rag_config_owner", "host": replica["host"], "hop": _context.OPEN_WEBUI}
    return [_faults.REPLICA_DRIFT.finding(message, **where)]
