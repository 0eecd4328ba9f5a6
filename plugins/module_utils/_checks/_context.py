# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every check gets, and what it gives back."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._docker import Container
from ansible_collections.plumbline.rag.plugins.module_utils._engines import Embeddings, Reranker
from ansible_collections.plumbline.rag.plugins.module_utils._evaluation import EvalSet
from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, Finding, Rule
from ansible_collections.plumbline.rag.plugins.module_utils._http import Http
from ansible_collections.plumbline.rag.plugins.module_utils._open_webui import OpenWebUI
from ansible_collections.plumbline.rag.plugins.module_utils._pgvector import Pgvector

ENGINE = "engine"
PROXY = "proxy"
OPEN_WEBUI = "open_webui"
VECTOR_STORE = "vector_store"
RERANKER = "reranker"
HOPS = (ENGINE, PROXY, OPEN_WEBUI, VECTOR_STORE, RERANKER)


@dataclasses.dataclass
class Outcome:
    """What a check found, measured, learnt about versions, and left out with the reason.

    ``data`` is for the checks that come after it and stays out of the report.
    """

    findings: list[Finding] = dataclasses.field(default_factory=list)
    measurements: dict[str, Any] = dataclasses.field(default_factory=dict)
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    skipped: list[str] = dataclasses.field(default_factory=list)
    data: dict[str, Any] = dataclasses.field(default_factory=dict)
    unjudged: bool = False  # something wrong was seen that may only follow from another finding

    @property
    def failed(self) -> bool:
        """Whether an error was found, which what comes later on the same path could only repeat."""
        return any(finding.severity == ERROR for finding in self.findings)

    def has(self, *rules: Rule) -> bool:
        """Whether one of these faults was found."""
        return any(finding.id == rule.id for finding in self.findings for rule in rules)


@dataclasses.dataclass(frozen=True)
class Context:
    """The plan's ``verify`` slice with the clients of everything that it names.

    ``probes`` are the collection's own questions in several languages, ``evaluation`` the set that measures the
    reranker, and ``logs`` gives the last lines of a container up to the start of the run.
    """

    plan: Mapping[str, Any]
    secrets: Mapping[str, str]
    http: Http
    containers: Mapping[str, Container]
    open_webui: OpenWebUI
    store: Pgvector | None
    probes: EvalSet | None = None
    evaluation: EvalSet | None = None
    logs: Callable[[str, int], str] | None = None

    def secret(self, name: str | None) -> str | None:
        """The value of a named secret; None for a service that has none."""
        return self.secrets.get(name) if name else None

    def container(self, hop: str) -> Container | None:
        """The hop's container, when it runs on this host."""
        return self.containers.get((self.plan.get(hop) or {}).get("container") or "")

    @property
    def engine(self) -> Embeddings:
        plan = self.plan["embedder"]
        key = self.secret(plan.get("api_key_secret"))
        # the proxy asks for a reduced dimension on Open WebUI's behalf; at the engine it has to be asked for here
        more = plan.get("reduced_dimensions"), plan.get("fields", {})
        return Embeddings(self.http, plan["base_url"], plan["served_name"], key, *more)

    @property
    def proxy(self) -> Embeddings:
        """The embeddings route that Open WebUI uses, of a plan with a proxy."""
        plan = self.plan["proxy"]
        key = self.secret(plan.get("api_key_secret"))
        fields = self.plan["embedder"].get("fields", {})
        return Embeddings(self.http, plan["base_url"], plan["embedding_model"], key, fields=fields)

    @property
    def reranker(self) -> Reranker:
        """The reranking server itself, of a plan with a reranker."""
        plan = self.plan["reranker"]
        dialect = "tei" if plan["engine"] == "tei" else "cohere"
        return Reranker(self.http, plan["url"], plan["served_name"], self.secret(plan.get("api_key_secret")), dialect)

    @property
    def rerank_hop(self) -> str:
        """The hop that answers Open WebUI's rerank requests."""
        return PROXY if self.plan.get("proxy") else RERANKER

    @property
    def rerank_route(self) -> Reranker:
        """Open WebUI's own request: the exact URL, name and key of its configuration."""
        plan = self.plan["open_webui"]
        return Reranker(self.http, plan["rerank_url"], plan["rerank_model"], self.secret(plan.get("rerank_key_secret")))


Before = Mapping[str, Outcome]
Check = Callable[[Context, Before], Awaitable[Outcome]]
