# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on URLs and routes. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from ansible_collections.plumbline.rag.plugins.module_utils._choice import HOSTED
from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, Finding, register
from ansible_collections.plumbline.rag.plugins.module_utils._rules._subject import Subject

URL_GRAMMAR = register(
    "PL120",
    ERROR,
    "A URL is not of the form that its client expects",
    "Open WebUI appends /embeddings to the base URL and nothing to the rerank URL, and repairs neither: "
    "the answer is a 404 that shows up as an empty error, or a reranker that is silently skipped.",
    "Give rag_embedder_base_url as scheme://host[:port]/v1 without a trailing slash, and rag_reranker_url with its full path.",
    example="rag_embedder_base_url: http://gpu1:8000/v1/embeddings    # http://gpu1:8000/v1",
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
    acknowledgeable=False,
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
    base, hosted = spec["rag_embedder_base_url"], subject.choice.embedder_engine in HOSTED
    if hosted and not base:
        message = f"rag_embedder_engine is {subject.choice.embedder_engine} and rag_embedder_base_url is not set."
        yield URL_GRAMMAR.finding(message, variable="rag_embedder_base_url")
    elif base:
        problem = _problem(base)
        if problem is None and base.rstrip("/").endswith("/embeddings"):
            problem = "ends with /embeddings, which the client appends itself"
        if problem is None and base.endswith("/"):
            problem = "ends with a slash, which makes //embeddings"
        if problem is not None:
            yield URL_GRAMMAR.finding(f"rag_embedder_base_url {problem}: {base}", variable="rag_embedder_base_url")
    url, hosted = spec["rag_reranker_url"], subject.choice.reranker_engine in HOSTED
    if hosted and not url:
        message = f"rag_reranker_engine is {subject.choice.reranker_engine} and rag_reranker_url is not set."
        yield URL_GRAMMAR.finding(message, variable="rag_reranker_url")
    elif url:
        problem = _problem(url)
        if problem is None and not urlsplit(url).path.endswith("/rerank"):
            problem = "does not end with the rerank path, and nothing is appended to it"
        if problem is not None:
            yield URL_GRAMMAR.finding(f"rag_reranker_url {problem}: {url}", variable="rag_reranker_url")


def tei_needs_proxy(subject: Subject) -> Iterator[Finding]:
    if subject.choice.reranker_engine == "tei" and subject.spec["rag_proxy"] == "none":
        yield TEI_NEEDS_PROXY.finding("rag_reranker_engine is tei and rag_proxy is none.", variable="rag_proxy")


RULES = (url_grammar, tei_needs_proxy)
