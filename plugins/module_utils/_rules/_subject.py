# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rule looks at. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _images, _versions
from ansible_collections.plumbline.rag.plugins.module_utils._catalog import Catalog, Embedder, Reranker
from ansible_collections.plumbline.rag.plugins.module_utils._choice import Choice
from ansible_collections.plumbline.rag.plugins.module_utils._hosted import HOSTED
from ansible_collections.plumbline.rag.plugins.module_utils._spec import Spec


@dataclasses.dataclass(frozen=True)
class Service:
    """An embedder or a reranker as a rule sees it; ``engine`` is the catalog's entry of the engine called ``name``."""

    kind: str
    name: str
    engine: Mapping[str, Any]
    entry: Embedder | Reranker

    @property
    def hosted(self) -> bool:
        """Whether the operator runs it, and not this collection."""
        return self.name in HOSTED


@dataclasses.dataclass(frozen=True)
class Subject:
    """One installation under inspection; ``plan`` is None while hosts or versions are unresolved.

    ``secrets`` are values that the operator gave: a rule may look at them and never shows them.
    """

    spec: Spec
    catalog: Catalog
    choice: Choice
    plan: dict[str, Any] | None
    secrets: dict[str, str]

    @property
    def env(self) -> Mapping[str, Any]:
        """The operator's extra environment of Open WebUI."""
        return dict(self.spec["rag_open_webui_env"])

    def services(self) -> Iterator[Service]:
        """The embedder, and the reranker when there is one."""
        choice, engines = self.choice, self.catalog.engines
        yield Service("embedder", choice.embedder_engine, engines[choice.embedder_engine], choice.embedder)
        if choice.reranker is not None and choice.reranker_engine is not None:
            yield Service("reranker", choice.reranker_engine, engines[choice.reranker_engine], choice.reranker)

    def per_host(self, variable: str) -> Iterator[tuple[str, Any]]:
        """Each different value of a per-host variable, with the first host that has it."""
        seen: list[Any] = []
        for host, values in self.spec.host_values.items():
            if values[variable] not in seen:
                seen.append(values[variable])
                yield host, values[variable]

    def flags(self, kind: str) -> Iterator[tuple[str, str, str | None]]:
        """Every flag of the operator's engine arguments, as host, flag and value."""
        for host, args in self.per_host(f"rag_{kind}_extra_args"):
            for flag, value in flags(args):
                yield host, flag, value

    def version(self, name: str) -> str:
        """The version of a component: that of the operator's image, else the operator's, else the default."""
        return _images.chosen_version(self.spec, self.catalog, name)

    def older(self, name: str, version: str) -> bool:
        """Whether a component is older than ``version``; what is not a version is not."""
        try:
            return _versions.below(self.version(name), version)
        except ValueError:
            return False

    def processes(self) -> int:
        """How many processes of Open WebUI share the installation's database."""
        hosts = len(self.spec.groups.get("rag_open_webui", ())) or 1
        return hosts * int(self.spec["rag_open_webui_replicas"]) * self.workers()

    def workers(self) -> int:
        """Processes in one container of Open WebUI."""
        return number(self.env.get("UVICORN_WORKERS")) or 1


def flags(args: Any) -> Iterator[tuple[str, str | None]]:
    """Flags and their values from an argument list, written as ``--flag value`` or ``--flag=value``."""
    texts = [str(arg) for arg in args]
    for position, text in enumerate(texts):
        if not text.startswith("--"):
            continue
        flag, equals, value = text.partition("=")
        following = texts[position + 1] if position + 1 < len(texts) else None
        if equals:
            yield flag, value
        else:
            yield flag, None if following is None or following.startswith("--") else following


def number(value: Any) -> int | None:
    """A whole number from an environment value; None when it is not one."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = str(value)
    return int(text) if text.isdecimal() and len(text) < 10 else None


def truthy(value: Any) -> bool:
    """Whether Open WebUI takes the value as true: it knows only the word itself."""
    return str(value).lower() == "true"
