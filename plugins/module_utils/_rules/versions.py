# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on versions, variants and models' quality. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.plumbline.rag.plugins.module_utils import _images, _versions
from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, NOTE, WARNING, Finding, register
from ansible_collections.plumbline.rag.plugins.module_utils._rules._subject import Subject

BELOW_FLOOR = register(
    "PL150",
    ERROR,
    "A version is below the floor or refused",
    "Its faults are known and public.",
    "Use the default version.",
    example='rag_open_webui_version: "0.11.0"',
    source="BerriAI/litellm#24518, BerriAI/litellm#24512; CVE-2026-33634, CVE-2026-42208",
    acknowledgeable=False,
)
BELOW_ADVISED = register(
    "PL151",
    WARNING,
    "A version is older than advised",
    "It runs, and lacks fixes that matter here.",
    "Use the default version.",
    example='rag_litellm_version: "1.94.3"',
    source="the advisories of BerriAI/litellm; Open WebUI 0.12.4 release notes",
)
SLIM = register(
    "PL152",
    ERROR,
    "The slim variant cannot do what is asked of it",
    "From 0.11.4 slim has no Chroma, no local models and no extraction of binary formats; it starts, reports ready, and answers 503 at first use.",
    "Use rag_vector_store: pgvector with slim, or rag_open_webui_variant: full.",
    example="rag_open_webui_variant: slim\nrag_vector_store: chroma",
    source="open-webui/docs#1388, open-webui/open-webui#30229, open-webui/helm-charts#291",
    acknowledgeable=False,
)
WEAK_RERANKER = register(
    "PL153",
    WARNING,
    "The reranker may be worse than none",
    "On a strong first stage several popular rerankers lower the quality of the result; it has to be measured.",
    "Measure it on your own questions, choose a better reranker, or set rag_reranker: none.",
    example="rag_reranker: BAAI/bge-reranker-v2-m3",
    source="Qwen3-Embedding README, rerankers over one first stage",
)
FLOATING = register(
    "PL156",
    WARNING,
    "A version is a tag that moves",
    "The next pull brings other software under the same name, on one host and not on another, and slim changed its meaning so.",
    "Write the version to its last part.",
    example='rag_open_webui_version: "0.12"    # "0.12.4"',
    source="open-webui/docs#1388, BerriAI/litellm#24518",
)
NO_REVISION = register(
    "PL155",
    NOTE,
    "The weights are not pinned to a revision",
    "A model repository can change under its name; stored vectors and new ones would then come from different weights.",
    "Set rag_embedder_revision to the commit of the weights.",
    example="rag_embedder_revision: 97b0c614be4d77ee51c0cef4e5f07c00f9eb65b3",
)


TITLES = {
    "open_webui": "Open WebUI",
    "litellm": "LiteLLM",
    "postgres": "PostgreSQL",
    "tei": "TEI",
    "vllm": "vLLM",
}


def floors(subject: Subject) -> Iterator[Finding]:
    for variable, name, version in _chosen(subject):
        known, title = subject.catalog.versions[name], TITLES[name]
        use = f"Use {known['default']}."
        try:
            _versions.parse(version)
        except ValueError:
            yield BELOW_FLOOR.finding(f"{variable} is {version!r}, which is not a version.", use, variable=variable)
            continue
        denied = known.get("denied", {}).get(version.removeprefix("v"))
        if denied is not None:
            yield BELOW_FLOOR.finding(f"{title} {version} is refused: {denied}.", use, variable=variable)
        elif "floor" in known and _versions.below(version, known["floor"]):
            message = f"{title} {version} is below the floor {known['floor']}: {known['floor_reason']}."
            yield BELOW_FLOOR.finding(message, use, variable=variable)
        elif "advised" in known and _versions.below(version, known["advised"]):
            message = f"{title} {version} is older than the advised {known['advised']}: {known['advised_reason']}."
            advisories = [a["id"] for a in known.get("advisories", ()) if not _versions.fixed(version, a["fixed"])]
            if advisories:
                message += f" It is open to {', '.join(advisories)}."
            yield BELOW_ADVISED.finding(message, use, variable=variable)
        if len(_versions.parse(version)) < known.get("exact_parts", 1):
            yield FLOATING.finding(f"{variable} is {version}, a tag that moves.", use, variable=variable)


def _chosen(subject: Subject) -> Iterator[tuple[str, str, str]]:
    """The versions that the operator chose, in a variable or in an image: variable, component and version."""
    spec = subject.spec
    for name in TITLES:
        variable = f"rag_{name}_version"
        if name == "litellm" and spec["rag_proxy"] == "none":
            continue
        if variable in spec.values and spec[variable] is not None:
            yield variable, name, spec[variable]
        for _host, images in subject.per_host("rag_images"):
            reference = None if spec["rag_image_source"] == "build" else _images.parse(images.get(name))
            told = _images.version(name, reference.tag) if reference is not None else None
            if told is not None:
                yield "rag_images", name, told


def slim(subject: Subject) -> Iterator[Finding]:
    spec = subject.spec
    if spec["rag_open_webui_variant"] != "slim":
        return
    if spec["rag_vector_store"] != "pgvector":
        message = f"rag_open_webui_variant is slim and rag_vector_store is {spec['rag_vector_store']}; slim stores vectors in pgvector only."
        yield SLIM.finding(message, variable="rag_vector_store")
    env = spec["rag_open_webui_env"]
    for name, allowed in (
        ("RAG_EMBEDDING_ENGINE", ("openai", "ollama", "azure_openai")),
        ("RAG_RERANKING_ENGINE", ("external",)),
    ):
        if name in env and env[name] not in allowed:
            message = f"rag_open_webui_env sets {name} to {env[name]!r}; slim has no local models."
            yield SLIM.finding(message, variable="rag_open_webui_env")
    if spec["rag_text_splitter"] == "token_transformers":
        message = "rag_text_splitter is token_transformers; slim has no transformers."
        yield SLIM.finding(
            message, "Use another splitter, or rag_open_webui_variant: full.", variable="rag_text_splitter"
        )
    wanted = {part.strip().lower() for part in str(env.get("RAG_ALLOWED_FILE_EXTENSIONS") or "").split(",")}
    binary = sorted(wanted & BINARY)
    if binary and spec["rag_content_extraction"] == "builtin":
        message = f"rag_open_webui_env allows {', '.join(binary)} and rag_content_extraction is builtin; slim reads text formats only."
        yield SLIM.finding(
            message, "Set rag_content_extraction, or rag_open_webui_variant: full.", variable="rag_content_extraction"
        )


BINARY = frozenset({"pdf", "docx", "doc", "pptx", "ppt", "xlsx", "xls", "odt", "epub", "msg"})


def weak_reranker(subject: Subject) -> Iterator[Finding]:
    reranker = subject.choice.reranker
    if reranker is not None and reranker.quality["verdict"] != "better":
        yield WEAK_RERANKER.finding(f"{reranker.id}: {reranker.quality['statement']}.", variable="rag_reranker")


def no_revision(subject: Subject) -> Iterator[Finding]:
    named = subject.spec["rag_embedder_weights"] is None and subject.spec["rag_weights_source"] == "hub"
    downloads = subject.choice.embedder_engine in ("tei", "vllm") and named
    if downloads and subject.spec["rag_embedder_revision"] is None:
        yield NO_REVISION.finding("rag_embedder_revision is not set.", variable="rag_embedder_revision")


RULES = (floors, slim, weak_reranker, no_revision)
