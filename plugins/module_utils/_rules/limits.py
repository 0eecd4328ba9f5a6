# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on batches, requests, chunk sizes and other numbers. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, WARNING, Finding, register
from ansible_collections.plumbline.rag.plugins.module_utils._rules._subject import Service, Subject, number, truthy

BATCH = register(
    "PL140",
    ERROR,
    "A batch is larger than the engine takes",
    "The engine refuses the whole request. For embeddings the upload fails; for reranking Open WebUI swallows the 422 and "
    "keeps the old order.",
    "Lower the batch or top_k, or raise the engine's limit in its extra arguments.",
    example="rag_embedding_batch_size: 64\nrag_embedder_extra_args: [--max-client-batch-size, '32']",
    source="huggingface/text-embeddings-inference#378, stacklok/toolhive#4029",
)
NOTHING_TO_RERANK = register(
    "PL141",
    WARNING,
    "The reranker has nothing to choose from",
    "rag_top_k is the number of candidates that the reranker sees and rag_top_k_reranker what it keeps. With both equal "
    "it changes the order and never the selection.",
    "Set rag_top_k well above rag_top_k_reranker, for example 20 and 5.",
    example="rag_top_k: 3\nrag_top_k_reranker: 3",
    source="Open WebUI 0.11.4: both are 3 by default, and the reranker sees rag_top_k documents",
)
CHUNK_SIZE = register(
    "PL142",
    ERROR,
    "Chunks are longer than the model reads",
    "What lies past the token limit is refused or cut off, so that it can never be found.",
    "Lower rag_chunk_size, or choose a model with a larger limit.",
    example="rag_embedder: sentence-transformers/all-MiniLM-L6-v2    # 256 tokens\nrag_chunk_size: 4000",
    source="vllm-project/vllm#19798, huggingface/text-embeddings-inference#763",
)
HYBRID_OFF = register(
    "PL143",
    ERROR,
    "A reranker is set and hybrid search is off",
    "Open WebUI reaches its reranker only through hybrid search. It is deployed, it costs memory, and it is never asked.",
    "Remove rag_hybrid_search, or set it to true, or set rag_reranker to none.",
    example="rag_reranker: BAAI/bge-reranker-v2-m3\nrag_hybrid_search: false",
    source="open-webui/open-webui#1756, open-webui/docs#1269",
)
PAYLOAD = register(
    "PL144",
    ERROR,
    "A request is larger than the engine's payload limit",
    "The engine refuses the body with 413 before it reads it, and writes nothing into its log. Small files work.",
    "Lower rag_embedding_batch_size, rag_top_k or rag_chunk_size, or raise the engine's limit.",
    example="rag_embedder_engine: tei\nrag_embedding_batch_size: 1024\nrag_chunk_size: 4000",
    source="huggingface/text-embeddings-inference#50",
)
PERMITS = register(
    "PL145",
    ERROR,
    "More texts are in flight than the engine has permits",
    "Every text takes a permit, without waiting for one: the engine answers 429, and Open WebUI has no retry, so the upload "
    "fails.",
    "Lower rag_embedding_concurrency or rag_embedding_batch_size, or raise --max-concurrent-requests.",
    example="rag_embedder_engine: tei\nrag_embedding_batch_size: 128\nrag_embedding_concurrency: 8",
    source="huggingface/text-embeddings-inference#662, open-webui/open-webui#20683",
)
UNLIMITED = register(
    "PL146",
    ERROR,
    "Embedding requests are not limited",
    "Zero means no limit for Open WebUI: a document is sent as all its batches at once, and the engine refuses, or the "
    "provider answers 429.",
    "Set rag_embedding_concurrency to 1 or more; 4 is the default here.",
    example="rag_embedding_concurrency: 0",
    source="open-webui/open-webui#20683",
)
RERANK_LENGTH = register(
    "PL149",
    ERROR,
    "A query with a chunk is longer than the reranker reads",
    "An engine that does not cut answers 400 or 422 for the whole request, and Open WebUI keeps the old order without a word; "
    "one that cuts judges the beginning of the chunk only.",
    "Lower rag_chunk_size, or choose a reranker with a larger limit.",
    example="rag_reranker: BAAI/bge-reranker-v2-m3    # 1024 tokens\nrag_reranker_engine: vllm\nrag_chunk_size: 8000",
    source="vllm-project/vllm#19798; LiteLLM up to 1.108.14 sends truncate: false",
)
OUT_OF_RANGE = register(
    "PL158",
    ERROR,
    "A number is outside its range",
    "Open WebUI takes any number: a search then returns nothing, uploads fail, or the port cannot be opened.",
    "Give a number of the range.",
    example="rag_bm25_weight: 50    # 0.5",
    source="Open WebUI config.py: bare int() and float(), without a range",
    acknowledgeable=False,
)
TOKENIZER = register(
    "PL159",
    ERROR,
    "The text splitter has no tokenizer",
    "The splitter token fetches its vocabulary from the internet at the first upload, offline or not, and token_transformers "
    "needs the name of a tokenizer.",
    "Use rag_text_splitter: character, or set RAG_TOKENIZER_MODEL in rag_open_webui_env.",
    example="rag_text_splitter: token\nrag_open_webui_env:\n  OFFLINE_MODE: true",
    source="Open WebUI 0.11.4: OFFLINE_MODE does not stop the download of a tiktoken vocabulary",
)
DENSE_TEXT = register(
    "PL187",
    WARNING,
    "Dense text does not fit into the model",
    "Chinese, Japanese and Korean text, URLs and tables have one to two characters a token. The engine does not cut: it "
    "refuses such a chunk, and with it the whole batch.",
    "Lower rag_chunk_size to the token limit, or leave it out to have it derived.",
    example="rag_embedder: intfloat/multilingual-e5-small    # 512 tokens\nrag_chunk_size: 1900",
    source="vllm-project/vllm#19798, vllm-project/vllm#20744",
)
RANGES: dict[str, tuple[float, float]] = {
    "rag_embedder_dimensions": (1, 65536),
    "rag_top_k": (1, 1000),
    "rag_top_k_reranker": (1, 1000),
    "rag_bm25_weight": (0, 1),
    "rag_chunk_size": (1, 1_000_000),
    "rag_chunk_overlap": (0, 1_000_000),
    "rag_embedding_concurrency": (0, 10_000),
    "rag_reranker_timeout": (1, 3600),
    "rag_gpu_tflops": (0.01, 100_000),
    "rag_gpu_efficiency": (0.001, 1),
    "rag_gpu_memory": (1, 10_000),
    "rag_open_webui_replicas": (1, 100),
    "rag_open_webui_port": (1, 65535),
}


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


def _texts(subject: Subject, service: Service) -> tuple[int, str]:
    """How many texts one request has, and the variable that decides it."""
    if service.kind == "embedder":
        return subject.choice.batch_size, "rag_embedding_batch_size"
    return 2 * subject.choice.top_k, "rag_top_k"


def _limit(subject: Subject, service: Service, name: str, value: str) -> int | None:
    """A limit of the engine: the operator's flag where it is given, else the catalog's; None when there is none."""
    known = service.engine.get(name)
    if known is None:
        return None
    given = [number(value) for _host, flag, value in subject.flags(service.kind) if flag == known["flag"]]
    return next((limit for limit in given if limit is not None), int(known[value]))


def payload(subject: Subject) -> Iterator[Finding]:
    choice, spec = subject.choice, subject.spec
    # characters of one to four bytes; a token has about four characters
    characters = choice.chunk_size * (1 if spec["rag_text_splitter"] == "character" else 4)
    for service in subject.services():
        limit = _limit(subject, service, "payload", "bytes")
        texts, variable = _texts(subject, service)
        least, most = texts * characters, texts * characters * 4
        if limit is not None and most > limit:
            message = f"{texts} chunks of {characters} characters are {least} to {most} bytes; {service.name} takes {limit} a request."
            severity = ERROR if least > limit else WARNING
            yield PAYLOAD.finding(message, severity=severity, variable=variable)


def permits(subject: Subject) -> Iterator[Finding]:
    choice = subject.choice
    for service in subject.services():
        limit = _limit(subject, service, "permits", "number")
        texts, variable = _texts(subject, service)
        requests = max(choice.concurrency, 1) if service.kind == "embedder" else 1
        if limit is None:
            continue
        if texts * requests > limit:
            message = (
                f"{requests} requests of {texts} texts need {texts * requests} permits; {service.name} has {limit}."
            )
            yield PERMITS.finding(message, variable=variable)
        elif texts * requests * subject.processes() > limit:
            message = (
                f"{subject.processes()} processes of Open WebUI with {requests} requests of {texts} texts each need more "
                f"than the {limit} permits of {service.name} when they work at once."
            )
            yield PERMITS.finding(message, severity=WARNING, variable=variable)


def unlimited(subject: Subject) -> Iterator[Finding]:
    if subject.choice.concurrency == 0:
        message = "rag_embedding_concurrency is 0, which is no limit: all batches of a document are sent at once."
        yield UNLIMITED.finding(message, variable="rag_embedding_concurrency")


def rerank_length(subject: Subject) -> Iterator[Finding]:
    choice, spec = subject.choice, subject.spec
    reranker = choice.reranker
    if reranker is None:
        return
    tokens = choice.chunk_size / (4 if spec["rag_text_splitter"] == "character" else 1)
    question = 64  # tokens of a question of some length, and the separators
    trained = reranker.raw.get("max_tokens_trained", reranker.max_tokens)
    if tokens + question <= min(trained, reranker.max_tokens):
        return
    message = f"A chunk of about {tokens:.0f} tokens does not fit beside a question into {reranker.id}, which "
    if tokens + question <= reranker.max_tokens:
        message += f"was trained on {trained} tokens."
        yield RERANK_LENGTH.finding(message, severity=WARNING, variable="rag_chunk_size")
        return
    engine = subject.catalog.engines.get(str(choice.reranker_engine), {})
    refuses = engine.get("truncates") is False or (
        choice.reranker_engine == "tei"
        and spec["rag_proxy"] == "litellm"
        and subject.older("litellm", subject.catalog.versions["litellm"]["rerank_truncate_from"])
    )
    effect = "refuses the whole request" if refuses else "judges the beginning only"
    message += f"reads {reranker.max_tokens}; {choice.reranker_engine} {effect}."
    yield RERANK_LENGTH.finding(message, severity=ERROR if refuses else WARNING, variable="rag_chunk_size")


def out_of_range(subject: Subject) -> Iterator[Finding]:
    spec = subject.spec
    for variable, (least, most) in RANGES.items():
        values = dict(subject.per_host(variable)) if variable in next(iter(spec.host_values.values()), {}) else {}
        for host, value in values.items() or [("", spec[variable])]:
            if value is not None and not least <= value <= most:
                place = {"host": host} if host else {}
                message = f"{variable} is {value}; {least:g} to {most:g} are possible."
                yield OUT_OF_RANGE.finding(message, variable=variable, **place)
    if subject.choice.chunk_overlap >= subject.choice.chunk_size > 0:
        message = f"rag_chunk_overlap ({subject.choice.chunk_overlap}) is not below rag_chunk_size ({subject.choice.chunk_size})."
        yield OUT_OF_RANGE.finding(message, variable="rag_chunk_overlap")


def tokenizer(subject: Subject) -> Iterator[Finding]:
    spec, env = subject.spec, subject.env
    splitter = spec["rag_text_splitter"]
    if splitter == "token_transformers" and not str(env.get("RAG_TOKENIZER_MODEL", "")).strip():
        message = "rag_text_splitter is token_transformers and RAG_TOKENIZER_MODEL is not set."
        yield TOKENIZER.finding(message, variable="rag_text_splitter")
    elif splitter == "token" and (truthy(env.get("OFFLINE_MODE")) or spec["rag_image_source"] == "archive"):
        cause = "OFFLINE_MODE is true" if truthy(env.get("OFFLINE_MODE")) else "rag_image_source is archive"
        message = f"rag_text_splitter is token, which fetches its vocabulary at the first upload, and {cause}."
        yield TOKENIZER.finding(message, severity=WARNING, variable="rag_text_splitter")


def dense_text(subject: Subject) -> Iterator[Finding]:
    choice, spec = subject.choice, subject.spec
    engine = subject.catalog.engines[choice.embedder_engine]
    if engine.get("truncates") is not False or spec["rag_text_splitter"] != "character":
        return
    room = choice.embedder.max_tokens - len(choice.document_prefix) // 3 - 2
    if choice.chunk_size / 4 <= room < choice.chunk_size:
        message = (
            f"A chunk of {choice.chunk_size} characters has {choice.chunk_size // 4} tokens in English and up to four times as many "
            f"in dense text; {choice.embedder.id} reads {room} beside its prefix, and {choice.embedder_engine} refuses what is longer."
        )
        yield DENSE_TEXT.finding(message, variable="rag_chunk_size")


RULES = (
    batch,
    nothing_to_rerank,
    chunk_size,
    hybrid_off,
    payload,
    permits,
    unlimited,
    rerank_length,
    out_of_range,
    tokenizer,
    dense_text,
)
