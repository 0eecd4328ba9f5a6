# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the services of an installation run, and how they reach each other. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _hosted
from ansible_collections.plumbline.rag.plugins.module_utils._catalog import Catalog
from ansible_collections.plumbline.rag.plugins.module_utils._choice import Choice
from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, Finding, register
from ansible_collections.plumbline.rag.plugins.module_utils._hosted import HOSTED
from ansible_collections.plumbline.rag.plugins.module_utils._spec import Spec

NO_HOST = register(
    "PL110",
    ERROR,
    "A service has no host",
    "The installation needs the service and no inventory group says where it runs.",
    "Put a host of the installation into the group.",
    example="rag_proxies:\n  hosts:\n    proxy1:",
    acknowledgeable=False,
)
GROUPS = {
    "postgres": "rag_databases",
    "embedder": "rag_embedders",
    "reranker": "rag_rerankers",
    "litellm": "rag_proxies",
    "open_webui": "rag_open_webui",
}
_PORTS = {"postgres": 5432, "litellm": 4000, "open_webui": 8080}


def container_name(installation: str, service: str) -> str:
    """The container's name: rag-<service>, with the installation in between unless it is the default one."""
    middle = "" if installation == "default" else f"{installation}-"
    return f"rag-{middle}{service.replace('_', '-')}"


def network_name(installation: str) -> str:
    """The Docker network that the installation's containers of one host share."""
    return "rag" if installation == "default" else f"rag-{installation}"


class Topology:
    """The services of one installation on its hosts."""

    def __init__(self, spec: Spec, catalog: Catalog, choice: Choice, addresses: Mapping[str, str]) -> None:
        self.spec = spec
        self.catalog = catalog
        self.choice = choice
        self.addresses = addresses
        self.findings: list[Finding] = []
        self.where = {service: self._hosts_of(service) for service in self.services()}

    def services(self) -> list[str]:
        """The services that this collection runs, in the order in which they are started."""
        services = []
        if self.spec["rag_database_url"] is None and self.spec["rag_vector_store"] == "pgvector":
            services.append("postgres")
        if self.choice.embedder_engine not in HOSTED:
            services.append("embedder")
        if self.choice.reranker_engine is not None and self.choice.reranker_engine not in HOSTED:
            services.append("reranker")
        if self.spec["rag_proxy"] == "litellm":
            services.append("litellm")
        return [*services, "open_webui"]

    def _hosts_of(self, service: str) -> list[str]:
        hosts = self.spec.groups.get(GROUPS[service], [])
        if hosts or (not any(self.spec.groups.values()) and len(self.spec.hosts) == 1):
            return hosts or self.spec.hosts
        message = (
            f"Installation {self.spec.installation} needs {service} and has no host in the group {GROUPS[service]}."
        )
        self.findings.append(NO_HOST.finding(message, variable=GROUPS[service]))
        return []

    def port(self, service: str) -> int:
        """The port of the service in its container."""
        if service in _PORTS:
            return _PORTS[service]
        return int(self.catalog.engines[self.engine_name(service)]["port"])

    def engine_name(self, service: str) -> str:
        """The name of the engine of the embedder or the reranker."""
        return str(self.choice.embedder_engine if service == "embedder" else self.choice.reranker_engine)

    def _published_port(self, service: str) -> int:
        """Port on the host for consumers on other hosts: an embedder and a reranker may share a host."""
        return self.port(service) + (1 if service == "reranker" else 0)

    def root(self, service: str, host: str, consumer: str) -> str:
        """URL of the service on ``host`` as ``consumer`` reaches it, without a path."""
        if host == consumer:
            return f"http://{container_name(self.spec.installation, service)}:{self.port(service)}"
        return f"http://{self.addresses[host]}:{self._published_port(service)}"

    def every_root(self, service: str, consumer: str) -> list[str]:
        """All instances, for a proxy that spreads requests over them."""
        return [self.root(service, host, consumer) for host in self.where.get(service, [])]

    def roots(self, service: str, consumer: str) -> list[str]:
        """All instances; one on the consumer's own host stands alone, the network in between is saved."""
        hosts = self.where.get(service, [])
        return [self.root(service, host, consumer) for host in ([consumer] if consumer in hosts else hosts)]

    def _consumers(self, service: str) -> list[str]:
        proxied = self.spec["rag_proxy"] == "litellm"
        if service in ("embedder", "reranker") and proxied:
            return [*self.where["litellm"], *self.where["open_webui"]]
        return [] if service == "open_webui" else self.where["open_webui"]

    def publish(self, service: str, host: str) -> dict[str, Any] | None:
        """Where the container's port is published: Open WebUI for its users, others only for consumers on other hosts."""
        if service == "open_webui":
            values = self.spec.host_values[host]
            return {"address": values["rag_open_webui_address"], "port": values["rag_open_webui_port"]}
        if all(consumer == host for consumer in self._consumers(service)):
            return None
        return {"address": self.addresses[host], "port": self._published_port(service)}

    def cards(self, service: str, host: str) -> list[Any]:
        """The cards of the host that the service is given; none for what computes on the processor."""
        return list(self.spec.host_values[host].get(f"rag_{service}_gpus", ()))

    def embed_base_urls(self, consumer: str) -> list[str]:
        """Base URLs of the engine's OpenAI route; a hosted backend's is what the operator gave."""
        if self.choice.embedder_engine in HOSTED:
            return [_hosted.base_url(self.spec, self.catalog.engines[self.choice.embedder_engine])]
        path = self.catalog.engines[self.choice.embedder_engine]["embed_path"]
        return [root + path for root in self.roots("embedder", consumer)]

    def rerank_urls(self, consumer: str) -> list[str]:
        """Full rerank URLs of the engine."""
        if self.choice.reranker_engine is None:
            return []
        if self.choice.reranker_engine in HOSTED:
            return [_hosted.rerank_url(self.spec, self.catalog.engines[self.choice.reranker_engine])]
        path = self.catalog.engines[self.choice.reranker_engine]["rerank_path"]
        return [root + path for root in self.roots("reranker", consumer)]

    def client_urls(self, host: str) -> tuple[str, str | None]:
        """Embedding base URL and rerank URL as Open WebUI on ``host`` uses them."""
        if self.spec["rag_proxy"] == "litellm":
            root = next(iter(self.roots("litellm", host)), "")
            return f"{root}/v1", f"{root}/v1/rerank" if self.choice.reranker else None
        return next(iter(self.embed_base_urls(host)), ""), next(iter(self.rerank_urls(host)), None)

    def client_secrets(self) -> tuple[str, str]:
        """Names of the secrets that Open WebUI sends to the embedding and to the rerank URL."""
        if self.spec["rag_proxy"] == "litellm":
            return "litellm_master_key", "litellm_master_key"
        return "embedder_api_key", "reranker_api_key"

    def database(self, host: str) -> dict[str, Any] | None:
        """Connection of Open WebUI to its PostgreSQL; None for one that the operator gave as a URL."""
        if "postgres" not in self.where or not self.where["postgres"]:
            return None
        server = self.where["postgres"][0]
        same = server == host
        return {
            "user": "open_webui",
            "name": "open_webui",
            "host": container_name(self.spec.installation, "postgres") if same else self.addresses[server],
            "port": self.port("postgres"),
            "password_secret": "postgres_password",
        }
