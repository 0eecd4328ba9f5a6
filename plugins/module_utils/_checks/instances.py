# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every engine of which there are several gives what the first one gives, which all other checks ask."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _vectors
from ansible_collections.plumbline.rag.plugins.module_utils._checks import _context, _faults, _probes
from ansible_collections.plumbline.rag.plugins.module_utils._checks.embedding import BATCH_COSINE
from ansible_collections.plumbline.rag.plugins.module_utils._checks.rerank import SAME_SCORE
from ansible_collections.plumbline.rag.plugins.module_utils._http import ServiceError


def further(plan: Mapping[str, Any], url: str) -> list[Mapping[str, Any]]:
    """The instances of an engine beside the one at ``url``."""
    return [instance for instance in plan.get("instances", ()) if instance["url"] != url]


async def embedders(context: _context.Context, before: _context.Before) -> _context.Outcome:
    """The vectors of three passages at each further instance."""
    table = before["embedding at the engine"].data.get("table")
    if table is None:
        return _context.Outcome(skipped=["the first engine gives no usable vectors"])
    plan, outcome = context.plan["embedder"], _context.Outcome()
    texts = [plan["document_prefix"] + text for text in _probes.PASSAGES]
    for instance in further(plan, plan["base_url"]):
        where = {"variable": "rag_embedder", "host": instance["host"], "hop": _context.ENGINE}
        client = dataclasses.replace(context.engine, base_url=instance["url"])
        try:
            rows = await client.embed(texts)
            if [len(row) for row in rows] != [plan["dimensions"]] * len(texts):
                raise ServiceError(
                    f"{client.url} gave {len(rows)} vectors for {len(texts)} texts, or of another length."
                )
        except ServiceError as error:
            outcome.findings.append(_faults.INSTANCE_DOWN.finding(f"{instance['host']}: {error}", **where))
            continue
        lowest = min(_vectors.cosine(row, table[text]) for row, text in zip(rows, texts))
        outcome.measurements[instance["host"]] = lowest
        if lowest < BATCH_COSINE:
            message = (
                f"The same text has cosine {lowest:.6f} between {client.url} and {context.engine.url}; it should be at least "
                f"{BATCH_COSINE}."
            )
            outcome.findings.append(_faults.INSTANCE_VECTORS.finding(message, **where))
    return outcome


async def rerankers(context: _context.Context, before: _context.Before) -> _context.Outcome:
    """The scores of five documents at each further instance."""
    own = before["reranking at the reranker"].data.get("scores")
    if own is None:
        return _context.Outcome(skipped=["the first reranker gives no usable scores"])
    plan, outcome = context.plan["reranker"], _context.Outcome()
    for instance in further(plan, plan["url"]):
        where = {"variable": "rag_reranker", "host": instance["host"], "hop": _context.RERANKER}
        client = dataclasses.replace(context.reranker, url=instance["url"])
        try:
            scores = await client.scores(_probes.QUESTIONS[0], _probes.rerank_documents()[0])
        except (ServiceError, TypeError, ValueError) as error:
            outcome.findings.append(_faults.INSTANCE_DOWN.finding(f"{instance['host']}: {error}", **where))
            continue
        difference = max(abs(a - b) for a, b in zip(scores, own))
        outcome.measurements[instance["host"]] = difference
        if difference > SAME_SCORE:
            message = f"{client.url} gives scores that differ by {difference:.4f} from those of {context.reranker.url}."
            outcome.findings.append(_faults.INSTANCE_SCORES.finding(message, **where))
    return outcome
