"""The fault matrix: what is made wrong at which hop, and exactly what a verification has to find. Data only.

A fault is an object for the control of `doubles/fault_proxy.py`. Findings are written as "id hop".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

QUICK, STANDARD = "quick", "standard"
# So many requests at once come only from the check that sends them on purpose.
CROWD = 10


@dataclasses.dataclass(frozen=True)
class Cell:
    """One fault at one hop, with the least depth of a verification that finds it."""

    fault: str
    hop: str
    findings: tuple[str, ...]
    plant: Mapping[str, Any] | None = None  # for the proxy at the hop
    depth: str = QUICK
    stopped: tuple[str, ...] = ()
    environment: Mapping[str, str] | None = None  # of Open WebUI's container
    stored: Mapping[str, Any] | None = None  # retrieval settings in Open WebUI's database
    secrets: Mapping[str, str] | None = None  # that the verification is given
    plan: Mapping[str, Any] | None = None  # paths in the plan's part for verification
    timeout: float = 30.0
    often: bool = False  # one of the cells that represent the others in `make test`

    @property
    def name(self) -> str:
        return f"{self.fault}, {self.hop}"


EMBEDDER, RERANKER = "intfloat/multilingual-e5-small", "plumbline/e5-small-cosine"
EMBEDDINGS, RERANK = {"path": "/embeddings", "keyed": True}, {"path": "/rerank", "keyed": True}

# fault, findings at the engine, findings at the proxy, plant, depth, hops at which the cell is run often
VECTORS: tuple[tuple[str, str, str, dict[str, Any], str, tuple[str, ...]], ...] = (
    ("vectors in reverse order", "PL424", "PL424", {"kind": "reorder"}, QUICK, ("engine", "proxy")),
    ("vectors in reverse order, with their numbers", "PL424", "PL424", {"kind": "renumber"}, QUICK, ()),
    ("a vector is dropped", "PL420", "PL420", {"kind": "drop"}, QUICK, ("engine",)),
    ("a vector is doubled", "PL420", "PL420", {"kind": "duplicate"}, QUICK, ()),
    ("every text gets the first vector", "PL425", "PL425", {"kind": "repeat-first"}, QUICK, ()),
    ("a vector is null", "PL438", "PL438", {"kind": "null-vector"}, QUICK, ("proxy",)),
    ("a number of a vector is null", "PL438", "PL438", {"kind": "null-number"}, QUICK, ()),
    ("zero vectors", "PL438", "PL438", {"kind": "zero"}, QUICK, ()),
    ("NaN in the vectors", "PL438", "PL438", {"kind": "nan"}, QUICK, ()),
    ("infinity in the vectors", "PL438", "PL438", {"kind": "overflow"}, QUICK, ()),
    ("half of the dimensions", "PL422", "PL422", {"kind": "shorter"}, QUICK, ("engine",)),
    ("twice the dimensions", "PL422", "PL422", {"kind": "longer"}, QUICK, ()),
    ("vectors are not normalised", "PL423", "PL423", {"kind": "unnormalised"}, QUICK, ("engine",)),
    ("noise", "PL462", "PL462", {"kind": "noise"}, QUICK, ()),
    ("a vector depends on its batch", "PL425", "PL425", {"kind": "batch-bound"}, QUICK, ("engine",)),
    ("wrong vectors when requests come at once", "PL463", "PL463", {"kind": "mirrored", "at_once": CROWD}, STANDARD, ("engine",)),
    ("another model in each second replica", "PL462", "PL462", {"kind": "other-model", "every": 2}, QUICK, ("proxy",)),
    ("another model", "PL429", "PL426", {"kind": "other-model"}, QUICK, ("engine", "proxy")),
    ("prefixes are dropped", "PL430", "PL426", {"kind": "drop-prefix"}, QUICK, ("engine",)),
    ("a prompt is added to every text", "PL482", "PL426", {"kind": "prompt", "value": "query: "}, QUICK, ()),
    ("prefixes are doubled", "", "PL426", {"kind": "twice"}, QUICK, ()),
    ("prefixes are exchanged", "", "PL426", {"kind": "other-side"}, QUICK, ()),
    ("texts are truncated", "PL466", "PL466", {"kind": "truncate", "value": 600}, STANDARD, ("proxy",)),
    ("base64 gives other vectors", "PL440", "PL440", {"kind": "mirrored-base64"}, QUICK, ()),
    ("an unknown model is accepted", "PL427", "PL427", {"kind": "any-model", "value": EMBEDDER}, QUICK, ()),
    ("429 when requests come at once", "PL464", "PL464", {"kind": "status", "value": 429, "at_once": CROWD}, STANDARD, ()),
)  # fmt: skip

SCORES: tuple[tuple[str, str, dict[str, Any], str, tuple[str, ...]], ...] = (
    ("a bare list", "PL442", {"kind": "bare-list"}, QUICK, ("reranker",)),
    ("`score` instead of `relevance_score`", "PL442", {"kind": "score-name"}, QUICK, ("proxy",)),
    ("scores are text", "PL448", {"kind": "text-scores"}, QUICK, ()),
    ("scores are null", "PL448", {"kind": "null-scores"}, QUICK, ("proxy",)),
    ("a result is missing", "PL443", {"kind": "fewer"}, QUICK, ("reranker",)),
    ("a document is scored twice", "PL443", {"kind": "repeated"}, QUICK, ()),
    ("all scores are equal", "PL445", {"kind": "equal"}, QUICK, ("reranker",)),
    ("scores are inverted", "PL444", {"kind": "inverted"}, QUICK, ()),
    ("scores are logits", "PL446", {"kind": "logits"}, QUICK, ()),
    ("32 documents at most", "PL447", {"kind": "status", "value": 422, "more_than": 32}, QUICK, ("reranker",)),
    ("an empty document is refused", "PL468", {"kind": "status", "value": 422, "empty": True}, STANDARD, ()),
)  # fmt: skip

STATUSES = (401, 403, 404, 413, 422, 424, 429, 500)
TRANSPORT: tuple[tuple[str, dict[str, Any], float], ...] = (
    *((f"status {status}", {"kind": "status", "value": status}, 30.0) for status in STATUSES),
    ("a web page with status 200", {"kind": "html"}, 30.0),
    # Short, and long enough for what is right on a slow processor.
    ("slower than the timeout", {"kind": "slow", "value": 12}, 8.0),
    ("no answer", {"kind": "hang"}, 8.0),
    ("the connection is closed within the answer", {"kind": "cut"}, 30.0),
)  # fmt: skip
_OFTEN = {
    ("status 401", "engine"),
    ("status 429", "proxy"),
    ("a web page with status 200", "reranker"),
    ("no answer", "engine"),
}

# What Open WebUI sends differently from what it should; nobody else is met.
SENT: tuple[tuple[str, str, dict[str, Any], bool], ...] = (
    ("no document prefix", "PL431", {"kind": "drop-prefix", "value": "passage: "}, True),
    ("no query prefix", "PL431", {"kind": "drop-prefix", "value": "query: "}, False),
    ("the document prefix is sent as a field", "PL431", {"kind": "field", "value": "passage: "}, False),
    ("the query prefix before documents", "PL432", {"kind": "other-side", "value": "passage: "}, False),
    ("the document prefix before questions", "PL432", {"kind": "other-side", "value": "query: "}, False),
    ("the document prefix without its blank", "PL433", {"kind": "lost-blank", "value": "passage: "}, False),
    ("the query prefix without its blank", "PL433", {"kind": "lost-blank", "value": "query: "}, True),
    ("the document prefix in quotes", "PL434", {"kind": "quoted", "value": "passage: "}, False),
    ("the query prefix in quotes", "PL434", {"kind": "quoted", "value": "query: "}, False),
    ("the document prefix with a literal newline", "PL436", {"kind": "literal-newline", "value": "passage: "}, False),
    ("the document prefix twice", "PL435", {"kind": "twice", "value": "passage: "}, False),
    ("the query prefix twice", "PL435", {"kind": "twice", "value": "query: "}, False),
    ("another document prefix", "PL436", {"kind": "other-string", "value": "passage: "}, False),
    ("another query prefix", "PL436", {"kind": "other-string", "value": "query: "}, False),
    ("another embedding model", "PL436", {"kind": "other-model"}, True),
    ("uploads cannot be embedded", "PL451", {"kind": "status", "value": 500}, True),
)  # fmt: skip
FROM_OPEN_WEBUI = {"source": "rag-open-webui"}
COLLECTION, DOCUMENT = {"path": "/query/collection"}, {"path": "/query/doc"}
CONFIG = {"method": "GET", "path": "/api/config"}
ADMIN = {"method": "GET", "path": "/auths/admin/config"}
SIGN_IN = {"path": "/auths/signin"}
MFA = {"next_step": "verify", "email": "admin@example.com"}


def cells() -> Iterator[Cell]:
    """Every cell, by hop and then as above."""
    for fault, engine, proxy, plant, depth, often in VECTORS:
        for hop, rule in (("engine", engine), ("proxy", proxy)):
            if not rule:  # no engine does that: it adds a prompt to every text or to none
                continue
            yield Cell(fault, hop, (f"{rule} {hop}",), {**EMBEDDINGS, **plant}, depth, often=hop in often)
    for fault, rule, plant, depth, often in SCORES:
        for hop in ("reranker", "proxy"):
            yield Cell(fault, hop, (f"{rule} {hop}",), {**RERANK, **plant}, depth, often=hop in often)
    leaning = {**RERANK, "kind": "leaning"}
    yield Cell("scores depend on the other documents", "reranker", ("PL469 reranker",), leaning, STANDARD)
    # The scores that the reranker itself gives tell it sooner.
    yield Cell("scores depend on the other documents", "proxy", ("PL449 proxy",), leaning)
    yield Cell(
        "other scores than the reranker's", "proxy", ("PL449 proxy",), {**RERANK, "kind": "other-reranker"}, often=True
    )
    yield Cell(
        "a long document is refused", "reranker", ("PL470 reranker",),
        {**RERANK, "kind": "status", "value": 413, "longer_than": 3000}, STANDARD, plan={"reranker.truncates": True},
    )  # fmt: skip
    yield Cell(
        "slower than Open WebUI waits with 40 documents", "reranker", ("PL473 reranker",),
        {**RERANK, "kind": "slow", "value": 4, "more_than": 32},
        stored={"RAG_EXTERNAL_RERANKER_TIMEOUT": "2"},
        plan={"open_webui.settings.retrieval.RAG_EXTERNAL_RERANKER_TIMEOUT": "2"},
    )  # fmt: skip
    for fault, plant, timeout in TRANSPORT:
        for hop, route, rule in (
            ("engine", EMBEDDINGS, "PL421"),
            ("proxy", EMBEDDINGS, "PL421"),
            ("reranker", RERANK, "PL441"),
            ("proxy", RERANK, "PL441"),
        ):
            label = f"embedding: {fault}" if route is EMBEDDINGS else f"reranking: {fault}"
            yield Cell(
                label, hop, (f"{rule} {hop}",), {**route, **plant}, timeout=timeout, often=(fault, hop) in _OFTEN
            )
    yield from through_open_webui()
    yield from of_the_installation()


def through_open_webui() -> Iterator[Cell]:
    def cell(fault: str, *rules: str, **more: Any) -> Cell:
        return Cell(fault, "open_webui", tuple(f"{rule} open_webui" for rule in rules), **more)

    for fault, rule, plant, often in SENT:
        # Met on its way out of Open WebUI.
        yield Cell(
            f"Open WebUI sends: {fault}",
            "proxy",
            (f"{rule} open_webui",),
            {**EMBEDDINGS, **FROM_OPEN_WEBUI, **plant},
            often=often,
        )
    for fault, rule, plant in (
        ("reranking fails for Open WebUI alone", "PL457", {"kind": "status", "value": 500}),
        ("a bare list for Open WebUI alone", "PL457", {"kind": "bare-list"}),
        ("another reranker for Open WebUI alone", "PL458", {"kind": "other-reranker"}),
    ):
        yield Cell(fault, "proxy", (f"{rule} open_webui",), {**RERANK, **FROM_OPEN_WEBUI, **plant})
    yield cell("every path answers with a web page", "PL499", plant={"kind": "html"}, often=True)
    yield cell(
        "the API answers with a web page", "PL499", plant={"kind": "html", "method": "GET", "path": "/retrieval/config"}
    )
    yield cell("sign-in: wrong password", "PL416", plant={**SIGN_IN, "kind": "status", "value": 400})
    yield cell("sign-in: switched off", "PL416", plant={**SIGN_IN, "kind": "status", "value": 403})
    yield cell("sign-in: too many", "PL416", plant={**SIGN_IN, "kind": "status", "value": 429})
    yield cell("sign-in: multi-factor", "PL416", plant={**SIGN_IN, "kind": "json", "value": MFA}, often=True)
    yield cell("vector search in reverse order", "PL453", plant={**DOCUMENT, "kind": "hits-reversed"})
    yield cell("hybrid search in reverse order", "PL453", plant={**COLLECTION, "kind": "hits-reversed"}, often=True)
    yield cell("hybrid search finds nothing", "PL453", plant={**COLLECTION, "kind": "hits-none"})
    yield cell("search fails", "PL459", plant={**COLLECTION, "kind": "status", "value": 400})
    yield cell("search answers null", "PL459", plant={**COLLECTION, "kind": "json", "value": None})
    yield cell("scores are null", "PL457", plant={**COLLECTION, "kind": "hits-unscored"})
    yield cell("scores are fused ranks", "PL457", plant={**COLLECTION, "kind": "hits-fused"})
    yield cell("sign-up is open", "PL413", plant={**ADMIN, "kind": "assign", "value": {"ENABLE_SIGNUP": True}})
    yield cell("an old version", "PL401", "PL402", plant={**CONFIG, "kind": "assign", "value": {"version": "0.10.2"}})
    yield cell("another version", "PL402", plant={**CONFIG, "kind": "assign", "value": {"version": "0.12.3"}})
    yield cell("no administrator", "PL417", plant={**CONFIG, "kind": "assign", "value": {"onboarding": True}})
    yield cell("a file is refused", "PL451", plant={"path": "/api/v1/files/", "kind": "status", "value": 413})
    yield cell(
        "a knowledge base cannot be made", "PL452", plant={"path": "/knowledge/create", "kind": "status", "value": 400}
    )
    yield cell("settings changed in the database", "PL411", stored={"TOP_K": 7}, often=True)
    yield cell(
        "a lost blank in the environment", "PL412", environment={"RAG_EMBEDDING_QUERY_PREFIX": "query:"}, often=True
    )
    yield cell("a prefix field in the environment", "PL412", environment={"RAG_EMBEDDING_PREFIX_FIELD_NAME": "prefix"})


def of_the_installation() -> Iterator[Cell]:
    yield Cell("stopped", "engine", ("PL497 engine",), stopped=("engine",), often=True)
    yield Cell("stopped", "reranker", ("PL497 reranker",), stopped=("reranker",))
    yield Cell("stopped", "proxy", ("PL497 proxy",), stopped=("proxy",))
    yield Cell("stopped", "open_webui", ("PL497 open_webui",), stopped=("open_webui",))
    yield Cell("stopped", "vector_store", ("PL471 vector_store",), stopped=("vector_store",))
    yield Cell(
        "no Open WebUI and no reranker yet", "open_webui", ("PL497 open_webui", "PL497 reranker"),
        stopped=("open_webui", "reranker"), often=True,
    )  # fmt: skip
    yield Cell("wrong key", "engine", ("PL421 engine",), secrets={"embedder_api_key": "wrong-key"})
    yield Cell("wrong key", "reranker", ("PL441 reranker",), secrets={"reranker_api_key": "wrong-key"})
    yield Cell(
        "wrong key", "proxy", ("PL411 open_webui", "PL421 proxy", "PL441 proxy"),
        secrets={"litellm_master_key": "wrong-key"},
    )  # fmt: skip
    yield Cell(
        "wrong password",
        "vector_store",
        ("PL471 vector_store",),
        secrets={"postgres_password": "wrong-password"},
        often=True,
    )


MATRIX = tuple(cells())
