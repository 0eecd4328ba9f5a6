# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on settings that have no effect, and look as if they had one. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, NOTE, Finding, register
from ansible_collections.plumbline.rag.plugins.module_utils._hosted import HOSTED
from ansible_collections.plumbline.rag.plugins.module_utils._rules._subject import Subject

UNUSED = register(
    "PL129",
    NOTE,
    "A setting belongs to something that is not deployed",
    "It has no effect, and looks as if it had one. A URL of an engine that is not asked is an error: somebody means it to be used.",
    "Remove the variable, or choose what it belongs to.",
    example="rag_reranker: none\nrag_reranker_url: http://gpu1:8001/v1/rerank",
    source="open-webui/docs#1048",
)


def unused(subject: Subject) -> Iterator[Finding]:
    spec, given = subject.spec, subject.spec.given
    reasons: dict[str, str] = {}
    if spec["rag_proxy"] == "none":
        reasons.update(dict.fromkeys((n for n in given if n.startswith("rag_litellm_")), "rag_proxy is none"))
    if spec["rag_vector_store"] != "pgvector":
        reasons.update(dict.fromkeys(("rag_pgvector_halfvec", "rag_pgvector_index"), "rag_vector_store is chroma"))
    for kind, url in (("embedder", "rag_embedder_base_url"), ("reranker", "rag_reranker_url")):
        engine = spec[f"rag_{kind}_engine"]
        if kind == "reranker" and spec["rag_reranker"] == "none":
            names = ("rag_reranker_url", "rag_reranker_engine", "rag_reranker_revision", "rag_reranker_weights")
            reasons.update(dict.fromkeys(names, "rag_reranker is none"))
        elif engine is not None and engine not in HOSTED:
            reasons.update(dict.fromkeys((url, f"rag_{kind}_served_name"), f"rag_{kind}_engine is {engine}"))
        else:
            reasons[f"rag_{kind}_weights"] = f"rag_{kind}_engine is {engine}"
    for _host, images in subject.per_host("rag_images") if spec["rag_image_source"] == "build" else ():
        if images:
            message = "rag_images is set and rag_image_source is build: recipes decide which images are built."
            yield UNUSED.finding(message, variable="rag_images")
    for name in sorted(reasons):
        if name in given and spec[name] not in ("", [], {}):
            severity = ERROR if name.endswith("_url") else NOTE
            yield UNUSED.finding(f"{name} is set and {reasons[name]}.", severity=severity, variable=name)


RULES = (unused,)
