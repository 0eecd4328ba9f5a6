# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on what the catalog knows, and how well. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ansible_collections.plumbline.rag.plugins.module_utils._catalog import Embedder, Reranker
from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, NOTE, Finding, register
from ansible_collections.plumbline.rag.plugins.module_utils._rules._subject import Subject

UNVERIFIED = register(
    "PL118",
    NOTE,
    "The plan relies on values that were not verified",
    "The catalog has them from memory or from a single copy. A wrong prefix, pooling or limit gives valid vectors that find "
    "less, and a wrong expectation lets the proof judge by the wrong measure.",
    "Compare them with the model's own repository before stored vectors depend on them; an entry in rag_catalog_dirs settles it.",
)
UNFIT = register(
    "PL195",
    ERROR,
    "The model cannot do its work behind Open WebUI",
    "Open WebUI sends a text and the name of a model. A model that needs more than that in a request, such as the name of an "
    "adapter, answers with vectors for another purpose.",
    "Choose another model; ansible-playbook plumbline.rag.catalog lists them. Acknowledge it where a gateway adds what is missing.",
    example="rag_embedder: jinaai/jina-embeddings-v3\nrag_embedder_engine: external",
)

_ALWAYS = ("dimensions", "max_tokens", "normalized", "pooling", "post_modules", "score_range")


def unverified(subject: Subject) -> Iterator[Finding]:
    choice, spec = subject.choice, subject.spec
    relied = list(_ALWAYS)
    query, document = spec["rag_embedder_query_prefix"], spec["rag_embedder_document_prefix"]
    if query is None or (document is None and choice.embedder.document_prefix):
        relied.append("prefixes")
    if choice.dimensions != choice.embedder.dimensions:
        relied.append("matryoshka")
    yield from _of(choice.embedder, choice.embedder_engine, relied, "rag_embedder")
    if choice.reranker is not None:
        yield from _of(choice.reranker, choice.reranker_engine or "", relied, "rag_reranker")


def _of(entry: Embedder | Reranker, engine: str, relied: Sequence[str], variable: str) -> Iterator[Finding]:
    fields = [name for name in entry.raw.get("unverified", ()) if name in (*relied, f"engines.{engine}")]
    doubt = entry.engines.get(engine, {}).get("unverified")
    parts = [f"{', '.join(fields)} in the catalog {'is' if len(fields) == 1 else 'are'} not verified"] if fields else []
    parts += [f"its service by {engine} is not certain: {doubt}"] if doubt else []
    if parts:
        yield UNVERIFIED.finding(f"{entry.id}: {'; '.join(parts)}.", variable=variable)


def unfit(subject: Subject) -> Iterator[Finding]:
    for variable, entry in (("rag_embedder", subject.choice.embedder), ("rag_reranker", subject.choice.reranker)):
        if entry is not None and "unfit" in entry.raw:
            yield UNFIT.finding(f"{entry.id}: {entry.raw['unfit']}", variable=variable)


RULES = (unverified, unfit)
