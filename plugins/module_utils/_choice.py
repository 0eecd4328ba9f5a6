# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was chosen: the models and limits of one installation, before any host or URL. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _hosted
from ansible_collections.plumbline.rag.plugins.module_utils._catalog import Catalog, Embedder, Reranker
from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, Finding, register
from ansible_collections.plumbline.rag.plugins.module_utils._hosted import HOSTED
from ansible_collections.plumbline.rag.plugins.module_utils._spec import Spec, nearest

UNKNOWN_EMBEDDER = register(
    "PL107",
    ERROR,
    "The catalog does not know the embedding model, and its prefixes and dimension are not given",
    "A model without its prefixes answers, with worse vectors; a wrong dimension is padded or cut without a word.",
    "Use a catalog id, or set rag_embedder_query_prefix, rag_embedder_document_prefix (an empty string is an explicit none) "
    "and rag_embedder_dimensions.",
    example='rag_embedder: acme/embed-1\nrag_embedder_query_prefix: ""\nrag_embedder_document_prefix: ""\nrag_embedder_dimensions: 768',
    source="open-webui/open-webui#8594",
    acknowledgeable=False,
)
UNKNOWN_RERANKER = register(
    "PL108",
    ERROR,
    "The catalog does not know the reranking model",
    "Its score range and its quality against no reranking are not known, so nothing can be proven about it.",
    "Use a catalog id, or none.",
    acknowledgeable=False,
)
ENGINE_REFUSED = register(
    "PL109",
    ERROR,
    "The engine does not serve this model",
    "The engine fails at start, or starts and answers with something else.",
    "Choose another engine or another model.",
    source="huggingface/text-embeddings-inference#643, QwenLM/Qwen3-Embedding#93",
    acknowledgeable=False,
)
NO_RERANK = register(
    "PL601",
    ERROR,
    "The backend does not rerank",
    "It has no rerank route, and LiteLLM no driver for one: every search would get an error, which Open WebUI swallows.",
    "Use openrouter, cohere, jina, voyage or an engine of your own for rag_reranker_engine, external for a server with a rerank "
    "route, or rag_reranker: none.",
    example="rag_reranker_engine: openai",
    source="BerriAI/litellm#13793",
    acknowledgeable=False,
)


@dataclasses.dataclass(frozen=True)
class Choice:
    """The resolved models, prefixes and limits of an installation.

    ``max_batch`` None means that the engine refuses no batch size. Chunk sizes are in the splitter's unit. The names are those
    that the engines know the models by; ``prefix_field`` is how a backend is told the side of a text, where not in the text.
    """

    embedder: Embedder
    embedder_engine: str
    reranker: Reranker | None
    reranker_engine: str | None
    query_prefix: str
    document_prefix: str
    prefix_field: Mapping[str, Any] | None
    embed_name: str
    rerank_name: str | None
    dimensions: int
    embed_max_batch: int | None
    rerank_max_batch: int | None
    batch_size: int
    concurrency: int
    hybrid: bool
    top_k: int
    top_k_reranker: int
    chunk_size: int
    chunk_overlap: int


def _refusal(entry: Embedder | Reranker, engine: str, variable: str) -> Finding | None:
    """Why the engine does not serve the model; None when it does, or when the operator runs the engine."""
    support = entry.engines.get(engine)
    if engine in HOSTED or (support is not None and "refused" not in support):
        return None
    reason = (support or {}).get("refused", f"the catalog lists {', '.join(entry.engines)} for it")
    return ENGINE_REFUSED.finding(f"{engine} does not serve {entry.id}: {reason}.", variable=variable)


def _embedder(spec: Spec, catalog: Catalog) -> tuple[Embedder | None, list[Finding]]:
    name, engine = spec["rag_embedder"], spec["rag_embedder_engine"]
    entry = catalog.embedders.get(name) or _hosted.embedder(catalog.engines[engine], name)
    if entry is None:
        given = ("rag_embedder_query_prefix", "rag_embedder_document_prefix", "rag_embedder_dimensions")
        missing = [variable for variable in given if spec[variable] is None]
        if missing:
            close = nearest(name, catalog.embedders)
            message = f"The catalog has no embedder {name}, and {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set."
            remedy = f"Did you mean {close}? Otherwise: {UNKNOWN_EMBEDDER.fix}" if close else None
            return None, [UNKNOWN_EMBEDDER.finding(message, remedy, variable="rag_embedder")]
        query, document = spec["rag_embedder_query_prefix"], spec["rag_embedder_document_prefix"]
        kind = "asymmetric" if document else "query-only" if query else "symmetric"
        return Embedder(name, spec["rag_embedder_dimensions"], (), 512, kind, query, document, True, {}, (), {}), []
    problem = _refusal(entry, engine, "rag_embedder_engine")
    return (entry, []) if problem is None else (None, [problem])


def _reranker(spec: Spec, catalog: Catalog) -> tuple[Reranker | None, list[Finding]]:
    name, engine = spec["rag_reranker"], spec["rag_reranker_engine"]
    if name == "none":
        return None, []
    entry = catalog.rerankers.get(name)
    if engine in HOSTED and catalog.engines[engine]["litellm"]["rerank"] is None:
        message = f"rag_reranker_engine is {engine}, which has no rerank route."
        return None, [NO_RERANK.finding(message, variable="rag_reranker_engine")]
    if entry is None and catalog.engines.get(engine or "", {}).get("remote"):
        return _hosted.reranker(catalog.engines[engine], name), []
    if entry is None:
        close = nearest(name, catalog.rerankers)
        remedy = f"Did you mean {close}?" if close else None
        return None, [UNKNOWN_RERANKER.finding(f"The catalog has no reranker {name}.", remedy, variable="rag_reranker")]
    if engine is None:
        message = f"rag_reranker is {name} and rag_reranker_engine is not set."
        remedy = f"Set it to one of {', '.join(entry.engines)}, or to external with rag_reranker_url."
        return None, [ENGINE_REFUSED.finding(message, remedy, variable="rag_reranker_engine")]
    problem = _refusal(entry, engine, "rag_reranker_engine")
    return (entry, []) if problem is None else (None, [problem])


def flag_value(args: list[Any], flag: str | None) -> int | None:
    """The number that ``flag`` has in an argument list, as ``--flag 8`` or ``--flag=8``; None when it is not there."""
    for position, arg in enumerate(args):
        text = str(arg)
        if flag and text == flag and position + 1 < len(args):
            text = f"{flag}={args[position + 1]}"
        if flag and text.startswith(flag + "="):
            value = text.split("=", 1)[1]
            return int(value) if value.isdecimal() and len(value) < 10 else None
    return None


def _max_batch(engine: Mapping[str, Any], args: list[Any], wanted: int) -> int | None:
    """The batch limit that the engine will have: the operator's flag, else what is wanted when it can be set."""
    limit = engine.get("max_batch")
    if limit is None:
        return None
    given = flag_value(args, engine.get("batch_flag"))
    if given is not None:
        return given
    return max(int(limit), wanted) if engine.get("batch_flag") else int(limit)


def _extra_args(spec: Spec, service: str) -> list[Any]:
    """The operator's arguments of the first host that has any."""
    values = (host[f"rag_{service}_extra_args"] for host in spec.host_values.values())
    return list(next((args for args in values if args), ()))


def choose(spec: Spec, catalog: Catalog) -> tuple[Choice | None, list[Finding]]:
    """The choice of an installation; None with findings when a model or its engine cannot be resolved."""
    embedder, findings = _embedder(spec, catalog)
    reranker, rerank_findings = _reranker(spec, catalog)
    findings += rerank_findings
    if embedder is None or findings:
        return None, findings

    engine = catalog.engines[spec["rag_embedder_engine"]]
    rerank_engine = catalog.engines.get(spec["rag_reranker_engine"] or "", {})
    hybrid = spec["rag_hybrid_search"] if spec["rag_hybrid_search"] is not None else reranker is not None
    top_k = spec["rag_top_k"] or (20 if reranker else 5)
    embed_limit = _max_batch(engine, _extra_args(spec, "embedder"), spec["rag_embedding_batch_size"] or 0)
    # hybrid search hands up to 2 x top_k candidates to the reranker in one request
    if spec["rag_reranker_engine"] in HOSTED:
        rerank_limit = rerank_engine.get("rerank_max_batch")
    else:
        rerank_limit = _max_batch(rerank_engine, _extra_args(spec, "reranker"), 2 * top_k)

    query, document = spec["rag_embedder_query_prefix"], spec["rag_embedder_document_prefix"]
    embed_name = _hosted.served_name(spec, "embedder", engine, embedder)
    rerank_name = _hosted.served_name(spec, "reranker", rerank_engine, reranker) if reranker else None
    # Chinese prose and URLs have little more than one character a token: an engine that does not cut refuses the whole batch
    per_token = 2 if engine.get("truncates") else 1
    room = embedder.max_tokens - 16 - len(embedder.document_prefix if document is None else document) // 3
    in_characters, in_tokens = min(1000, per_token * room), min(512, embedder.max_tokens - 32)
    chunk_size = spec["rag_chunk_size"] or (in_characters if spec["rag_text_splitter"] == "character" else in_tokens)
    return (
        Choice(
            embedder=embedder,
            embedder_engine=spec["rag_embedder_engine"],
            reranker=reranker,
            reranker_engine=spec["rag_reranker_engine"] if reranker else None,
            query_prefix=embedder.query_prefix if query is None else query,
            document_prefix=embedder.document_prefix if document is None else document,
            prefix_field=_hosted.prefix_field(engine, embed_name),
            embed_name=embed_name,
            rerank_name=rerank_name,
            dimensions=spec["rag_embedder_dimensions"] or embedder.dimensions,
            embed_max_batch=embed_limit,
            rerank_max_batch=rerank_limit if reranker else None,
            batch_size=spec["rag_embedding_batch_size"] or min(32, embed_limit or 32),
            concurrency=spec["rag_embedding_concurrency"],
            hybrid=hybrid,
            top_k=top_k,
            top_k_reranker=spec["rag_top_k_reranker"] or min(5, top_k),
            chunk_size=chunk_size,
            chunk_overlap=chunk_size // 10 if spec["rag_chunk_overlap"] is None else spec["rag_chunk_overlap"],
        ),
        findings,
    )
