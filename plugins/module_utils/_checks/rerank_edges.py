# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reranking at its edges: repeated, empty and over-long documents, other languages, and the influence of neighbours."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _vectors
from ansible_collections.plumbline.rag.plugins.module_utils._checks import _context, _faults, _probes, length
from ansible_collections.plumbline.rag.plugins.module_utils._checks.rerank import located
from ansible_collections.plumbline.rag.plugins.module_utils._engines import Reranker
from ansible_collections.plumbline.rag.plugins.module_utils._evaluation import EvalSet
from ansible_collections.plumbline.rag.plugins.module_utils._findings import Finding
from ansible_collections.plumbline.rag.plugins.module_utils._http import ServiceError

# Of the spread of the scores; padding and half precision move them less.
_INFLUENCE = 0.05
_WRONG = 3
_PROBES = 7


async def edges(context: _context.Context, before: _context.Before) -> _context.Outcome:
    """One score a document, whatever the documents are."""
    asked = before["reranking as Open WebUI asks"]
    known = asked.data.get("scores")
    if asked.failed or not known:
        return _context.Outcome(skipped=["the route does not answer rightly"])
    plan = context.plan["reranker"]
    outcome = _context.Outcome()
    outcome.findings += await located(context, lambda client, hop: _twice(client, known, hop, outcome.measurements))
    outcome.findings += await located(context, _empty)
    limit = plan.get("max_input_tokens") or 0
    if not limit:
        outcome.skipped.append(f"an over-long document: the length that {plan['model']} reads is not known")
    elif limit > length.AFFORDABLE and context.plan.get("depth") != "deep":
        outcome.skipped.append(f"a document of twice {limit} tokens: rag_verify_depth: deep sends it")
    else:
        outcome.findings += await located(
            context, lambda client, hop: _long(client, limit, plan, hop, outcome.measurements)
        )
    return outcome


async def languages(context: _context.Context, before: _context.Before) -> _context.Outcome:
    """In each language that the model knows, a right document among obviously wrong ones."""
    if not before["reranking as Open WebUI asks"].data.get("scores"):
        return _context.Outcome(skipped=["the route does not answer rightly"])
    if context.probes is None:
        return _context.Outcome(skipped=["there are no questions in other languages"])
    asked = list(_language_probes(context.probes, context.plan["reranker"].get("languages")))
    if not asked:
        return _context.Outcome(skipped=["there are no questions in the languages of the model"])
    outcome = _context.Outcome(measurements={"probes": len(asked)})
    for probe in asked:
        outcome.findings += await located(context, functools.partial(_right, *probe))
    outcome.measurements["right"] = len(asked) - len(outcome.findings)
    return outcome


async def _right(
    language: str, query: str, documents: Sequence[str], position: int, client: Reranker, hop: str
) -> list[Finding]:
    scores = await client.scores(query, documents)
    if _vectors.argmax(scores) == position:
        return []
    shown = ", ".join(f"{score:.4f}" for score in scores)
    message = f"{client.url} does not put the right document, {position}, first in language {language}: {shown}."
    return [_faults.RERANK_ORDER.finding(message, variable="rag_reranker", hop=hop)]


def _language_probes(given: EvalSet, known: Sequence[str] | None) -> Iterator[tuple[str, str, list[str], int]]:
    """For the first question of each language: wrong documents of its other subjects around the right one."""
    done: set[str] = set()
    for question in given.only(known).questions:
        language = question.language
        if not language or language in done or len(done) == _PROBES:
            continue
        others = [q for q in given.questions if q.language == language and q is not question]
        # Passages are grouped by question in the set: those around another question's answer share its subject.
        names = list(given.passages)
        places = [names.index(q.answers[0]) for q in others]
        wrong = [given.passages[name] for place in places for name in names[place : place + _WRONG]][:_WRONG]
        if wrong:
            done.add(language)
            position = len(wrong) // 2
            documents = [*wrong[:position], given.passages[question.answers[0]], *wrong[position:]]
            yield language, question.text, documents, position


async def _twice(client: Reranker, known: list[float], hop: str, measured: dict[str, Any]) -> list[Finding]:
    """A document that stands there twice, among fewer others than before."""
    documents, right = _probes.rerank_documents()
    sent = [documents[0], documents[right], documents[0], documents[right]]
    results = client.results(await client.post(_probes.QUESTIONS[0], sent))
    indexes = [index for index, _score in results]
    if not _vectors.is_permutation(indexes, len(sent)):
        message = f"{client.url} scored the documents {indexes} of {len(sent)}, two of which are equal."
        return [_faults.RERANK_INDEXES.finding(message, variable="rag_reranker", hop=hop)]
    scores = [float(score) for _index, score in sorted(results)]
    wanted = [known[0], known[right], known[0], known[right]]
    influence = max(abs(a - b) for a, b in zip(scores, wanted)) / (max(known) - min(known))
    measured["influence_of_other_documents"] = influence
    if influence <= _INFLUENCE:
        return []
    message = (
        f"The score of a document at {client.url} moves by {influence:.0%} of the spread with the other documents; "
        f"it should depend on the question and the document alone."
    )
    return [_faults.RERANK_DEPENDENT.finding(message, variable="rag_reranker", hop=hop)]


async def _empty(client: Reranker, hop: str) -> list[Finding]:
    documents, right = _probes.rerank_documents()
    reply = await client.post(_probes.QUESTIONS[0], [documents[right], "", documents[0]])
    try:
        if _vectors.is_permutation([index for index, _score in client.results(reply)], 3):
            return []
        problem = "leaves a document without a score"
    except ServiceError:
        problem = f"answers {reply.status}"
    message = f"{client.url} {problem} when one document of three is empty; it should score each."
    return [_faults.RERANK_EMPTY.finding(message, variable="rag_reranker", hop=hop)]


async def _long(
    client: Reranker, limit: int, plan: Mapping[str, Any], hop: str, measured: dict[str, Any]
) -> list[Finding]:
    """One document of twice the limit; a word has a token at least."""
    documents, right = _probes.rerank_documents()
    words = _probes.FILLER.split(" ")
    long = " ".join(words[number % len(words)] for number in range(2 * limit))
    reply = await client.post(_probes.QUESTIONS[0], [documents[right], long], timeout=length.PATIENCE)
    measured["document_of_twice_the_limit"] = "scored" if reply.ok else f"refused with status {reply.status}"
    if reply.ok or not plan.get("truncates"):
        return []
    message = (
        f"{reply.resource} answers {reply.status} when one document is longer than the {limit} tokens of the model; "
        f"the engine should cut it off: {reply.excerpt}"
    )
    return [_faults.RERANK_LONG.finding(message, variable="rag_chunk_size", hop=hop)]
