# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole way through Open WebUI: upload, store, search; with the proof of both prefixes and of reranking."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._checks import (
    _context,
    _faults,
    _probes,
    _samples,
    _walk,
    formats,
    paths,
)
from ansible_collections.plumbline.rag.plugins.module_utils._findings import Finding
from ansible_collections.plumbline.rag.plugins.module_utils._http import ServiceError
from ansible_collections.plumbline.rag.plugins.module_utils._open_webui import Hits, Upload
from ansible_collections.plumbline.rag.plugins.module_utils._pgvector import Chunk

FALLBACK_SCORE = 1 / 61 + 1e-9  # the highest score of Open WebUI's rank fusion, which it falls back to
SAME_SCORE = 1e-3
_LINKING_SECONDS = 30.0
_MOST_CHUNKS = 50
_SHOWN = 5


async def ingestion(context: _context.Context, before: _context.Before) -> _context.Outcome:
    """Upload our files, ask our questions, read the stored vectors, and remove everything again."""
    impossible = _walk.no_embedding(before)
    if impossible is not None:
        return impossible
    walk = _Ingestion(context, before)
    return await walk.run(walk.steps)


class _Ingestion(_walk.Walk):
    """One knowledge base with our files, step by step."""

    def __init__(self, context: _context.Context, before: _context.Before) -> None:
        super().__init__(context, before)
        self._knowledge = ""
        self._texts: list[Upload] = []
        self._formats: list[formats.File] = []
        self._chat: list[Hits] = []

    async def steps(self) -> None:
        """Each step records what it finds; the first that fails ends the way."""
        await self._create()
        await self._upload(await self._choose())
        plain = await self._ask_plain()
        await self._ask_as_a_chat()
        await formats.ask(self, self._knowledge, self._formats)
        stored = await self._stored()
        if stored:
            formats.count(self, self._knowledge, self._formats, stored)
            await self._prove(stored, plain)
        elif self.context.store is None:
            self.outcome.skipped.append("stored vectors: only a pgvector store can be read")
            await paths.prove_by_scores(self, plain)

    # -- upload --------------------------------------------------------------------------------------------------

    async def _create(self) -> None:
        try:
            self._knowledge = await self.api.create_knowledge(_probes.NAME, _probes.DESCRIPTION)
        except ServiceError as error:
            self.fail(_faults.KNOWLEDGE_FAILED, str(error), _context.OPEN_WEBUI)
        self.ours.append(self._knowledge)

    async def _choose(self) -> list[_samples.Sample]:
        """The files of other formats than text, for those depths that look at them."""
        if self.plan.get("depth") == "quick":
            self.outcome.skipped.append("other formats than text: left out by rag_verify_depth: quick")
            return []
        try:
            return formats.chosen(self, await self.api.retrieval())
        except ServiceError as error:
            self.outcome.skipped.append(f"other formats than text: {error}")
            return []

    async def _upload(self, samples: Sequence[_samples.Sample]) -> None:
        texts = [(f"{_probes.NAME}-{number}.txt", text) for number, text in enumerate(_probes.PASSAGES)]
        self.settled = False
        # All of them come to an end before one that failed ends the way: none may arrive after the cleaning.
        answers = await asyncio.gather(
            *(self._send(name, _probes.file_content(text).encode(), "text/plain") for name, text in texts),
            *(self._send(sample.name, sample.content, sample.mime) for sample in samples),
            return_exceptions=True,
        )
        try:
            ids = [_or_raise(answer) for answer in answers[: len(texts)]]
            sent = formats.refused(self, samples, answers[len(texts) :])
            ids += [file_id for _sample, file_id in sent]
            self.ours += [f"file-{file_id}" for file_id in ids]
            uploads = await self.api.wait_processed(_probes.NAME, ids, _walk.PROCESSING_SECONDS)
        except ServiceError as error:
            self.fail(_faults.INGESTION_FAILED, str(error), _context.OPEN_WEBUI)
        self.settled = all(upload.reason is None or upload.error for upload in uploads)
        self._texts = uploads[: len(texts)]
        failed = [upload.reason for upload in self._texts if upload.reason is not None]
        if failed:
            message = f"Open WebUI could not process {len(failed)} of {len(texts)} text files: {failed[0]}"
            self.fail(_faults.INGESTION_FAILED, message, _context.OPEN_WEBUI)
        self._formats = formats.read(self, [sample for sample, _id in sent], uploads[len(texts) :])
        await self._linked([*self._texts, *(file.upload for file in self._formats)])

    async def _send(self, name: str, content: bytes, mime: str) -> str:
        return await self.api.upload(name, content, mime, self._knowledge)

    async def _linked(self, uploads: Sequence[Upload]) -> None:
        """Older versions say that a file is done before it is in the knowledge base."""
        try:
            ids = [upload.id for upload in uploads]
            missing = await self.api.wait_linked(self._knowledge, ids, _LINKING_SECONDS)
        except ServiceError as error:
            self.fail(_faults.KNOWLEDGE_FAILED, str(error), _context.OPEN_WEBUI)
        if missing:
            message = (
                f"{len(missing)} of {len(ids)} processed files are not in the knowledge base that they were sent to."
            )
            self.fail(_faults.KNOWLEDGE_FAILED, message, _context.OPEN_WEBUI)

    # -- search --------------------------------------------------------------------------------------------------

    async def _ask_plain(self) -> list[Hits]:
        try:
            # Enough for every chunk of ours: the scores of all passages prove the prefixes.
            hits = await asyncio.gather(
                *(self.api.query_vector(self._knowledge, question, _MOST_CHUNKS) for question in _probes.QUESTIONS)
            )
        except ServiceError as error:
            self.fail(_faults.QUERY_FAILED, str(error), _context.OPEN_WEBUI)
        self.outcome.findings += _first("vector search", hits)
        self.outcome.findings += _chunk_model(self.plan["open_webui"]["embedding_model"], hits)
        self.outcome.measurements["vector_search"] = _shown_hits(hits)
        return list(hits)

    async def _ask_as_a_chat(self) -> None:
        plan = self.plan["open_webui"]
        try:
            hits = await asyncio.gather(
                *(
                    self.api.query_collection(self._knowledge, question, bool(plan.get("hybrid")), formats.CANDIDATES)
                    for question in _probes.QUESTIONS
                )
            )
        except ServiceError as error:
            self.fail(_faults.QUERY_FAILED, str(error), _context.OPEN_WEBUI)
        self._chat = list(hits)
        self.outcome.measurements["search"] = _shown_hits(hits)
        if not plan.get("rerank_url") or not plan.get("hybrid"):
            self.outcome.findings += _first("search", hits)
            return
        if any(outcome.failed for name, outcome in self.before.items() if name.startswith("reranking")):
            self.outcome.skipped.append("reranking through Open WebUI: the reranker does not answer rightly")
            return
        fallback = [found for found in hits if is_fallback(found.scores)]
        if fallback:
            message = (
                f"Open WebUI returned the scores {_shown(fallback[0].scores)} for {len(fallback)} of {len(hits)} "
                "questions; reranked scores lie above 1/61."
            )
            self.found(_faults.RERANK_FALLBACK, message, _context.OPEN_WEBUI, "rag_reranker")
            return
        if not all(found.documents for found in hits):
            self.outcome.findings += _first("search", hits)
            return
        route = self.context.rerank_route
        try:
            own = await asyncio.gather(
                *(route.scores(question, found.documents) for question, found in zip(_probes.QUESTIONS, hits))
            )
        except ServiceError as error:
            self.outcome.skipped.append(f"comparison with the reranker's own scores: {error}")
            return
        differences = [_difference(found.scores, scores) for found, scores in zip(hits, own)]
        self.outcome.measurements["largest_difference_to_reranker"] = max(differences)
        if max(differences) > SAME_SCORE:
            message = f"Open WebUI's scores differ by {max(differences):.4f} from those that the reranker gives now."
            self.found(_faults.RERANK_SCORES, message, _context.OPEN_WEBUI, "rag_reranker")
            return
        self.outcome.findings += _first("search", hits)

    # -- proof from the store ------------------------------------------------------------------------------------

    async def _stored(self) -> dict[str, list[Chunk]]:
        store = self.context.store
        if store is None:
            return {}
        try:
            found = await store.chunks(self.ours)
        except ServiceError as error:
            if not self.before["vector store"].failed:
                self.found(_faults.STORE_UNREACHABLE, str(error), _context.VECTOR_STORE)
            return {}
        if not found[self._knowledge] or not all(found[f"file-{upload.id}"] for upload in self._texts):
            message = f"Table {self.plan['vector_store']['table']} has no vector of an uploaded passage."
            self.found(_faults.NOT_STORED, message, _context.VECTOR_STORE, "rag_database_url")
            return {}
        # The engine's real dimension: a wrong one has its own finding.
        wanted = self.before["embedding at the engine"].measurements["dimension"]
        width = len(found[self._knowledge][0].vector)
        if width < wanted:
            message = f"The vector column holds {width} numbers; the model gives {wanted}."
            self.found(_faults.COLUMN, message, _context.VECTOR_STORE, "rag_embedder_dimensions")
            return {}
        # A wider column is filled up with zeros, which change no cosine.
        return {
            name: [Chunk(chunk.text, chunk.vector[:wanted], chunk.metadata) for chunk in chunks]
            for name, chunks in found.items()
        }

    async def _prove(self, stored: Mapping[str, Sequence[Chunk]], plain: Sequence[Hits]) -> None:
        ours = {f"file-{upload.id}": stored[f"file-{upload.id}"] for upload in self._texts}
        texts = {upload.id for upload in self._texts}
        known = [chunk for chunk in stored[self._knowledge] if chunk.metadata.get("file_id") in texts]
        chunks = [*known, *(chunk for found in ours.values() for chunk in found)]
        if any(chunk.text is None for found in stored.values() for chunk in found):
            message = "The texts in the vector store are encrypted (PGVECTOR_PGCRYPTO)."
            self.found(_faults.PREFIX_UNPROVEN, message, _context.VECTOR_STORE, "rag_open_webui_env")
            return
        await paths.prove_document_prefix(self, chunks, "the stored vectors of the uploaded passages")
        await paths.prove_query_prefix(
            self, chunks, list(zip(_probes.QUESTIONS, plain)), "the scores of a plain vector search"
        )
        await paths.file_in_a_chat(self, *next(iter(ours.items())))
        await paths.chat(self, chunks, list(zip(_probes.QUESTIONS, self._chat)))


def _or_raise(answer: str | BaseException) -> str:
    if isinstance(answer, BaseException):
        raise answer
    return answer


def is_fallback(scores: Sequence[float | None]) -> bool:
    """Whether the scores of one answer are those of Open WebUI without a reranker."""
    numbers = [score for score in scores if score is not None]
    # Cosines and logits may be negative; fused ranks are small and positive.
    return len(numbers) < len(scores) or (bool(numbers) and 0 < max(numbers) <= FALLBACK_SCORE and min(numbers) >= 0)


def _first(way: str, hits: Sequence[Hits]) -> Iterator[Finding]:
    """Each question has to find its passage first."""
    for question, passage, found in zip(_probes.QUESTIONS, _probes.PASSAGES, hits):
        if not found.documents:
            message = f"A {way} for {question!r} returned nothing."
        elif found.documents[0].split() != passage.split():
            message = (
                f"A {way} for {question!r} returned {found.documents[0][:60]!r}… first, with {_shown(found.scores)}."
            )
        else:
            continue
        yield _faults.WRONG_CHUNK.finding(message, variable="rag_embedder", hop=_context.OPEN_WEBUI)
        return


def _chunk_model(wanted: str, hits: Sequence[Hits]) -> Iterator[Finding]:
    """The model that Open WebUI noted with each passage."""
    noted = {noted_model(metadata.get("embedding_config")) for found in hits for metadata in found.metadata}
    models = sorted(model for model in noted if model is not None and model != wanted)
    if models:
        message = f"Open WebUI embedded the uploaded passages with {', '.join(models)}; the plan has {wanted}."
        yield _faults.CHUNK_MODEL.finding(message, variable="rag_embedder", hop=_context.OPEN_WEBUI)


def noted_model(noted: Any) -> str | None:
    """The model in Open WebUI's note about a chunk, which is a dictionary or its text."""
    if isinstance(noted, str):
        try:
            noted = ast.literal_eval(noted)
        except (ValueError, SyntaxError):
            return None
    model = noted.get("model") if isinstance(noted, Mapping) else None
    return model if isinstance(model, str) else None


def _shown_hits(hits: Sequence[Hits]) -> list[dict[str, Any]]:
    return [
        {
            "scores": found.scores[:_SHOWN],
            "files": [str(metadata.get("name", "")) for metadata in found.metadata[:_SHOWN]],
        }
        for found in hits
    ]


def _difference(scores: Sequence[float | None], own: Sequence[float]) -> float:
    return max((abs((a or 0.0) - b) for a, b in zip(scores, own)), default=0.0)


def _shown(scores: Sequence[float | None]) -> str:
    return ", ".join("null" if score is None else f"{score:.4f}" for score in scores[:5])
