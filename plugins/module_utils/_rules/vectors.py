# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on dimensions and the vector store. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, Finding, register
from ansible_collections.plumbline.rag.plugins.module_utils._rules._subject import Subject

DIMENSIONS = register(
    "PL160",
    ERROR,
    "The dimension does not fit the model or the vector store",
    "pgvector pads shorter vectors with zeros and cuts longer ones, silently; a model that was not trained for a shorter "
    "vector gives a useless one.",
    "Remove rag_embedder_dimensions, or use one of the model's own; above 2000 dimensions use half precision.",
    example="rag_embedder: BAAI/bge-m3\nrag_embedder_dimensions: 256",
)

REDUCED = register(
    "PL161",
    ERROR,
    "Reduced vectors are asked for and nothing in the chain makes them",
    "Open WebUI asks for no dimension, so full vectors arrive and pgvector cuts them off without normalising them again.",
    "Remove rag_embedder_dimensions; this release deploys full vectors only.",
    example="rag_embedder: Qwen/Qwen3-Embedding-0.6B\nrag_embedder_dimensions: 256",
)


def dimensions(subject: Subject) -> Iterator[Finding]:
    choice, spec = subject.choice, subject.spec
    entry = choice.embedder
    if choice.dimensions != entry.dimensions and choice.dimensions not in entry.matryoshka:
        allowed = ", ".join(str(size) for size in (*entry.matryoshka, entry.dimensions))
        message = f"rag_embedder_dimensions is {choice.dimensions}; {entry.id} has {allowed}."
        yield DIMENSIONS.finding(message, variable="rag_embedder_dimensions")
    elif choice.dimensions != entry.dimensions:
        message = f"rag_embedder_dimensions is {choice.dimensions}; {entry.id} would send {entry.dimensions}."
        yield REDUCED.finding(message, variable="rag_embedder_dimensions")
    if spec["rag_vector_store"] == "pgvector" and choice.dimensions > 2000 and spec["rag_pgvector_halfvec"] is False:
        message = f"rag_pgvector_halfvec is false and the vectors have {choice.dimensions} dimensions; pgvector indexes 2000 at full precision."
        yield DIMENSIONS.finding(message, variable="rag_pgvector_halfvec")


RULES = (dimensions,)
