# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on batch sizes, candidates and chunk sizes. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, WARNING, Finding, register
from ansible_collections.plumbline.rag.plugins.module_utils._rules._subject import Subject

BATCH = register(
    "PL140",
    ERROR,
    "A batch is larger than the engine takes",
    "The engine refuses the whole request. For embeddings the upload fails; for reranking Open WebUI swallows the 422 and "
    "keeps the old order.",
    "Lower the batch or top_k, or raise the engine's limit in its extra arguments.",
    example="rag_embedding_batch_size: 64\nrag_embedder_extra_args: [--max-client-batch-size, '32']",
    source="text-embeddings-inference: batch size N > maximum allowed batch size M",
)
NOTHING_TO_RERANK = register(
    "PL141",
    WARNING,
    "The reranker has nothing to choose from",
    "rag_top_k is the number of candidates that the reranker sees and rag_top_k_reranker what it keeps. With both equal "
    "it changes the order and never the selection.",
    "Set rag_top_k well above rag_top_k_reranker, for example 20 and 5.",
    example="rag_top_k: 3\nrag_top_k_reranker: 3",
)
CHUNK_SIZE = register(
    "PL142",
    ERROR,
    "Chunks are longer than the model reads",
    "What lies past the token limit is refused or cut off, so that it can never be found.",
    "Lower rag_chunk_size, or choose a model with a larger limit.",
    example="rag_embedder: sentence-transformers/all-MiniLM-L6-v2    # 256 tokens\nrag_chunk_size: 4000",
)
HYBRID_OFF = register(
    "PL143",
    ERROR,
    "A reranker is set and hybrid search is off",
    "Open WebUI reaches its reranker only through hybrid search. It is deployed, it costs memory, and it is never asked.",
    "Remove rag_hybrid_search, or set it to true, or set rag_reranker to none.",
    example="rag_reranker: BAAI/bge-reranker-v2-m3\nrag_hybrid_search: false",
)


def batch(subject: Subject) -> Iterator[Finding]:
    choice = subject.choice
    limit = choice.embed_max_batch
    if limit is not None and choice.batch_size > limit:
        message = (
            f"rag_embedding_batch_size is {choice.batch_size}; {choice.embedder_engine} takes {limit} texts a request."
        )
        yield BATCH.finding(message, variable="rag_embedding_batch_size")
    if choice.batch_size < 1:
        message = f"rag_embedding_batch_size is {choice.batch_size}; every upload would fail."
        yield BATCH.finding(message, variable="rag_embedding_batch_size")
    limit = choice.rerank_max_batch
    if limit is not None and 2 * choice.top_k > limit:
        message = (
            f"rag_top_k is {choice.top_k}, so hybrid search hands up to {2 * choice.top_k} documents to the reranker; "
            f"{choice.reranker_engine} takes {limit}."
        )
        yield BATCH.finding(message, variable="rag_top_k")


def nothing_to_rerank(subject: Subject) -> Iterator[Finding]:
    choice = subject.choice
    if choice.reranker is not None and choice.top_k <= choice.top_k_reranker:
        message = f"rag_top_k ({choice.top_k}) is not above rag_top_k_reranker ({choice.top_k_reranker})."
        yield NOTHING_TO_RERANK.finding(message, variable="rag_top_k")


def chunk_size(subject: Subject) -> Iterator[Finding]:
    choice, spec = subject.choice, subject.spec
    # prose of Latin script has about four characters a token; the prefix takes its share of the limit
    per_token = 4 if spec["rag_text_splitter"] == "character" else 1
    room = choice.embedder.max_tokens - len(choice.document_prefix) // 3 - 2
    tokens = choice.chunk_size / per_token
    if tokens > room:
        unit = "characters" if per_token == 4 else "tokens"
        message = f"A chunk of {choice.chunk_size} {unit} has about {tokens:.0f} tokens; {choice.embedder.id} reads {room} beside its prefix."
        yield CHUNK_SIZE.finding(message, variable="rag_chunk_size")


def hybrid_off(subject: Subject) -> Iterator[Finding]:
    if subject.choice.reranker is not None and not subject.choice.hybrid:
        message = (
            f"rag_reranker is {subject.choice.reranker.id} and rag_hybrid_search is false: the reranker is never asked."
        )
        yield HYBRID_OFF.finding(message, variable="rag_hybrid_search")


RULES = (batch, nothing_to_rerank, chunk_size, hybrid_off)
