# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on content extraction. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, Finding, register
from ansible_collections.plumbline.rag.plugins.module_utils._rules._subject import Subject

EXTRACTION = register(
    "PL119",
    ERROR,
    "The content extraction engine is not reachable",
    "Open WebUI falls back to its built-in loader without a word when a URL or key is missing, and indexes the words <No text "
    "content found> when the service answers without text.",
    "Set the variables of the engine in rag_open_webui_env.",
    example="rag_content_extraction: tika    # and no TIKA_SERVER_URL",
    source="Open WebUI 0.11.4 retrieval/loaders/main.py",
)
# engine -> variables that it needs; a default of Open WebUI that names no service of this stack counts as missing
NEEDED = {
    "tika": ("TIKA_SERVER_URL",),
    "docling": ("DOCLING_SERVER_URL",),
    "external": ("EXTERNAL_DOCUMENT_LOADER_URL", "EXTERNAL_DOCUMENT_LOADER_API_KEY"),
    "document_intelligence": ("DOCUMENT_INTELLIGENCE_ENDPOINT", "DOCUMENT_INTELLIGENCE_KEY"),
    "mistral_ocr": ("MISTRAL_OCR_API_KEY",),
    "datalab_marker": ("DATALAB_MARKER_API_KEY",),
    "mineru": ("MINERU_API_URL",),
    "paddleocr_vl": ("PADDLEOCR_VL_BASE_URL", "PADDLEOCR_VL_TOKEN"),
}


def extraction(subject: Subject) -> Iterator[Finding]:
    engine, env = subject.spec["rag_content_extraction"], subject.env
    needed = NEEDED.get(engine, ())
    if engine == "mineru" and env.get("MINERU_API_MODE") == "cloud":
        needed = ("MINERU_API_URL", "MINERU_API_KEY")
    missing = [name for name in needed if not str(env.get(name) or "").strip()]
    if missing:
        message = f"rag_content_extraction is {engine}, and rag_open_webui_env does not set {' and '.join(missing)}."
        yield EXTRACTION.finding(message, variable="rag_content_extraction")
    for name in needed:
        url = str(env.get(name) or "").strip()
        if url and name.endswith(("_URL", "_ENDPOINT")) and not _usable(url):
            message = f"rag_open_webui_env sets {name} to a URL that is not usable inside the container."
            yield EXTRACTION.finding(message, variable="rag_open_webui_env")


def _usable(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    local = parts.hostname in ("localhost", "::1") or (parts.hostname or "").startswith("127.")
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not local


RULES = (extraction,)
