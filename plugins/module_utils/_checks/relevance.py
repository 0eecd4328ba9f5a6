# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether reranking improves the order that the embedder gives: nDCG and recall on a labelled set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _evaluation, _vectors
from ansible_collections.plumbline.rag.plugins.module_utils._checks import _context, _faults
from ansible_collections.plumbline.rag.plugins.module_utils._engines import Embeddings
from ansible_collections.plumbline.rag.plugins.module_utils._findings import NOTE

# What a single question more or less at the first place may change without meaning anything.
_MARGIN = 0.02
_FEWEST = 3
# A question is one request, and a candidate is work for the reranker.
_QUESTIONS = {"standard": 20, "deep": 500}
_PASSAGES = {"standard": 160, "deep": 5000}
_CANDIDATES = {"standard": 10, "deep": 20}
_DEFAULT_BATCH = 32
_ALL = "all"


async def relevance(context: _context.Context, before: _context.Before) -> _context.Outcome:
    """The order of the embedder against the order of the reranker, on the same candidates."""
    if context.evaluation is None:
        return _context.Outcome(skipped=["there is no labelled set"])
    if before["embedding at the engine"].failed:
        return _context.Outcome(skipped=["the engine's vectors are not usable"])
    if not before["reranking as Open WebUI asks"].data.get("scores"):
        return _context.Outcome(skipped=["the reranker does not answer rightly"])
    embedder, reranker = context.plan["embedder"], context.plan["reranker"]
    depth = context.plan.get("depth", "standard")
    limit = _QUESTIONS[depth]
    suited = context.evaluation.only(embedder.get("languages")).only(reranker.get("languages"))
    asked = suited.first(limit, _PASSAGES[depth])
    questions = asked.questions
    if len(questions) < _FEWEST:
        return _context.Outcome(skipped=["the set has too few questions in the languages of the models"])
    outcome = _context.Outcome()
    possible = len(suited.questions)
    if possible > limit:
        outcome.skipped.append(f"{possible - limit} of {possible} questions: rag_verify_depth: deep asks all")
    if len(asked.passages) < len(suited.passages):
        reason = f"{len(suited.passages) - len(asked.passages)} of {len(suited.passages)} passages are left out"
        outcome.skipped.append(f"{reason}: a set is meant to be smaller, or rag_verify_depth: deep")
    plain = await _by_cosine(context.engine, embedder, asked, _CANDIDATES[depth])
    orders = await _reranked(context, asked, plain)
    without, with_ = _evaluation.quality(plain, questions), _evaluation.quality(orders, questions)
    outcome.measurements.update(
        set=context.plan.get("eval_set") or "shipped",
        questions=len(questions),
        passages=len(asked.passages),
        rows=[{"name": _ALL, "without": without, "with": with_}, *_by_language(questions, plain, orders)],
    )
    if with_["ndcg"] < without["ndcg"] - _MARGIN:
        message = (
            f"On {len(questions)} questions nDCG@{_evaluation.NDCG_AT} is {with_['ndcg']:.3f} with the reranker and "
            f"{without['ndcg']:.3f} without it; recall@{_evaluation.RECALL_AT} is {with_['recall']:.3f} and "
            f"{without['recall']:.3f}."
        )
        # The plan already says of such a reranker that it improves nothing.
        severity = NOTE if reranker["kind"] == "cosine" else None
        outcome.findings.append(
            _faults.RERANK_WEAK.finding(message, severity=severity, variable="rag_reranker", hop=_context.RERANKER)
        )
    return outcome


async def _by_cosine(
    client: Embeddings, plan: Mapping[str, Any], asked: _evaluation.EvalSet, count: int
) -> list[list[str]]:
    """For each question the candidates, best first."""
    size = plan.get("max_batch") or _DEFAULT_BATCH
    names = list(asked.passages)
    passages = await _embed(client, [plan["document_prefix"] + asked.passages[name] for name in names], size)
    questions = await _embed(client, [plan["query_prefix"] + question.text for question in asked.questions], size)
    orders = []
    for cosines in _vectors.matrix(questions, passages):
        best = sorted(range(len(names)), key=lambda place: -cosines[place])[:count]
        orders.append([names[place] for place in best])
    return orders


async def _embed(client: Embeddings, texts: Sequence[str], size: int) -> list[list[float]]:
    rows: list[list[float]] = []
    for start in range(0, len(texts), size):
        rows += await client.embed(texts[start : start + size])
    return rows


async def _reranked(
    context: _context.Context, asked: _evaluation.EvalSet, orders: Sequence[Sequence[str]]
) -> list[list[str]]:
    """One question after the other: the reranker has users besides."""
    found = []
    for question, names in zip(asked.questions, orders):
        scores = await context.rerank_route.scores(question.text, [asked.passages[name] for name in names])
        best = sorted(range(len(names)), key=lambda place: -scores[place])
        found.append([names[place] for place in best])
    return found


def _by_language(
    questions: Sequence[_evaluation.Question], plain: Sequence[list[str]], orders: Sequence[list[str]]
) -> list[dict[str, Any]]:
    rows = []
    for language in dict.fromkeys(q.language for q in questions if q.language):
        places = [place for place, q in enumerate(questions) if q.language == language]
        chosen = [questions[place] for place in places]
        rows.append(
            {
                "name": language,
                "without": _evaluation.quality([plain[place] for place in places], chosen),
                "with": _evaluation.quality([orders[place] for place in places], chosen),
            }
        )
    return rows
