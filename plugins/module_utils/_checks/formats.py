# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of each format: what was read from them, into how many chunks, and whether each is found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._checks import (
    _context,
    _faults,
    _samples,
    _walk,
)
from ansible_collections.plumbline.rag.plugins.module_utils._http import ServiceError
from ansible_collections.plumbline.rag.plugins.module_utils._open_webui import Upload
from ansible_collections.plumbline.rag.plugins.module_utils._pgvector import Chunk

_VARIABLE = "rag_content_extraction"
# Each is work for the reranker; the right one is among the first, or the answer is wrong anyway.
CANDIDATES = 5


@dataclass(frozen=True)
class File:
    """A sample, and what Open WebUI made of it."""

    sample: _samples.Sample
    upload: Upload


def engine(settings: Mapping[str, Any]) -> str:
    """The extraction engine by our name."""
    return str(settings.get("CONTENT_EXTRACTION_ENGINE") or _samples.BUILTIN)


def chosen(walk: _walk.Walk, settings: Mapping[str, Any]) -> list[_samples.Sample]:
    """The samples that this Open WebUI is meant to read; the others are named with the reason."""
    slim = walk.plan["open_webui"].get("variant") == "slim"
    allowed = settings.get("ALLOWED_FILE_EXTENSIONS") or []
    found = []
    for sample in _samples.samples(settings, engine(settings)):
        if not _samples.is_read(sample.extension, engine(settings), slim):
            walk.outcome.skipped.append(f"{sample.label}: slim reads none without a {_VARIABLE} that does")
        elif allowed and sample.extension not in allowed:
            walk.outcome.skipped.append(f"{sample.label}: uploads of .{sample.extension} are not allowed")
        else:
            found.append(sample)
    walk.outcome.measurements["extraction"] = engine(settings)
    return found


def refused(
    walk: _walk.Walk, samples: Sequence[_samples.Sample], answers: Sequence[str | BaseException]
) -> list[tuple[_samples.Sample, str]]:
    """Say which uploads were refused; returns the others with their ids."""
    sent = []
    for sample, answer in zip(samples, answers):
        if isinstance(answer, ServiceError):
            message = f"{sample.label}: Open WebUI refuses {sample.name}: {answer}"
            walk.found(_faults.FORMAT, message, _context.OPEN_WEBUI, _VARIABLE)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            sent.append((sample, answer))
    return sent


def read(walk: _walk.Walk, samples: Sequence[_samples.Sample], uploads: Sequence[Upload]) -> list[File]:
    """Judge the text that was read from each file; returns those that were processed."""
    using = walk.outcome.measurements.get("extraction", _samples.BUILTIN)
    files = [File(sample, upload) for sample, upload in zip(samples, uploads)]
    walk.outcome.measurements["formats"] = {
        file.sample.extension: {"status": file.upload.status, "characters": len(file.upload.content)} for file in files
    }
    for file in files:
        sample, upload = file.sample, file.upload
        by = _samples.reader(sample.extension, using)
        reading = "Open WebUI's own loader" if by == _samples.BUILTIN else f"the extraction engine {by}"
        text = " ".join(upload.content.split())
        if upload.reason is not None:
            message = f"{sample.label}: {reading} could not read {sample.name}: {upload.reason}"
            walk.found(_faults.FORMAT, message, _context.OPEN_WEBUI, _VARIABLE)
        elif not text or text in _samples.PLACEHOLDERS:
            held = repr(text) if text else "no text"
            message = f"{sample.label}: {sample.name} counts as processed, and {reading} read {held} from it."
            walk.found(_faults.NO_TEXT, message, _context.OPEN_WEBUI, _VARIABLE)
        else:
            missing = [sentence for sentence in sample.sentences if sentence not in text]
            if missing:
                message = (
                    f"{sample.label}: {reading} read {len(upload.content)} characters from {sample.name}, and "
                    f"{len(missing)} of its {len(sample.sentences)} sentences are not among them, as {missing[-1]!r}."
                )
                walk.found(_faults.FORMAT, message, _context.OPEN_WEBUI, _VARIABLE)
    return [file for file in files if file.upload.reason is None]


async def ask(walk: _walk.Walk, knowledge: str, files: Sequence[File]) -> None:
    """Each file is found first by its questions, those in languages that the models know."""
    right: dict[str, bool] = {}
    hybrid = bool(walk.plan["open_webui"].get("hybrid"))
    for file, question in _questions(walk, files):
        try:
            hits = await walk.api.query_collection(knowledge, question.text, hybrid, CANDIDATES)
        except ServiceError as error:
            walk.found(_faults.QUERY_FAILED, str(error), _context.OPEN_WEBUI)
            return
        first = " ".join(hits.documents[0].split()) if hits.documents else ""
        right[question.text] = question.answer in first
        if not right[question.text]:
            message = (
                f"A search for {question.text!r} returned {first[:60]!r}… first; {file.sample.name} answers it "
                f"with {question.answer!r}."
            )
            walk.found(_faults.WRONG_CHUNK, message, _context.OPEN_WEBUI, "rag_embedder")
    if files:
        walk.outcome.measurements["format_questions"] = {"asked": len(right), "right": sum(right.values())}


def _questions(walk: _walk.Walk, files: Sequence[File]) -> Iterator[tuple[File, _samples.Question]]:
    models = [walk.plan["embedder"], walk.plan.get("reranker") or {}]
    for file in files:
        text = " ".join(file.upload.content.split())
        for question in file.sample.questions:
            known = all(
                not languages or "multilingual" in languages or question.language in languages
                for languages in (model.get("languages") for model in models)
            )
            # What was not read has its own finding.
            if known and question.answer in text:
                yield file, question


def count(walk: _walk.Walk, knowledge: str, files: Sequence[File], stored: Mapping[str, Sequence[Chunk]]) -> None:
    """The rows of each file in its own collection and in the knowledge base, against the settings."""
    for file in files:
        own = len(stored[f"file-{file.upload.id}"])
        shared = sum(chunk.metadata.get("file_id") == file.upload.id for chunk in stored[knowledge])
        if any(chunk.text is None for chunk in stored[knowledge]):
            shared = own  # whose an encrypted row is cannot be told
        measured = walk.outcome.measurements["formats"][file.sample.extension]
        measured.update(chunks=own, wanted=file.sample.chunks)
        wanted = file.sample.chunks or own
        if own != wanted or shared != wanted:
            message = (
                f"{file.sample.label}: {file.sample.name} has {own} chunks as a file and {shared} in its knowledge base; "
                f"its {len(file.upload.content)} characters make {wanted} with the chunk settings of Open WebUI."
            )
            walk.found(_faults.CHUNKS, message, _context.VECTOR_STORE, "rag_chunk_size")
