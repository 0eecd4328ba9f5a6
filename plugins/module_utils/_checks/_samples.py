# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One small file of each format, with what has to be read from it, into how many chunks, and what it answers. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._checks import _probes, _writers

BUILTIN = "builtin"
# What each extraction engine is given; everything else is read by Open WebUI's own loaders. None is everything.
READS: Mapping[str, tuple[str, ...] | None] = {
    BUILTIN: (),
    "tika": ("html", "pdf", "docx"),
    "docling": ("html", "pdf", "docx"),
    "external": None,
    "document_intelligence": ("pdf", "docx"),
    "mistral_ocr": ("pdf",),
    "datalab_marker": ("html", "pdf", "docx"),
    "mineru": ("pdf",),
    "paddleocr_vl": ("pdf",),
}
# Open WebUI's slim variant has no loaders of its own for these.
_NOT_SLIM = ("pdf", "docx")
# Open WebUI and its loaders write one of these where an engine gives no text.
PLACEHOLDERS = ("<No text content found>", "No text content found")

_HTML = (
    "Glass is made by melting sand together with soda and lime.",
    "Bees tell one another by a dance where the flowers are.",
    "A pendulum clock keeps time because each swing lasts equally long.",
    "Salt is won from sea water in shallow basins under the sun.",
    "Cork is cut from the bark of an oak that lives on.",
    "A suspension bridge hangs from two cables that are anchored in the ground.",
)
_CSV = (
    ("awl", "punches holes in leather"),
    ("plane", "smooths a wooden board"),
    ("scythe", "cuts the grass of a meadow"),
)
_PDF = (
    "The potter centres the clay on the wheel before he opens it.",
    "Felt is made from wool by pressing and rubbing it in hot water.",
    "A lighthouse lens bends the light of a small lamp into one far-reaching beam.",
)
_DOCX = (
    "Rope is laid from three strands that are twisted against each other.",
    "A sundial shows the hour by the shadow of a rod.",
)
_TEA = "Green tea is heated soon after the harvest, so that the leaves stay green."
_MISO = "味噌は、大豆に塩と麹を加えて発酵させて作る。"
_PAPER = "يصنع الورق من ألياف الخشب بعد خلطها بالماء ثم تجفيفها."
# Two paragraphs of this share of a chunk fit into one, and three do not, however blanks and newlines are counted.
_SHARE = 0.4
_SMALLEST_CHUNK = 300


@dataclass(frozen=True)
class Question:
    """A question with its language, and the sentence that answers it."""

    text: str
    language: str
    answer: str


@dataclass(frozen=True)
class Sample:
    """A file; ``chunks`` is into how many pieces Open WebUI has to cut it, where that can be told."""

    extension: str
    label: str
    mime: str
    content: bytes
    sentences: tuple[str, ...]
    questions: tuple[Question, ...]
    chunks: int | None

    @property
    def name(self) -> str:
        return f"{_probes.NAME}.{self.extension}"


def samples(settings: Mapping[str, Any], engine: str) -> list[Sample]:
    """The files for an Open WebUI with these settings of retrieval, and this extraction engine."""
    sections, rows = len((_TEA, _MISO, _PAPER)), len(_CSV)
    # Small pieces may be joined again, and an engine gives its text in pieces of its own.
    whole = not settings.get("CHUNK_MIN_SIZE_TARGET")
    by_headers = bool(settings.get("ENABLE_MARKDOWN_HEADER_TEXT_SPLITTER"))
    by_pages = settings.get("PDF_LOADER_MODE", "page") == "page"

    def chunks(extension: str, count: int) -> int | None:
        return count if whole and reader(extension, engine) == BUILTIN else None

    size = settings.get("CHUNK_SIZE") or 0
    return [
        Sample(
            "md",
            "Markdown in English, Japanese and Arabic",
            "text/markdown",
            f"# Tea\n\n{_TEA}\n\n# 味噌\n\n{_MISO}\n\n# ورق\n\n{_PAPER}\n".encode(),
            (_TEA, _MISO, _PAPER),
            (
                Question("味噌はどのように作りますか。", "ja", _MISO),
                Question("كيف يصنع الورق من الخشب؟", "ar", _PAPER),
            ),
            chunks("md", sections) if by_headers else None,
        ),
        Sample(
            "html",
            "HTML of three chunks",
            "text/html",
            _page(_paragraphs(size)),
            _HTML,
            (Question("What does a suspension bridge hang from?", "en", _HTML[-1]),),
            chunks("html", len(_HTML) // 2) if _counted_in_characters(settings) else None,
        ),
        Sample(
            "csv",
            "CSV",
            "text/csv",
            "\n".join(["tool,purpose", *(f"{tool},{purpose}" for tool, purpose in _CSV), ""]).encode(),
            tuple(purpose for _tool, purpose in _CSV),
            (Question("Which tool punches holes in leather?", "en", _CSV[0][1]),),
            chunks("csv", rows),
        ),
        Sample(
            "pdf",
            "PDF of three pages",
            "application/pdf",
            _writers.pdf(_PDF),
            _PDF,
            (Question("How does a lighthouse make a far-reaching beam of light?", "en", _PDF[-1]),),
            chunks("pdf", len(_PDF)) if by_pages else None,
        ),
        Sample(
            "docx",
            "DOCX",
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            _writers.docx(_DOCX),
            _DOCX,
            (Question("How does a sundial show the hour?", "en", _DOCX[-1]),),
            chunks("docx", 1),
        ),
    ]


def reader(extension: str, engine: str) -> str:
    """What reads a file of this kind: the extraction engine, or Open WebUI itself."""
    given = READS.get(engine, ())
    return engine if given is None or extension in given else BUILTIN


def is_read(extension: str, engine: str, slim: bool) -> bool:
    """Whether anything reads a file of this kind."""
    return not (slim and extension in _NOT_SLIM and reader(extension, engine) == BUILTIN)


def _counted_in_characters(settings: Mapping[str, Any]) -> bool:
    """Whether the pieces of a long text can be told: by tokens they cannot, and much overlap makes more of them."""
    size, overlap = settings.get("CHUNK_SIZE") or 0, settings.get("CHUNK_OVERLAP") or 0
    return settings.get("TEXT_SPLITTER") in ("", "character") and size >= _SMALLEST_CHUNK and overlap <= size / 4


def _paragraphs(chunk_size: int) -> list[str]:
    """Each sentence repeated to its share of a chunk, cut between words."""
    length = int(_SHARE * max(chunk_size, _SMALLEST_CHUNK))
    return [_repeated(sentence, length) for sentence in _HTML]


def _repeated(sentence: str, length: int) -> str:
    text = " ".join([sentence] * (length // len(sentence) + 1))
    return text[: text.rindex(" ", 0, length)]


def _page(paragraphs: Sequence[str]) -> bytes:
    body = "\n".join(f"<p>{text}</p>" for text in paragraphs)
    head = '<meta charset="utf-8"><title>Crafts</title>'
    return f'<!doctype html>\n<html lang="en">\n<head>{head}</head>\n<body>\n{body}\n</body>\n</html>\n'.encode()
