# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on backends that somebody else runs: what they speak, read and take, and that texts go to them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.plumbline.rag.plugins.module_utils import _hosted
from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, NOTE, WARNING, Finding, register
from ansible_collections.plumbline.rag.plugins.module_utils._rules._subject import Subject

DIALECT = register(
    "PL602",
    ERROR,
    "A backend speaks a dialect of its own and there is no proxy",
    "Open WebUI sends OpenAI's form for embeddings and Cohere's for reranking. Cohere's embeddings and Voyage's reranking have "
    "other fields: uploads fail, or a search keeps the old order without a word.",
    "Set rag_proxy: litellm, which translates.",
    example="rag_embedder_engine: cohere\nrag_proxy: none",
    source="LiteLLM 1.106.12, llms/cohere/embed and llms/voyage/rerank",
    acknowledgeable=False,
)
TWO_PREFIXES = register(
    "PL603",
    ERROR,
    "A prefix is given to a backend that is told the side of a text in a field",
    "Cohere, Voyage and Jina put the prompt of the model before each text themselves, by a field of the request. A prefix in the "
    "text comes on top of it, and Open WebUI has one place for either.",
    "Remove rag_embedder_query_prefix and rag_embedder_document_prefix.",
    example='rag_embedder_engine: cohere\nrag_embedder_query_prefix: "query: "',
    source="Open WebUI retrieval/utils.py: with a field name the prefix goes into the field and not into the text",
)
REMOTE = register(
    "PL604",
    NOTE,
    "Texts leave the house",
    "Every chunk of every uploaded file goes to the embedding backend, and every question with the chunks found for it to the "
    "reranking backend.",
    "Nothing, when that is agreed; otherwise run the engine yourself with tei or vllm.",
    example="rag_embedder_engine: openai",
)
REQUEST = register(
    "PL605",
    ERROR,
    "A request holds more tokens than the backend takes",
    "There is a limit on all texts of a request together. The backend answers 400, and the upload fails; short files work.",
    "Lower rag_embedding_batch_size or rag_chunk_size.",
    example="rag_embedder_engine: openai\nrag_embedding_batch_size: 2048\nrag_chunk_size: 1000",
    source="OpenAI API reference: 300,000 tokens summed across all inputs of an embedding request",
)
WINDOW = register(
    "PL606",
    WARNING,
    "Chunks are longer than Ollama reads unless it is told otherwise",
    "Ollama loads an embedding model with a window of num_ctx tokens, 2048 unless set, whatever the model itself reads. What lies "
    "past it is cut off without a word.",
    "Lower rag_chunk_size, or give the model a num_ctx in a Modelfile and acknowledge this; verification measures the length that "
    "counts.",
    example="rag_embedder_engine: ollama\nrag_chunk_size: 12000",
    source="ollama/ollama#14259, ollama/ollama#3727, ollama/ollama#7008",
)
NAME = register(
    "PL611",
    WARNING,
    "A backend may know the model by another name",
    "It answers 404 for a name that it does not have. Ollama's library has names of its own, and a version or size after a colon.",
    "Set rag_embedder_served_name or rag_reranker_served_name to the name that the backend lists.",
    example="rag_embedder: mixedbread-ai/mxbai-embed-large-v1\nrag_embedder_engine: ollama    # mxbai-embed-large",
    source="open-webui/open-webui#6533",
)


def dialect(subject: Subject) -> Iterator[Finding]:
    if subject.spec["rag_proxy"] != "none":
        return
    for service in subject.services():
        task = "embed" if service.kind == "embedder" else "rerank"
        if task in service.engine.get("dialect", ()):
            message = f"rag_{service.kind}_engine is {service.name} and rag_proxy is none."
            yield DIALECT.finding(message, variable="rag_proxy")


def two_prefixes(subject: Subject) -> Iterator[Finding]:
    field = subject.choice.prefix_field
    for side in ("query", "document") if field is not None else ():
        variable = f"rag_embedder_{side}_prefix"
        if field is not None and subject.spec[variable]:
            message = (
                f"{variable} is set; {subject.choice.embedder_engine} is told with {field['field']}: {field[side]}."
            )
            yield TWO_PREFIXES.finding(message, variable=variable)


def remote(subject: Subject) -> Iterator[Finding]:
    for service in subject.services():
        if service.engine.get("remote") and not _hosted.elsewhere(subject.spec, service.kind, service.engine):
            what = "texts of files" if service.kind == "embedder" else "questions, with the texts found for them,"
            message = f"The {service.kind} is {service.name}: {what} go to it."
            yield REMOTE.finding(message, variable=f"rag_{service.kind}_engine")


def request(subject: Subject) -> Iterator[Finding]:
    choice = subject.choice
    limit = subject.catalog.engines[choice.embedder_engine].get("request_tokens")
    per_token = 4 if subject.spec["rag_text_splitter"] == "character" else 1
    tokens = choice.batch_size * choice.chunk_size // per_token
    if limit is not None and tokens > limit:
        message = f"{choice.batch_size} chunks of {choice.chunk_size} have about {tokens} tokens; {choice.embedder_engine} takes {limit} a request."
        yield REQUEST.finding(message, variable="rag_embedding_batch_size")


def window(subject: Subject) -> Iterator[Finding]:
    choice = subject.choice
    size = subject.catalog.engines[choice.embedder_engine].get("window")
    per_token = 4 if subject.spec["rag_text_splitter"] == "character" else 1
    tokens = choice.chunk_size / per_token + len(choice.document_prefix) / 3
    if size is not None and tokens > size:
        message = f"A chunk has about {tokens:.0f} tokens; {choice.embedder_engine} reads {size} unless num_ctx says otherwise."
        yield WINDOW.finding(message, variable="rag_chunk_size")


def name(subject: Subject) -> Iterator[Finding]:
    for service in subject.services():
        served = _hosted.derived_name(subject.spec, service.kind, service.engine, service.entry)
        if served is not None:
            message = f"{service.name} is asked for {served}, a name made from {service.entry.id}."
            yield NAME.finding(message, variable=f"rag_{service.kind}_served_name")


RULES = (dialect, two_prefixes, remote, request, window, name)
