# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole way through Open WebUI: upload, store, search; with the proof of both prefixes and of reranking."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _vectors
from ansible_collections.plumbline.rag.plugins.module_utils._checks import _context, _faults, _probes, prefix
from ansible_collections.plumbline.rag.plugins.module_utils._findings import Finding, Rule
from ansible_collections.plumbline.rag.plugins.module_utils._http import ServiceError
from ansible_collections.plumbline.rag.plugins.module_utils._open_webui import Hits
from ansible_collections.plumbline.rag.plugins.module_utils._pgvector import Chunk

FALLBACK_SCORE = 1 / 61 + 1e-9  # the highest score of Open WebUI's rank fusion, which it falls back to
SAME_SCORE = 1e-3
_PROCESSING_SECONDS = 120.0
_CLEANING_SECONDS = 60.0
_SETTLING_SECONDS = 20.0
_DEFAULT_BATCH = 32
_OTHER_SIDE = {"query": "document_prefix", "document": "query_prefix"}


class _Stop(Exception):
    """The way ends here; its finding is recorded."""


async def ingestion(context: _context.Context, before: _context.Before) -> _context.Outcome:
    """Upload our passages, ask our questions, read the stored vectors, and remove everything again."""
    embedding = [outcome for name, outcome in before.items() if name.startswith("embedding")]
    if any(
        "dimension" not in one.measurements or one.has(_faults.EMBEDDING_FAILED, _faults.COUNT, _faults.INVALID_VECTOR)
        for one in embedding
    ):
        return _context.Outcome(skipped=["no embedding can be made, so no file can be processed"])
    if any(one.has(_faults.ORDER, _faults.BATCH, _faults.UNSTABLE) for one in embedding):
        return _context.Outcome(skipped=["the same text gets different vectors, so nothing stored can be proven"])
    await context.open_webui.sign_in()
    walk = _Walk(context, before)
    try:
        await walk.run()
    except _Stop:
        pass
    finally:
        # Also after a failure or an interrupt, and to the end: nothing of ours may stay.
        await asyncio.shield(asyncio.wait_for(walk.clean(), _CLEANING_SECONDS))
    return walk.outcome


class _Walk:
    """One way through Open WebUI, step by step."""

    def __init__(self, context: _context.Context, before: _context.Before) -> None:
        self._context = context
        self._before = before
        self._api = context.open_webui
        self._plan = context.plan
        self._files: list[str] = []
        self._processed = False
        self._knowledge = ""
        self._ours: list[str] = []
        self.outcome = _context.Outcome()

    async def run(self) -> None:
        """The steps in order; each records what it finds, and the first that fails ends the way."""
        await self._remove_leftovers()
        await self._upload()
        await self._fill()
        plain = await self._ask_plain()
        await self._ask_as_a_chat()
        chunks = await self._stored()
        if chunks:
            await self._prove_document_prefix(chunks)
            await self._prove_query_prefix(chunks, plain)

    async def clean(self) -> None:
        """Remove what this run or an interrupted earlier one left; a failure is a finding of its own."""
        self._context.http.lift_budget()
        try:
            await self._remove(settle=not self._processed)
        except ServiceError as error:
            self._found(_faults.LEFTOVERS, str(error), _context.OPEN_WEBUI)
            return
        if self._context.store is None or not self._ours:
            return
        try:
            left = await self._context.store.count(self._ours)
        except ServiceError:
            return  # an unreadable store has its own finding
        if left:
            message = f"{left} chunks of removed files remain in the vector store."
            self._found(_faults.LEFTOVERS, message, _context.VECTOR_STORE)

    # -- upload --------------------------------------------------------------------------------------------------

    async def _remove_leftovers(self) -> None:
        try:
            await self._remove(settle=False)
        except ServiceError as error:
            self._fail(_faults.LEFTOVERS, str(error), _context.OPEN_WEBUI)

    async def _remove(self, settle: bool) -> None:
        """The knowledge bases first: removing a file that is in one costs a search in each.

        ``settle`` waits for processing that still runs: it would store vectors of a file that is gone.
        """
        files, knowledge = await asyncio.gather(
            self._api.find_files(_probes.NAME), self._api.find_knowledge(_probes.NAME)
        )
        for found in knowledge:
            await self._api.delete_knowledge(found)
        if settle:
            await asyncio.gather(*(self._api.wait_processed(found, _SETTLING_SECONDS) for found in files))
        await asyncio.gather(*(self._api.delete_file(found) for found in files))

    async def _upload(self) -> None:
        names = [f"{_probes.NAME}-{number}.txt" for number in range(len(_probes.PASSAGES))]
        try:
            self._files = list(
                await asyncio.gather(
                    *(self._api.upload(name, _probes.file_content(text)) for name, text in zip(names, _probes.PASSAGES))
                )
            )
            self._ours += [f"file-{file_id}" for file_id in self._files]
            reasons = await asyncio.gather(*(self._api.wait_processed(f, _PROCESSING_SECONDS) for f in self._files))
        except ServiceError as error:
            self._fail(_faults.INGESTION_FAILED, str(error), _context.OPEN_WEBUI)
        self._processed = True
        failed = [reason for reason in reasons if reason is not None]
        if failed:
            message = f"Open WebUI could not process {len(failed)} of {len(reasons)} text files: {failed[0]}"
            self._fail(_faults.INGESTION_FAILED, message, _context.OPEN_WEBUI)

    async def _fill(self) -> None:
        try:
            self._knowledge = await self._api.create_knowledge(_probes.NAME, "Probe of plumbline.rag; safe to delete.")
            self._ours.append(self._knowledge)
            for file_id in self._files:
                await self._api.add_file(self._knowledge, file_id)
        except ServiceError as error:
            self._fail(_faults.KNOWLEDGE_FAILED, str(error), _context.OPEN_WEBUI)

    # -- search --------------------------------------------------------------------------------------------------

    async def _ask_plain(self) -> list[Hits]:
        try:
            hits = await asyncio.gather(
                *(
                    self._api.query_vector(self._knowledge, question, len(_probes.PASSAGES))
                    for question in _probes.QUESTIONS
                )
            )
        except ServiceError as error:
            self._fail(_faults.QUERY_FAILED, str(error), _context.OPEN_WEBUI)
        self.outcome.findings += _first("vector search", hits)
        self.outcome.findings += _chunk_model(self._plan["open_webui"]["embedding_model"], hits)
        self.outcome.measurements["vector_search"] = [
            {"scores": found.scores, "files": _names(found)} for found in hits
        ]
        return list(hits)

    async def _ask_as_a_chat(self) -> None:
        plan = self._plan["open_webui"]
        try:
            hits = await asyncio.gather(
                *(
                    self._api.query_collection(self._knowledge, question, bool(plan.get("hybrid")))
                    for question in _probes.QUESTIONS
                )
            )
        except ServiceError as error:
            self._fail(_faults.QUERY_FAILED, str(error), _context.OPEN_WEBUI)
        self.outcome.measurements["search"] = [{"scores": found.scores, "files": _names(found)} for found in hits]
        if not plan.get("rerank_url") or not plan.get("hybrid"):
            self.outcome.findings += _first("search", hits)
            return
        if any(outcome.failed for name, outcome in self._before.items() if name.startswith("reranking")):
            self.outcome.skipped.append("reranking through Open WebUI: the reranker does not answer rightly")
            return
        fallback = [found for found in hits if is_fallback(found.scores)]
        if fallback:
            message = (
                f"Open WebUI returned the scores {_shown(fallback[0].scores)} for {len(fallback)} of {len(hits)} "
                "questions; reranked scores lie above 1/61."
            )
            self._found(_faults.RERANK_FALLBACK, message, _context.OPEN_WEBUI, "rag_reranker")
            return
        route = self._context.rerank_route
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
            self._found(_faults.RERANK_SCORES, message, _context.OPEN_WEBUI, "rag_reranker")
            return
        self.outcome.findings += _first("search", hits)

    # -- proof from the store ------------------------------------------------------------------------------------

    async def _stored(self) -> list[Chunk]:
        store = self._context.store
        if store is None:
            self.outcome.skipped.append("stored vectors: only a pgvector store can be read")
            return []
        try:
            knowledge, *files = await asyncio.gather(*(store.chunks(c) for c in [self._knowledge, *self._ours[:-1]]))
        except ServiceError as error:
            if not self._before["vector store"].failed:
                self._found(_faults.STORE_UNREACHABLE, str(error), _context.VECTOR_STORE)
            return []
        chunks = [chunk for found in [knowledge, *files] for chunk in found]
        if not knowledge or not all(files):
            message = f"Table {self._plan['vector_store']['table']} has no vector of an uploaded passage."
            self._found(_faults.NOT_STORED, message, _context.VECTOR_STORE, "rag_database_url")
            return []
        # The engine's real dimension: a wrong one has its own finding.
        width, wanted = len(chunks[0].vector), self._before["embedding at the engine"].measurements["dimension"]
        if width < wanted:
            message = f"The vector column holds {width} numbers; the model gives {wanted}."
            self._found(_faults.COLUMN, message, _context.VECTOR_STORE, "rag_embedder_dimensions")
            return []
        if any(chunk.text is None for chunk in chunks):
            message = "The texts in the vector store are encrypted (PGVECTOR_PGCRYPTO)."
            self._found(_faults.PREFIX_UNPROVEN, message, _context.VECTOR_STORE, "rag_open_webui_env")
            return []
        # A wider column is filled up with zeros, which change no cosine.
        return [Chunk(chunk.text, chunk.vector[:wanted], chunk.metadata) for chunk in chunks]

    async def _prove_document_prefix(self, chunks: Sequence[Chunk]) -> None:
        plan = self._plan["embedder"]
        variants = prefix.variants(plan["document_prefix"], plan["query_prefix"])
        texts = [(chunk.text or "").replace("\n", " ") for chunk in chunks]
        table = await self._vectors([before + text for before in variants.values() for text in texts])
        distances = {
            name: [1 - _vectors.cosine(chunk.vector, table[before + text]) for chunk, text in zip(chunks, texts)]
            for name, before in variants.items()
        }
        self._judge("document", prefix.judge(distances, prefix.STORED), "the stored vectors of the uploaded passages")

    async def _prove_query_prefix(self, chunks: Sequence[Chunk], hits: Sequence[Hits]) -> None:
        plan = self._plan["embedder"]
        variants = prefix.variants(plan["query_prefix"], plan["document_prefix"])
        table = await self._vectors([before + text for before in variants.values() for text in _probes.QUESTIONS])
        stored = {chunk.text: chunk.vector for chunk in chunks}
        returned = [
            (question, stored[text], 2 * score - 1)
            for question, found in zip(_probes.QUESTIONS, hits)
            for text, score in zip(found.documents, found.scores)
            if text in stored and score is not None
        ]
        if not returned:
            self.outcome.skipped.append("query prefix: the search returned no passage")
            return
        distances = {
            name: [abs(_vectors.cosine(vector, table[before + question]) - cos) for question, vector, cos in returned]
            for name, before in variants.items()
        }
        self._judge("query", prefix.judge(distances, prefix.DISTANCE), "the scores of a plain vector search")

    async def _vectors(self, texts: Sequence[str]) -> dict[str, list[float]]:
        """The engine's vectors, in requests of the size that it takes."""
        unique = list(dict.fromkeys(texts))
        size = self._plan["embedder"].get("max_batch") or _DEFAULT_BATCH
        parts = [unique[start : start + size] for start in range(0, len(unique), size)]
        rows = await asyncio.gather(*(self._context.engine.embed(part) for part in parts))
        return dict(zip(unique, (vector for part in rows for vector in part)))

    def _judge(self, side: str, verdict: prefix.Verdict, evidence: str) -> None:
        self.outcome.measurements[f"{side}_prefix"] = {
            "verdict": verdict.name,
            "distances": dict(verdict.distances),
        }
        own = self._plan["embedder"][f"{side}_prefix"]
        variable = f"rag_embedder_{side}_prefix"
        if verdict.name == prefix.RIGHT:
            return
        if verdict.name == prefix.OTHER:
            nearest = min(verdict.distances.values())
            message = (
                f"{evidence[0].upper()}{evidence[1:]} do not come from the engine's model with any variant of the "
                f"{side} prefix {own!r}; the nearest is off by {nearest:.4f}."
            )
        else:
            state = {"missing": "is missing", "applied twice": "is applied twice"}.get(
                verdict.name, f"is sent {verdict.name}"
            )
            if verdict.name == "of the other side":
                state = f"is that of the other side, {self._plan['embedder'][_OTHER_SIDE[side]]!r}"
            message = f"From {evidence}, the {side} prefix {state}; it should be {own!r}."
        self._found(prefix.FAULTS[verdict.name], message, _context.OPEN_WEBUI, variable)

    # -- findings ------------------------------------------------------------------------------------------------

    def _found(self, rule: Rule, message: str, hop: str, variable: str | None = None) -> None:
        where = {"hop": hop} if variable is None else {"variable": variable, "hop": hop}
        self.outcome.findings.append(rule.finding(message, **where))

    def _fail(self, rule: Rule, message: str, hop: str) -> None:
        self._found(rule, message, hop)
        raise _Stop


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
    models = {model for found in hits for metadata in found.metadata if (model := _noted_model(metadata)) is not None}
    if models - {wanted}:
        found = ", ".join(sorted(models - {wanted}))
        message = f"Open WebUI embedded the uploaded passages with {found}; the plan has {wanted}."
        yield _faults.CHUNK_MODEL.finding(message, variable="rag_embedder", hop=_context.OPEN_WEBUI)


def _noted_model(metadata: Mapping[str, Any]) -> str | None:
    noted = metadata.get("embedding_config")
    if isinstance(noted, str):
        try:
            noted = ast.literal_eval(noted)
        except (ValueError, SyntaxError):
            return None
    model = noted.get("model") if isinstance(noted, Mapping) else None
    return model if isinstance(model, str) else None


def _names(found: Hits) -> list[str]:
    return [str(metadata.get("name", "")) for metadata in found.metadata]


def _difference(scores: Sequence[float | None], own: Sequence[float]) -> float:
    return max((abs((a or 0.0) - b) for a, b in zip(scores, own)), default=0.0)


def _shown(scores: Sequence[float | None]) -> str:
    return ", ".join("null" if score is None else f"{score:.4f}" for score in scores[:5])
