# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which prefix was sent on each path through Open WebUI, from stored vectors and returned scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ansible_collections.plumbline.rag.plugins.module_utils import _vectors
from ansible_collections.plumbline.rag.plugins.module_utils._checks import _context, _probes, _walk, prefix
from ansible_collections.plumbline.rag.plugins.module_utils._http import ServiceError
from ansible_collections.plumbline.rag.plugins.module_utils._open_webui import Hits
from ansible_collections.plumbline.rag.plugins.module_utils._pgvector import Chunk

_FIELD = "the backend is told the side in a field, and the requests of a verification are for documents"
THROUGH = "through Open WebUI"
_OTHER_SIDE = {"query": "document_prefix", "document": "query_prefix"}


def cosine_of(score: float) -> float:
    """Open WebUI maps the cosine of a vector search to 0…1."""
    return 2 * score - 1


async def prove_document_prefix(walk: _walk.Walk, chunks: Sequence[Chunk], evidence: str) -> None:
    """Stored vectors against the engine's, for each text that could have been sent."""
    plan = walk.plan["embedder"]
    variants = prefix.variants(plan["document_prefix"], plan["query_prefix"])
    texts = [(chunk.text or "").replace("\n", " ") for chunk in chunks]
    table = await walk.vectors([before + text for before in variants.values() for text in texts])
    distances = {
        name: [1 - _vectors.cosine(chunk.vector, table[before + text]) for chunk, text in zip(chunks, texts)]
        for name, before in variants.items()
    }
    judge(walk, "document", prefix.judge(distances, prefix.STORED), evidence)


async def prove_query_prefix(
    walk: _walk.Walk,
    chunks: Sequence[Chunk],
    asked: Sequence[tuple[str, Hits]],
    evidence: str,
    path: str = "",
    cosine: Callable[[float], float] = cosine_of,
) -> None:
    """Returned scores against the cosines of the stored vectors with each question that could have been sent."""
    plan = walk.plan["embedder"]
    if plan.get("fields"):
        walk.outcome.skipped.append(f"query prefix{path.replace('_', ' ')}: {_FIELD}")
        return
    variants = prefix.variants(plan["query_prefix"], plan["document_prefix"])
    stored = {chunk.text: chunk.vector for chunk in chunks}
    returned = [
        (question, stored[text], cosine(score))
        for question, found in asked
        for text, score in zip(found.documents, found.scores)
        if text in stored and score is not None
    ]
    if not returned:
        walk.outcome.skipped.append(f"query prefix{path.replace('_', ' ')}: the search returned no passage")
        return
    table = await walk.vectors([before + question for before in variants.values() for question, _hits in asked])
    distances = {
        name: [abs(_vectors.cosine(vector, table[before + question]) - cos) for question, vector, cos in returned]
        for name, before in variants.items()
    }
    judge(walk, "query", prefix.judge(distances, prefix.DISTANCE), evidence, path)


async def prove_by_scores(walk: _walk.Walk, plain: Sequence[Hits]) -> None:
    """Both prefixes from returned scores alone, where stored vectors cannot be read: the pair that gives the scores."""
    plan = walk.plan["embedder"]
    if plan.get("fields"):
        walk.outcome.skipped.append(f"both prefixes: {_FIELD}")
        return
    documents = prefix.variants(plan["document_prefix"], plan["query_prefix"])
    queries = prefix.variants(plan["query_prefix"], plan["document_prefix"])
    ours = {" ".join(passage.split()) for passage in _probes.PASSAGES}
    returned = [
        (question, " ".join(text.split()), cosine_of(score))
        for question, found in zip(_probes.QUESTIONS, plain)
        for text, score in zip(found.documents, found.scores)
        if " ".join(text.split()) in ours and score is not None
    ]
    if not returned:
        walk.outcome.skipped.append("both prefixes: the search returned no passage")
        return
    texts = [before + text for before in documents.values() for text in ours]
    table = await walk.vectors([*texts, *(before + text for before in queries.values() for text in _probes.QUESTIONS)])
    worst = {
        (document, query): max(
            abs(_vectors.cosine(table[queries[query] + question], table[documents[document] + text]) - cos)
            for question, text, cos in returned
        )
        for document in documents
        for query in queries
    }
    evidence = "the scores of a plain vector search"
    of_documents = {name: [min(worst[name, query] for query in queries)] for name in documents}
    of_queries = {name: [min(worst[document, name] for document in documents)] for name in queries}
    judge(walk, "document", prefix.judge(of_documents, prefix.DISTANCE), evidence)
    judge(walk, "query", prefix.judge(of_queries, prefix.DISTANCE), evidence)


async def file_in_a_chat(walk: _walk.Walk, collection: str, chunks: Sequence[Chunk]) -> None:
    """A file that is attached to a chat is searched in a collection of its own."""
    question = _probes.QUESTIONS[0]
    try:
        hits = await walk.api.query_vector(collection, question, len(chunks))
    except ServiceError as error:
        walk.outcome.skipped.append(f"query prefix of a file in a chat: {error}")
        return
    evidence = "the scores of a search in a file of a chat"
    await prove_query_prefix(walk, chunks, [(question, hits)], evidence, "_of_a_file_in_a_chat")


async def chat(walk: _walk.Walk, chunks: Sequence[Chunk], asked: Sequence[tuple[str, Hits]]) -> None:
    """A chat's search of a knowledge base; a reranker's scores hide the question's vector."""
    plan = walk.plan["open_webui"]
    if not plan.get("hybrid"):
        await prove_query_prefix(walk, chunks, asked, "the scores of a chat's search", "_of_a_chat")
    elif not plan.get("rerank_url"):
        # Without a reranker, hybrid search scores by the cosine itself.
        evidence = "the scores of hybrid search"
        await prove_query_prefix(walk, chunks, asked, evidence, "_of_hybrid_search", cosine=lambda score: score)
    else:
        walk.outcome.skipped.append(
            "query prefix of hybrid search: the reranker's scores do not show the question's vector"
        )


def judge(walk: _walk.Walk, side: str, verdict: prefix.Verdict, evidence: str, path: str = "") -> None:
    """Record a verdict, and the finding that it is."""
    walk.outcome.measurements[f"{side}_prefix{path}"] = {
        "verdict": verdict.name,
        "distances": dict(verdict.distances),
    }
    own = walk.plan["embedder"][f"{side}_prefix"]
    variable = f"rag_embedder_{side}_prefix"
    # A further path has less evidence: what the first one tells of the same prefix is not judged again.
    first = walk.outcome.measurements.get(f"{side}_prefix", {}).get("verdict", prefix.RIGHT)
    if verdict.name == prefix.RIGHT or (path and first != prefix.RIGHT):
        return
    if verdict.name == prefix.OTHER:
        nearest = min(verdict.distances.values())
        message = (
            f"{evidence[0].upper()}{evidence[1:]} do not come from the engine's model with any variant of the "
            f"{side} prefix {own!r}; the nearest is off by {nearest:.4f}."
        )
    else:
        state = {"missing": "is missing", "applied twice": "is applied twice"}.get(
            verdict.name, f"is sent {verdict.name}"
        )
        if verdict.name == "of the other side":
            state = f"is that of the other side, {walk.plan['embedder'][_OTHER_SIDE[side]]!r}"
        message = f"From {evidence}, the {side} prefix {state}; it should be {own!r}."
    rule = prefix.FAULTS[verdict.name]
    earlier = walk.before.get(THROUGH, _context.Outcome())
    told = [*earlier.findings, *walk.outcome.findings]
    # One cause on several paths is one finding.
    if not any(finding.id == rule.id and finding.where.get("variable") == variable for finding in told):
        walk.found(rule, message, _context.OPEN_WEBUI, variable)
