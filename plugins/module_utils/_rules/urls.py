# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on URLs and routes. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from ansible_collections.plumbline.rag.plugins.module_utils import _hosted
from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, NOTE, WARNING, Finding, register
from ansible_collections.plumbline.rag.plugins.module_utils._hosted import HOSTED
from ansible_collections.plumbline.rag.plugins.module_utils._rules._subject import Subject

URL_GRAMMAR = register(
    "PL120",
    ERROR,
    "A URL is not of the form that its client expects",
    "Open WebUI appends /embeddings to the base URL and nothing to the rerank URL, and repairs neither: "
    "the answer is a 404 that shows up as an empty error, or a reranker that is silently skipped.",
    "Give rag_embedder_base_url as scheme://host[:port]/v1 without a trailing slash, and rag_reranker_url with its full path.",
    example="rag_embedder_base_url: http://gpu1:8000/v1/embeddings    # http://gpu1:8000/v1",
    source="open-webui/docs#797, ggml-org/llama.cpp#14977",
    acknowledgeable=False,
)
TEI_NEEDS_PROXY = register(
    "PL121",
    ERROR,
    "TEI reranks without a proxy",
    "TEI's /rerank takes texts and answers with a bare list; Open WebUI sends documents and reads results. "
    "It gets a 422, logs it, and keeps the old order.",
    "Set rag_proxy: litellm, or serve the reranker with vLLM.",
    example="rag_reranker_engine: tei\nrag_proxy: none",
    source="open-webui/open-webui#22895, CortexReach/memory-lancedb-pro#196, langgenius/dify#7310",
    acknowledgeable=False,
)
NO_PATH = register(
    "PL112",
    ERROR,
    "The embedding URL has no path",
    "OpenAI-style servers answer below /v1. Only /embeddings is appended: at the root there is a 404, or a page that is no JSON.",
    "Add the server's path, which is /v1 nearly everywhere.",
    example="rag_embedder_base_url: http://gpu1:8000    # http://gpu1:8000/v1",
    source="open-webui/open-webui#8697",
)
UNGUARDED = register(
    "PL113",
    WARNING,
    "The rerank URL is a route that TEI or no key answers",
    "A path of /rerank alone is TEI's, which speaks another dialect, or vLLM's second route, which takes no notice of the key.",
    "Use /v1/rerank.",
    example="rag_reranker_url: http://gpu1:8000/rerank",
    source="HKUDS/LightRAG#3403; vLLM guards only paths below /v1, /v2, /inference and /cohere",
)
LOOPBACK = register(
    "PL114",
    ERROR,
    "A URL points at the container itself",
    "localhost inside a container is the container. Nothing listens there, and Open WebUI shows an empty error.",
    "Use the name or address under which other machines reach the service.",
    example="rag_embedder_base_url: http://localhost:8000/v1",
    source="opea-project/GenAIComps#1133",
)
CHAT_URL = register(
    "PL116",
    NOTE,
    "OPENAI_API_BASE_URL is the URL for chat",
    "Open WebUI does not use it for embeddings: without a URL of its own for them it sends documents to api.openai.com. The "
    "plan sets that URL, so that this one decides about chat only.",
    "Nothing, when chat is what is meant; otherwise use rag_embedder_base_url.",
    example="rag_open_webui_env:\n  OPENAI_API_BASE_URL: http://gpu1:8000/v1",
    source="open-webui/open-webui#8697",
)
NO_PROXY = register(
    "PL115",
    WARNING,
    "A web proxy stands between Open WebUI and its engines",
    "Both of Open WebUI's HTTP clients obey the proxy variables: calls inside the stack go to the web proxy, which does not know "
    "the names of the containers.",
    "Set NO_PROXY to the hosts of the stack.",
    example="rag_open_webui_env:\n  HTTP_PROXY: http://proxy:3128    # and no NO_PROXY",
    source="Open WebUI 0.11.4: trust_env is on for embedding calls",
)


def _problem(url: str) -> str | None:
    """What is wrong with a URL in general, or None."""
    if url != url.strip() or any(quote in url for quote in "\"'"):
        return "has blanks or quotes, which are sent as they are"
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid:
        return "is not http://host[:port]/path or https://host[:port]/path"
    return "has a query or fragment" if parts.query or parts.fragment else None


def url_grammar(subject: Subject) -> Iterator[Finding]:
    spec = subject.spec
    engines = subject.catalog.engines
    base, hosted = spec["rag_embedder_base_url"], subject.choice.embedder_engine in HOSTED
    if hosted and not _hosted.base_url(spec, engines[subject.choice.embedder_engine]):
        message = f"rag_embedder_engine is {subject.choice.embedder_engine} and rag_embedder_base_url is not set."
        yield URL_GRAMMAR.finding(message, variable="rag_embedder_base_url")
    elif base:
        problem = _problem(base)
        if problem is None and base.rstrip("/").endswith("/embeddings"):
            problem = "ends with /embeddings, which the client appends itself"
        if problem is None and base.rstrip("/").endswith("/rerank"):
            problem = "is a rerank URL"
        if problem is None and base.endswith("/"):
            problem = "ends with a slash, which makes //embeddings"
        if problem is not None:
            yield URL_GRAMMAR.finding(f"rag_embedder_base_url {problem}: {base}", variable="rag_embedder_base_url")
    url, hosted = spec["rag_reranker_url"], subject.choice.reranker_engine in HOSTED
    if hosted and not _hosted.rerank_url(spec, engines[str(subject.choice.reranker_engine)]):
        message = f"rag_reranker_engine is {subject.choice.reranker_engine} and rag_reranker_url is not set."
        yield URL_GRAMMAR.finding(message, variable="rag_reranker_url")
    elif url:
        problem = _problem(url)
        if problem is None and not urlsplit(url).path.endswith("/rerank"):
            problem = "does not end with the rerank path, and nothing is appended to it"
        if problem is None and url == base:
            problem = "is rag_embedder_base_url"
        if problem is not None:
            yield URL_GRAMMAR.finding(f"rag_reranker_url {problem}: {url}", variable="rag_reranker_url")


def tei_needs_proxy(subject: Subject) -> Iterator[Finding]:
    if subject.choice.reranker_engine == "tei" and subject.spec["rag_proxy"] == "none":
        yield TEI_NEEDS_PROXY.finding("rag_reranker_engine is tei and rag_proxy is none.", variable="rag_proxy")


def no_path(subject: Subject) -> Iterator[Finding]:
    base = subject.spec["rag_embedder_base_url"]
    if base and _problem(base) is None and not urlsplit(base).path:
        yield NO_PATH.finding(f"rag_embedder_base_url has no path: {base}", variable="rag_embedder_base_url")


def unguarded(subject: Subject) -> Iterator[Finding]:
    url = subject.spec["rag_reranker_url"]
    if url and _problem(url) is None and urlsplit(url).path == "/rerank" and subject.spec["rag_proxy"] == "none":
        yield UNGUARDED.finding(f"rag_reranker_url is {url}.", variable="rag_reranker_url")


def _local(url: str) -> bool:
    """Whether a URL points at the machine that it is used on."""
    try:
        name = (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return False
    return name in ("localhost", "::1", "0.0.0.0") or name.startswith("127.")


def loopback(subject: Subject) -> Iterator[Finding]:
    for variable in ("rag_embedder_base_url", "rag_reranker_url"):
        if _local(subject.spec[variable] or ""):
            yield LOOPBACK.finding(f"{variable} is {subject.spec[variable]}.", variable=variable)
    if _local(subject.secrets.get("rag_database_url", "")):
        yield LOOPBACK.finding("rag_database_url names this machine as its host.", variable="rag_database_url")


def chat_url(subject: Subject) -> Iterator[Finding]:
    for name in ("OPENAI_API_BASE_URL", "OPENAI_API_BASE_URLS"):
        if name in subject.env:
            message = f"rag_open_webui_env sets {name}, which embeddings do not use."
            yield CHAT_URL.finding(message, variable="rag_open_webui_env")


def no_proxy(subject: Subject) -> Iterator[Finding]:
    names = {name.lower(): name for name in subject.env}
    given = [names[name] for name in ("http_proxy", "all_proxy") if name in names]
    if given and not str(subject.env.get(names.get("no_proxy", ""), "")).strip():
        message = f"rag_open_webui_env sets {given[0]} and no NO_PROXY."
        yield NO_PROXY.finding(message, variable="rag_open_webui_env")


RULES = (url_grammar, tei_needs_proxy, no_path, unguarded, loopback, chat_url, no_proxy)
