# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on scores, thresholds, hybrid search and timeouts. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, NOTE, WARNING, Finding, register
from ansible_collections.plumbline.rag.plugins.module_utils._rules._subject import Subject, number, truthy

THRESHOLD = register(
    "PL147",
    WARNING,
    "The relevance threshold does not fit the scores",
    "The threshold is compared with whatever the reranker answers: 0 to 1 from one engine, logits or cosines from another. "
    "A threshold of another scale drops every document or none. Without hybrid search it is not looked at.",
    "Remove rag_relevance_threshold, or set it between the scores of a right and a wrong document of your own.",
    example="rag_relevance_threshold: 1.5    # the scores lie between 0 and 1",
    source="open-webui/open-webui#20228, volcengine/OpenViking#3000, FlagOpen/FlagEmbedding#250",
)
HYBRID = register(
    "PL163",
    WARNING,
    "Hybrid search works otherwise than it seems",
    "Without a reranker Open WebUI embeds every candidate again for each question; a weight of 0 or 1 leaves one of the two "
    "searches out; and encrypted columns or enriched texts switch the database's own hybrid search off.",
    "Set a reranker or rag_hybrid_search: false, a weight between 0 and 1, and leave PGVECTOR_PGCRYPTO and enriched texts out.",
    example="rag_reranker: none\nrag_hybrid_search: true",
    source="Open WebUI 0.11.4: requests counted at the embedding server",
)
TIMEOUT = register(
    "PL182",
    WARNING,
    "A timeout is too long or ends uploads",
    "While the reranker is slow the whole answer waits, and with some releases the whole server. RAG_EMBEDDING_TIMEOUT is a "
    "budget for a whole document: a large one fails with an empty error text.",
    "Use 10 to 60 seconds for rag_reranker_timeout, and leave RAG_EMBEDDING_TIMEOUT out.",
    example="rag_reranker_timeout: 600",
    source="open-webui/open-webui#19900",
)


def threshold(subject: Subject) -> Iterator[Finding]:
    choice, value = subject.choice, subject.spec["rag_relevance_threshold"]
    if not value:
        return

    def finding(text: str, severity: str = WARNING) -> Finding:
        message = f"rag_relevance_threshold is {value:g}; {text}."
        return THRESHOLD.finding(message, severity=severity, variable="rag_relevance_threshold")

    if not choice.hybrid:
        yield finding("it is looked at in hybrid search only, which is off")
        return
    if choice.reranker is None:
        name, scale = "the cosine that stands in for a reranker", (-1.0, 1.0)
    else:
        name = f"{choice.reranker.id} on {choice.reranker_engine}"
        known = choice.reranker.score_range.get(str(choice.reranker_engine))
        if known is None:
            yield finding(f"the catalog does not know the scores of {name}")
            return
        scale = known
    low, high = scale
    between = f"{name} scores between {low:g} and {high:g}"
    if value > high:
        yield finding(f"{between}, so that every document is dropped", ERROR)
    elif value <= low:
        yield finding(f"{between}, so that no document is dropped")
    elif low < 0:
        yield finding(f"{between}, and not between 0 and 1")


def hybrid(subject: Subject) -> Iterator[Finding]:
    choice, spec = subject.choice, subject.spec
    if not choice.hybrid:
        return
    if choice.reranker is None:
        message = f"rag_hybrid_search is true and there is no reranker: each question embeds up to {2 * choice.top_k} documents again."
        yield HYBRID.finding(message, variable="rag_hybrid_search")
    weight = spec["rag_bm25_weight"]
    if weight in (0, 1):
        left = "the keyword search is never used" if weight == 0 else "vectors are never used"
        yield HYBRID.finding(f"rag_bm25_weight is {weight:g}: {left}.", variable="rag_bm25_weight")
    for name in ("PGVECTOR_PGCRYPTO", "ENABLE_RAG_HYBRID_SEARCH_ENRICHED_TEXTS"):
        if truthy(subject.env.get(name)):
            message = f"rag_open_webui_env sets {name}: whole collections are read for each question."
            yield HYBRID.finding(message, variable="rag_open_webui_env")


def timeout(subject: Subject) -> Iterator[Finding]:
    seconds = subject.spec["rag_reranker_timeout"]
    if subject.choice.reranker is not None and 120 < seconds <= 3600:
        message = f"rag_reranker_timeout is {seconds}: a question waits so long for a reranker that does not answer."
        yield TIMEOUT.finding(message, variable="rag_reranker_timeout")
    budget = number(subject.env.get("RAG_EMBEDDING_TIMEOUT"))
    if budget:
        message = f"rag_open_webui_env sets RAG_EMBEDDING_TIMEOUT: a document that takes more than {budget} s is lost."
        yield TIMEOUT.finding(message, severity=NOTE, variable="rag_open_webui_env")


RULES = (threshold, hybrid, timeout)
