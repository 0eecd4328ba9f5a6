# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of each format, the paths of a question, users, and that nothing of ours stays: in a whole installation."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils._checks import _probes, _run, _samples, _writers

from .rag_stack import Stack, error, ok
from .test_verification import Change, Finding, assign, both, found

WEBUI, STORE = "open_webui", "vector_store"
SETTINGS = {
    "CHUNK_SIZE": 1000,
    "CHUNK_OVERLAP": 100,
    "TEXT_SPLITTER": "",
    "CHUNK_MIN_SIZE_TARGET": 0,
    "ENABLE_MARKDOWN_HEADER_TEXT_SPLITTER": True,
}
FULL = both(assign(features={"slim": False}, plan__open_webui__variant="full"))


def deep(stack: Stack) -> None:
    stack.plan["depth"] = "deep"


def read(kind: str, text: str) -> Change:
    """Of files of this kind Open WebUI reads something else."""

    def plant(stack: Stack) -> None:
        FULL(stack)
        stack.extract = lambda name, given: text if name.endswith(kind) else given

    return plant


def lost(sentence: str, kind: str) -> Change:
    """One sentence of files of this kind is not read, and not stored."""

    def plant(stack: Stack) -> None:
        FULL(stack)
        stack.extract = lambda name, given: given.replace(sentence, "") if name.endswith(kind) else given

    return plant


def pieces(change: Any) -> Change:
    """Files in other formats than text are stored in other pieces."""

    def plant(stack: Stack) -> None:
        stack.split = lambda name, given: given if name.endswith(".txt") else change(given)

    return plant


def refused_password(stack: Stack) -> None:
    stack.replies[("POST", "/auths/add")] = error(400, "The password is too simple.")


def blind_user(stack: Stack) -> None:
    """The user's own file is not found."""
    original = stack._query

    def query(path: str, key: str, body: Any) -> Any:
        empty = {"distances": [[]], "documents": [[]], "metadatas": [[]]}
        return (
            ok(empty)
            if key == "u1" and str(body.get("collection_names")).startswith("['file-")
            else original(path, key, body)
        )

    stack._query = query


FAULTS: dict[str, tuple[set[Finding], Change]] = {
    "the last page of a PDF is not read": ({("PL450", WEBUI)}, lost(_samples._PDF[-1], "pdf")),
    "Japanese is not read": ({("PL450", WEBUI)}, lost(_samples._MISO, "md")),
    "HTML cannot be read": (
        {("PL450", WEBUI)},
        assign(failing={"html": "BeautifulSoup: no parser"}),
    ),
    "Markdown is refused": ({("PL450", WEBUI)}, assign(refusing="md")),
    "DOCX without text": ({("PL460", WEBUI)}, both(read("docx", ""), assign(empty_is_fine=True))),
    "placeholder for a PDF": ({("PL460", WEBUI)}, read("pdf", "<No text content found>")),
    "chunks are lost": ({("PL475", STORE)}, pieces(lambda given: [given[0], *given[2:]])),
    "chunks are cut in two": (
        {("PL475", STORE)},
        pieces(lambda given: [*given[:-1], *(given[-1][:9], given[-1])]),
    ),
    "a format is not found first": (
        {("PL453", WEBUI)},
        assign(
            search_order=lambda hits: sorted(hits, key=lambda hit: not str(hit[1].metadata["name"]).endswith("txt"))
        ),
    ),
    "memory without the query prefix": ({("PL431", WEBUI)}, assign(memory_prefixes=("passage: ", ""))),
    "memory with the prefix of the other side": ({("PL432", WEBUI)}, assign(memory_prefixes=("query: ", "query: "))),
    "memory is not found": ({("PL453", WEBUI)}, assign(replies={("POST", "/memories/query"): ok({})})),
    "memory search fails": ({("PL459", WEBUI)}, assign(replies={("POST", "/memories/query"): error(500, "broken")})),
    "files are not linked": ({("PL452", WEBUI)}, assign(link=False)),
    "an empty file is processed": ({("PL460", WEBUI)}, both(deep, assign(empty_is_fine=True))),
    "a file above the limit is taken": (
        {("PL478", WEBUI)},
        both(deep, assign(stored__retrieval__FILE_MAX_SIZE=1, too_large_is_fine=True)),
    ),
    "private passages leak": ({("PL476", WEBUI)}, both(deep, assign(open_to_all=True))),
    "no user can be made": ({("PL477", WEBUI)}, both(deep, refused_password)),
    "a user finds nothing": ({("PL477", WEBUI)}, both(deep, blind_user)),
}


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What never happens here is not waited for."""
    for name in ("ingestion", "users"):
        monkeypatch.setattr(f"{_run.__name__.rpartition('.')[0]}.{name}._LINKING_SECONDS", 0.0)


@pytest.mark.parametrize(
    ("expected", "plant"),
    [
        pytest.param(expected, plant, id=name, marks=pytest.mark.rule(*{i for i, _hop in expected}, fires=True))
        for name, (expected, plant) in FAULTS.items()
    ],
)
def test_fault(expected: set[Finding], plant: Change) -> None:
    stack = Stack()
    plant(stack)
    result = stack.run()
    assert found(result) == expected, [one["message"] for one in result["findings"]]
    nothing_stays(stack)


def nothing_stays(stack: Stack) -> None:
    left = (stack.files, stack.knowledge, stack.users, stack.memories, stack.collections)
    assert left == ({}, {}, {}, {}, {})


@pytest.mark.rule("PL450", "PL460", "PL475", "PL476", "PL477", "PL478", fires=False)
def test_healthy_and_deep() -> None:
    stack = Stack()
    FULL(stack)
    deep(stack)
    stack.stored["retrieval"]["FILE_MAX_SIZE"] = 1
    result = stack.run(budget=_run.BUDGETS["deep"])
    assert result["findings"] == []
    measured = result["measurements"]
    through = measured["through Open WebUI"]
    assert {kind: (one["status"], one["chunks"]) for kind, one in through["formats"].items()} == {
        "md": ("completed", 3),
        "html": ("completed", 3),
        "csv": ("completed", 3),
        "pdf": ("completed", 3),
        "docx": ("completed", 1),
    }
    # The models of the double know English and German, and Japanese and Arabic are not asked.
    assert through["format_questions"] == {"asked": 4, "right": 4}
    assert measured["files that must be refused"] == {
        "an empty file": "refused with status 400",
        "a file of blanks": "failed: The content provided is empty.",
        "largest_file_in_megabytes": 1,
        "a file above the limit": "refused with status 413",
    }
    user = measured["a user without rights"]
    assert user["finds a file of their own"] is True
    assert user["finds a knowledge base that is shared with them"] is True
    assert set(user["private"].values()) == {401, 403, 404}
    nothing_stays(stack)


def test_requests_of_standard() -> None:
    stack = Stack()
    FULL(stack)
    result = stack.run(budget=_run.BUDGETS["standard"])
    assert result["findings"] == []
    assert result["requests"] < 195


def test_each_path_is_judged() -> None:
    through = Stack().run()["measurements"]
    for name, path in (("through Open WebUI", "query_prefix_of_a_file_in_a_chat"), ("a memory", "query_prefix")):
        proof = through[name][path]
        assert proof["verdict"] == "right"
        assert proof["distances"]["right"] < 1e-12
        assert proof["distances"]["missing"] > 0.01


@pytest.mark.parametrize(
    ("hybrid", "path"), [(True, "query_prefix_of_hybrid_search"), (False, "query_prefix_of_a_chat")]
)
@pytest.mark.parametrize(("sent", "verdict"), [("query: ", "right"), ("", "missing")])
def test_without_a_reranker_the_search_of_a_chat_shows_its_prefix(
    hybrid: bool, path: str, sent: str, verdict: str
) -> None:
    stack = Stack()
    stack.plan["reranker"] = None
    stack.plan["open_webui"].update(rerank_url=None, rerank_model=None, hybrid=hybrid)
    stack.query_prefix = sent
    measured = stack.run()["measurements"]["through Open WebUI"]
    assert measured[path]["verdict"] == verdict


@pytest.mark.parametrize(
    ("content", "query", "ids"),
    [
        ("passage: ", "query: ", set()),
        ("", "query: ", {"PL431"}),
        ("passage:", "query: ", {"PL433"}),
        ("passage: ", "passage: ", {"PL432"}),
        ("search: ", "query: ", {"PL436"}),
    ],
)
def test_without_a_store_the_scores_prove_both_prefixes(content: str, query: str, ids: set[str]) -> None:
    stack = Stack()
    stack.plan["vector_store"] = None
    stack.content_prefix, stack.query_prefix = content, query
    stack.memory_prefixes = ("passage: ", "query: ")
    assert {one["id"] for one in stack.run()["findings"]} == ids


def skipped(result: dict[str, Any]) -> list[str]:
    return [reason for check in result["checks"] for reason in check["skipped"]]


def test_slim_reads_no_pdf() -> None:
    stack = Stack()
    result = stack.run()
    assert result["findings"] == []
    assert "PDF of three pages: slim reads none without a rag_content_extraction that does" in skipped(result)
    assert set(result["measurements"]["through Open WebUI"]["formats"]) == {"md", "html", "csv"}


def test_an_engine_that_fails_is_named() -> None:
    stack = Stack()
    stack.stored["retrieval"]["CONTENT_EXTRACTION_ENGINE"] = "tika"
    stack.plan["open_webui"]["settings"]["retrieval"]["CONTENT_EXTRACTION_ENGINE"] = "tika"
    result = stack.run()
    messages = [one["message"] for one in result["findings"]]
    assert messages == [
        "PDF of three pages: the extraction engine tika could not read plumbline-verify.pdf: 503: This file type "
        "requires an external document extractor in slim.",
        "DOCX: the extraction engine tika could not read plumbline-verify.docx: 503: This file type requires an "
        "external document extractor in slim.",
    ]


def test_extensions_that_are_not_allowed_are_not_tried() -> None:
    stack = Stack()
    stack.stored["retrieval"]["ALLOWED_FILE_EXTENSIONS"] = ["txt", "md"]
    result = stack.run()
    assert result["findings"] == []
    assert "CSV: uploads of .csv are not allowed" in skipped(result)


def test_memories_may_be_switched_off() -> None:
    stack = Stack()
    stack.memories_on = False
    result = stack.run()
    assert result["findings"] == []
    assert "memories are switched off" in skipped(result)


def test_leftovers_of_an_interrupted_run_are_removed() -> None:
    for depth in ("quick", "standard", "deep"):
        stack = Stack()
        stack.plan["depth"] = depth
        stack.files["old"] = (f"{_probes.NAME}-private.txt", "left by an interrupted run")
        stack.knowledge["old"] = _probes.NAME
        stack.collections["old"] = []
        stack.users["old"] = _probes.NAME
        stack.users["theirs"] = "plumbline-verify-fan"
        if depth != "quick":
            stack.memories["old"] = f"{_probes.NAME}: left"
            stack.collections["user-memory-a1"] = []
        stack.memories["theirs"] = "I read plumbline-verify's page"
        stack.run()
        assert (stack.files, stack.knowledge) == ({}, {})
        assert stack.users == {"theirs": "plumbline-verify-fan"}
        assert stack.memories == {"theirs": "I read plumbline-verify's page"}


@pytest.mark.parametrize("end", ["/auths/add", "/knowledge/create", "/query/collection", "/query/doc"])
def test_everything_is_removed_after_a_failure_as_a_user(end: str) -> None:
    stack = Stack()
    deep(stack)
    stack.replies[("POST", end)] = error(500, "broken")
    stack.run()
    nothing_stays(stack)


def test_a_user_that_stays_is_said() -> None:
    stack = Stack()
    deep(stack)
    stack.replies[("DELETE", "/users/u1")] = error(500, "broken")
    (finding,) = stack.run()["findings"]
    assert (finding["id"], finding["where"]["hop"]) == ("PL461", "open_webui")


@pytest.mark.parametrize(
    ("change", "kind", "chunks"),
    [
        ({}, "html", 3),
        ({"CHUNK_OVERLAP": 251}, "html", None),
        ({"TEXT_SPLITTER": "token"}, "html", None),
        ({"CHUNK_SIZE": 200}, "html", None),
        ({"ENABLE_MARKDOWN_HEADER_TEXT_SPLITTER": False}, "md", None),
        ({"CHUNK_MIN_SIZE_TARGET": 500}, "csv", None),
        ({"PDF_LOADER_MODE": "single"}, "pdf", None),
        ({"PDF_LOADER_MODE": "page"}, "pdf", 3),
    ],
)
def test_chunks_that_can_be_told(change: dict[str, Any], kind: str, chunks: int | None) -> None:
    known = {sample.extension: sample.chunks for sample in _samples.samples({**SETTINGS, **change}, "builtin")}
    assert known[kind] == chunks


@pytest.mark.parametrize("size", [300, 1000, 4000])
def test_two_paragraphs_make_a_chunk(size: int) -> None:
    lengths = [len(text) for text in _samples._paragraphs(size)]
    assert len(lengths) == 6
    for first, second, third in zip(lengths, lengths[1:], lengths[2:]):
        assert first + second + 20 < size < first + second + third


@pytest.mark.parametrize(
    ("kind", "engine", "slim", "reader", "is_read"),
    [
        ("pdf", "builtin", True, "builtin", False),
        ("pdf", "builtin", False, "builtin", True),
        ("docx", "mistral_ocr", True, "builtin", False),
        ("pdf", "mistral_ocr", True, "mistral_ocr", True),
        ("md", "external", True, "external", True),
        ("md", "tika", True, "builtin", True),
    ],
)
def test_who_reads_what(kind: str, engine: str, slim: bool, reader: str, is_read: bool) -> None:
    assert (_samples.reader(kind, engine), _samples.is_read(kind, engine, slim)) == (reader, is_read)


def test_pdf_points_at_its_objects() -> None:
    made = _writers.pdf(["First page.", "Second page."])
    start = int(made.rsplit(b"startxref\n", 1)[1].split(b"\n")[0])
    assert made[start : start + 9] == b"xref\n0 8\n"
    places = [int(line[:10]) for line in made[start:].split(b"\n")[3:10]]
    assert [made[place : place + 7] for place in places] == [f"{n} 0 obj".encode() for n in range(1, 8)]


def test_docx_is_an_archive_with_a_document() -> None:
    archive = zipfile.ZipFile(io.BytesIO(_writers.docx(["Salt & pepper"])))
    assert archive.namelist() == ["[Content_Types].xml", "_rels/.rels", "word/document.xml"]
    assert b"Salt &amp; pepper" in archive.read("word/document.xml")
