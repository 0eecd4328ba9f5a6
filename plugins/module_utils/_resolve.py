# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""resolve: spec + catalog -> plan and findings. Pure; this is where every URL, name and limit is derived, once."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _advice, _rules, _tei, _wiring
from ansible_collections.plumbline.rag.plugins.module_utils._catalog import Catalog, Embedder, Reranker
from ansible_collections.plumbline.rag.plugins.module_utils._choice import HOSTED, Choice, choose, flag_value
from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, Finding, acknowledge, register
from ansible_collections.plumbline.rag.plugins.module_utils._rules.gpus import share
from ansible_collections.plumbline.rag.plugins.module_utils._spec import VARIABLES, Spec

NO_HOST = register(
    "PL110",
    ERROR,
    "A service has no host",
    "The installation needs the service and no inventory group says where it runs.",
    "Put a host of the installation into the group.",
    example="rag_proxies:\n  hosts:\n    proxy1:",
    acknowledgeable=False,
)
NOT_BUILDABLE = register(
    "PL111",
    ERROR,
    "There is no build recipe for a version",
    "rag_image_source build knows only the versions that are pinned with their hashes in catalog/images.yml.",
    "Use a pinned version, or rag_image_source registry or archive.",
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
_MEMORY = {"postgres": "1g", "litellm": "2g", "open_webui": "3g"}


def container_name(installation: str, service: str) -> str:
    """The container's name: rag-<service>, with the installation in between unless it is the default one."""
    middle = "" if installation == "default" else f"{installation}-"
    return f"rag-{middle}{service.replace('_', '-')}"


def network_name(installation: str) -> str:
    """The Docker network that the installation's containers of one host share."""
    return "rag" if installation == "default" else f"rag-{installation}"


def _allow_dimensions(args: list[str], sizes: Sequence[int]) -> list[str]:
    """vLLM's arguments with the override that makes it take ``dimensions``, merged with overrides that are there."""
    given: dict[str, Any] = {}
    rest = list(args)
    if "--hf-overrides" in rest[:-1]:
        position = rest.index("--hf-overrides")
        try:
            given = dict(json.loads(rest[position + 1]))
        except (TypeError, ValueError):  # not the form that is merged here: vLLM judges it
            return rest
        del rest[position : position + 2]
    merged = {"is_matryoshka": True, "matryoshka_dimensions": [*sizes], **given}
    return [*rest, "--hf-overrides", json.dumps(merged, separators=(",", ":"))]


class _Resolver:
    """One installation on its way from choice to plan."""

    def __init__(self, spec: Spec, catalog: Catalog, choice: Choice, addresses: Mapping[str, str]) -> None:
        self.spec = spec
        self.catalog = catalog
        self.choice = choice
        self.addresses = addresses
        self.findings: list[Finding] = []
        self.where = {service: self._hosts_of(service) for service in self._services()}

    def _services(self) -> list[str]:
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

    def _port(self, service: str) -> int:
        if service in _PORTS:
            return _PORTS[service]
        engine = self.choice.embedder_engine if service == "embedder" else self.choice.reranker_engine
        return int(self.catalog.engines[str(engine)]["port"])

    def _published_port(self, service: str) -> int:
        """Port on the host for consumers on other hosts: an embedder and a reranker may share a host."""
        return self._port(service) + (1 if service == "reranker" else 0)

    def root(self, service: str, host: str, consumer: str) -> str:
        """URL of the service on ``host`` as ``consumer`` reaches it, without a path."""
        if host == consumer:
            return f"http://{container_name(self.spec.installation, service)}:{self._port(service)}"
        return f"http://{self.addresses[host]}:{self._published_port(service)}"

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
        """The cards of the host that the service is given."""
        return list(self.spec.host_values[host][f"rag_{service}_gpus"])

    def device(self, engine: Mapping[str, Any], service: str, host: str) -> str:
        """What the engine computes on; one that needs no card uses the processor of a host without."""
        spared = engine["gpu"] == "optional" and not self.cards(service, host)
        return "cpu" if self.spec["rag_image_source"] == "build" or spared else "gpu"

    def image(self, service: str, host: str) -> dict[str, Any]:
        """Reference, recipe and version of a service's image; recipes hold for rag_image_source build."""
        spec, versions = self.spec, self.catalog.versions
        building = spec["rag_image_source"] == "build"
        if service in ("embedder", "reranker"):
            engine = str(self.choice.embedder_engine if service == "embedder" else self.choice.reranker_engine)
            name, suffix = self.catalog.engines[engine]["image"], ""
            version = versions[name]["default"]
            recipe = "vllm_cpu" if name == "vllm" else name
        elif service == "open_webui":
            name, variant = service, spec["rag_open_webui_variant"]
            version = spec["rag_open_webui_version"] or versions[name]["default"]
            suffix, recipe = versions[name]["image"]["suffix"][variant], f"open_webui_{variant}"
        else:
            name, suffix, recipe = service, "", service
            version = spec[f"rag_{service}_version"] or versions[name]["default"]
        if building or name == "bundled":
            pinned = self.catalog.images.get("recipes", {}).get(recipe, {}).get("versions", {})
            if service in ("embedder", "reranker"):
                version = next(iter(pinned), version)
            found = next((v for v in pinned if v == version or v.startswith(version + ".")), None)
            if found is None:
                have = ", ".join(pinned) or "none"
                message = f"rag_image_source is build and there is no recipe {recipe} {version} (pinned: {have})."
                self.findings.append(NOT_BUILDABLE.finding(message, variable=f"rag_{service}_version"))
                return {"service": service, "ref": "", "recipe": recipe, "version": version}
            return {"service": service, "ref": pinned[found]["ref"], "recipe": recipe, "version": found}
        template = versions[name]["image"]
        tag = template["tag"].format(version=version, suffix=suffix)
        if name == "tei":
            # The plan knows no host: preflight compares the image with the cards that are there.
            tag = _tei.tag(tag, None if self.cards(service, host) else [])
        reference = f"{template['repository']}:{tag}"
        return {"service": service, "ref": reference, "recipe": recipe, "version": version}

    def base(self, service: str, host: str, role: str, memory: str) -> dict[str, Any]:
        """What every container of the stack has."""
        return {
            "role": role,
            "container": container_name(self.spec.installation, service),
            "image": self.image(service, host)["ref"],
            "version": self.image(service, host)["version"],
            "port": self._port(service),
            "publish": self.publish(service, host),
            "memory": memory,
        }

    def postgres(self, host: str) -> dict[str, Any]:
        container = self.base("postgres", host, "postgres", _MEMORY["postgres"])
        return {**container, "volume": container["container"], "user": "open_webui", "database": "open_webui"}

    def engine(self, service: str, host: str) -> dict[str, Any]:
        choice, spec = self.choice, self.spec
        embedding = service == "embedder"
        name = str(choice.embedder_engine if embedding else choice.reranker_engine)
        engine = self.catalog.engines[name]
        entry: Embedder | Reranker = choice.embedder if embedding or choice.reranker is None else choice.reranker
        support = entry.engines.get(name, {})
        limit = choice.embed_max_batch if embedding else choice.rerank_max_batch
        model = support.get("model", entry.id)
        args = list(support.get("args", []))
        if embedding and name == "vllm" and choice.dimensions in choice.embedder.matryoshka:
            args = _allow_dimensions(args, choice.embedder.matryoshka)
        args += spec.host_values[host][f"rag_{service}_extra_args"]
        device = self.device(engine, service, host)
        half = device == "gpu" and "float16" not in (entry.raw.get("dtypes_refused") or {})
        stated: list[str] = []
        if name == "tei":
            pooling = entry.raw.get("pooling") if embedding else None
            stated = _tei.limits(engine, args, limit, "float16" if half else "float32", pooling)
        planned = {
            **self.base(service, host, engine["role"], engine["memory"]),
            "engine": name,
            "task": "embed" if embedding else "rerank",
            "device": device,
            "model": spec[f"rag_{service}_weights"] or model,
            "served_name": entry.id,
            "revision": spec[f"rag_{service}_revision"],
            "max_batch": limit,
            "max_tokens": entry.max_tokens,
            "limits": stated,
            "args": args,
            "chat_template": self.catalog.templates.get(support.get("chat_template", "")),
            "gpus": self.cards(service, host),
            "api_key_secret": f"{service}_api_key",
        }
        return {**planned, "card_memory": self.card_memory(planned, engine, entry)}

    def card_memory(
        self, planned: Mapping[str, Any], engine: Mapping[str, Any], entry: Embedder | Reranker
    ) -> dict[str, Any]:
        """What the service takes of each of its cards: a share of the whole, or estimated bytes; nothing when unknown."""
        if planned["device"] == "cpu" or not planned["gpus"]:
            return {}
        if "memory_share" in engine:
            return {"share": share(planned["args"], engine)}
        # TEI warms up with its largest batch
        arguments = [*planned["limits"], *planned["args"]]
        tokens = flag_value(arguments, engine["length"]["flag"]) or engine["length"]["default"]
        width = entry.dimensions if isinstance(entry, Embedder) else None
        estimate = _advice.memory(planned, entry, math.ceil(tokens / entry.max_tokens), entry.max_tokens, width)
        return {} if estimate is None else {"bytes": estimate["total"]}

    def embed_base_urls(self, consumer: str) -> list[str]:
        """Base URLs of the engine's OpenAI route; a hosted backend's is what the operator gave."""
        if self.choice.embedder_engine in HOSTED:
            return [self.spec["rag_embedder_base_url"] or ""]
        path = self.catalog.engines[self.choice.embedder_engine]["embed_path"]
        return [root + path for root in self.roots("embedder", consumer)]

    def rerank_urls(self, consumer: str) -> list[str]:
        """Full rerank URLs of the engine."""
        if self.choice.reranker_engine is None:
            return []
        if self.choice.reranker_engine in HOSTED:
            return [self.spec["rag_reranker_url"] or ""]
        path = self.catalog.engines[self.choice.reranker_engine]["rerank_path"]
        return [root + path for root in self.roots("reranker", consumer)]

    def litellm(self, host: str) -> dict[str, Any]:
        choice = self.choice
        hosted_embed, hosted_rerank = choice.embedder_engine in HOSTED, choice.reranker_engine in HOSTED
        # LiteLLM's drivers append /rerank themselves; an external rerank URL ends with it
        external_rerank = [(self.spec["rag_reranker_url"] or "").removesuffix("/rerank")]
        secrets = {"LITELLM_MASTER_KEY": "litellm_master_key", "EMBEDDER_API_KEY": "embedder_api_key"}
        if choice.reranker is not None:
            secrets["RERANKER_API_KEY"] = "reranker_api_key"
        more_models, more_secrets = _wiring.extra_models(self.spec)
        secrets.update(more_secrets)
        return {
            **self.base("litellm", host, "litellm", _MEMORY["litellm"]),
            "config": _wiring.litellm_config(
                choice,
                self.catalog.engines,
                self.embed_base_urls(host) if hosted_embed else self.roots("embedder", host),
                external_rerank if hosted_rerank else self.roots("reranker", host),
                choice.embedder.id,
                choice.reranker.id if choice.reranker else None,
                more_models,
            ),
            "secret_env": secrets,
        }

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
            "port": self._port("postgres"),
            "password_secret": "postgres_password",
        }

    def open_webui(self, host: str) -> dict[str, Any]:
        choice = self.choice
        embed_url, rerank_url = self.client_urls(host)
        embed_secret, rerank_secret = self.client_secrets()
        rerank_name = choice.reranker.id if choice.reranker else None
        settings = _wiring.open_webui_settings(
            self.spec, choice, embed_url, choice.embedder.id, rerank_url, rerank_name
        )
        secrets = {
            "WEBUI_SECRET_KEY": "open_webui_secret_key",
            "WEBUI_ADMIN_PASSWORD": "open_webui_admin_password",
            "RAG_OPENAI_API_KEY": embed_secret,
            **_wiring.secret_env(self.spec),
        }
        fields = {"openai_config.key": embed_secret}
        if rerank_url:
            secrets["RAG_EXTERNAL_RERANKER_API_KEY"] = rerank_secret
            fields["RAG_EXTERNAL_RERANKER_API_KEY"] = rerank_secret
        container = self.base("open_webui", host, "open_webui", _MEMORY["open_webui"])
        return {
            **container,
            "variant": self.spec["rag_open_webui_variant"],
            "volume": container["container"],
            "env": _wiring.open_webui_env(self.spec, choice, settings),
            "secret_env": secrets,
            "database": self.database(host),
            "admin_email": self.spec["rag_open_webui_admin_email"],
            "config_owner": self.spec["rag_config_owner"],
            "settings": {**settings, "secret_fields": fields},
        }

    def slice_of(self, host: str) -> dict[str, Any]:
        """The host's part of the plan: its images and one key for each service that runs there."""
        here = [service for service, hosts in self.where.items() if host in hosts]
        builders = {"postgres": self.postgres, "litellm": self.litellm, "open_webui": self.open_webui}
        images: dict[str, dict[str, Any]] = {}
        for image in (self.image(service, host) for service in here):
            images.setdefault(image["ref"], image)
        result: dict[str, Any] = {"images": list(images.values())}
        for service in here:
            result[service] = builders[service](host) if service in builders else self.engine(service, host)
        return result

    def replica(self, host: str, hosts: Mapping[str, Any]) -> dict[str, Any]:
        """A further Open WebUI; without a URL when its port is published on its own host only."""
        publish = hosts[host]["open_webui"]["publish"]
        local = publish["address"].startswith("127.")
        return {"host": host, "url": None if local else f"http://{self.addresses[host]}:{publish['port']}"}

    def verification(self, hosts: Mapping[str, Any]) -> dict[str, Any]:
        """What verification expects at each hop, seen from the first Open WebUI host."""
        spec, choice, versions = self.spec, self.choice, self.catalog.versions
        host = self.where["open_webui"][0]
        webui = hosts[host]["open_webui"]
        embed_url, rerank_url = self.client_urls(host)
        embed_secret, rerank_secret = self.client_secrets()

        def container(service: str) -> str | None:
            return container_name(spec.installation, service) if host in self.where.get(service, []) else None

        tolerance = self.catalog.engines[choice.embedder_engine].get("tolerance", 0.01)
        reranker = choice.reranker
        proxied = spec["rag_proxy"] == "litellm"
        database = self.database(host)
        return {
            "host": host,
            "depth": spec["rag_verify_depth"],
            "eval_set": spec["rag_eval_set"],
            "images": {
                service["container"]: service["image"] for name, service in hosts[host].items() if name != "images"
            },
            "embedder": {
                "engine": choice.embedder_engine,
                "model": choice.embedder.id,
                "served_name": choice.embedder.id,
                "revision": spec["rag_embedder_revision"],
                "pooling": choice.embedder.raw.get("pooling"),
                "dimensions": choice.dimensions,
                "reduced_dimensions": choice.dimensions if choice.dimensions != choice.embedder.dimensions else None,
                "normalized": choice.embedder.normalized,
                "kind": choice.embedder.kind,
                "max_input_tokens": choice.embedder.max_tokens,
                "truncates": self.catalog.engines[choice.embedder_engine].get("truncates"),
                "languages": list(choice.embedder.raw.get("languages", ())),
                "max_batch": choice.embed_max_batch,
                "batch_size": choice.batch_size,
                "query_prefix": choice.query_prefix,
                "document_prefix": choice.document_prefix,
                "base_url": next(iter(self.embed_base_urls(host)), ""),
                "api_key_secret": "embedder_api_key",
                "container": container("embedder"),
                # reference values hold for vectors of the full length
                "fixtures": [dict(f) for f in choice.embedder.fixtures]
                if choice.dimensions == choice.embedder.dimensions
                else [],
                "tolerance": tolerance,
            },
            "reranker": None
            if reranker is None
            else {
                "engine": choice.reranker_engine,
                "model": reranker.id,
                "served_name": reranker.id,
                "url": next(iter(self.rerank_urls(host)), ""),
                "api_key_secret": "reranker_api_key",
                "container": container("reranker"),
                "kind": reranker.kind,
                "max_batch": choice.rerank_max_batch,
                "max_input_tokens": reranker.max_tokens,
                "truncates": self.catalog.engines[str(choice.reranker_engine)].get("truncates"),
                "languages": list(reranker.raw.get("languages", ())),
                "score_range": list(reranker.score_range.get(str(choice.reranker_engine), ())),
                "fixtures": [dict(fixture) for fixture in reranker.fixtures],
                "statement": reranker.quality["statement"],
            },
            "proxy": None
            if not proxied
            else {
                "base_url": embed_url,
                "rerank_url": rerank_url,
                "api_key_secret": "litellm_master_key",
                "container": container("litellm"),
                "version": self.image("litellm", self.where["litellm"][0])["version"],
                "floor": versions["litellm"]["floor"],
                "embedding_model": choice.embedder.id,
                "rerank_model": reranker.id if reranker else None,
            },
            "open_webui": {
                "url": f"http://{webui['container']}:{webui['port']}",
                "container": webui["container"],
                "version": webui["version"],
                "floor": versions["open_webui"]["floor"],
                "variant": webui["variant"],
                "admin_email": webui["admin_email"],
                "admin_password_secret": "open_webui_admin_password",
                "embedding_base_url": embed_url,
                "embedding_model": choice.embedder.id,
                "embedding_key_secret": embed_secret,
                "rerank_url": rerank_url,
                "rerank_model": reranker.id if reranker else None,
                "rerank_key_secret": rerank_secret,
                "hybrid": choice.hybrid,
                "top_k": choice.top_k,
                "top_k_reranker": choice.top_k_reranker,
                "config_owner": webui["config_owner"],
                "env": webui["env"],
                "settings": webui["settings"],
                "replicas": [self.replica(other, hosts) for other in self.where["open_webui"][1:]],
            },
            "vector_store": None
            if database is None
            else {
                "kind": spec["rag_vector_store"],
                "host": database["host"],
                "port": database["port"],
                "user": database["user"],
                "database": database["name"],
                "password_secret": database["password_secret"],
                "container": container("postgres"),
                "table": "document_chunk",
                "dimensions": choice.dimensions,
                "halfvec": _wiring.halfvec(spec, choice),
                "pgvector_floor": versions["postgres"]["pgvector_floor"],
            },
        }


def resolve(
    spec: Spec, catalog: Catalog, addresses: Mapping[str, str], secrets: Mapping[str, str] | None = None
) -> tuple[dict[str, Any] | None, list[Finding]]:
    """The plan of one installation, or None when its models or hosts cannot be resolved, and all findings.

    ``addresses`` maps each host to the address under which other hosts reach it; ``secrets`` are the values that the
    operator gave (checked, never put into the plan). Findings are already acknowledged by the spec's rag_accept.
    """
    choice, findings = choose(spec, catalog)
    plan: dict[str, Any] | None = None
    if choice is not None:
        resolver = _Resolver(spec, catalog, choice, addresses)
        if not resolver.findings:
            hosts = {host: resolver.slice_of(host) for host in spec.hosts}
            plan = {
                "installation": spec.installation,
                "network": network_name(spec.installation),
                "image_source": spec["rag_image_source"],
                "image_registry_prefix": spec["rag_image_registry_prefix"],
                "image_bundle_dir": spec["rag_image_bundle_dir"],
                "hosts": hosts,
                "verify": resolver.verification(hosts),
                "accept": spec["rag_accept"],
            }
        unique = {(f.id, f.message): f for f in resolver.findings}
        findings += list(unique.values())
        if any(finding.id == NOT_BUILDABLE.id for finding in findings):
            plan = None
        findings += _rules.check(_rules.Subject(spec, catalog, choice, plan, dict(secrets or {})))
    return plan, acknowledge(findings, spec["rag_accept"])


def examine(
    spec: Spec,
    catalog: Catalog,
    addresses: Mapping[str, str],
    secrets: Mapping[str, str],
    spec_findings: Sequence[Finding],
) -> tuple[dict[str, Any] | None, list[Finding]]:
    """Like :func:`resolve`, for a spec with findings of its own, so that one run reports all there is.

    Values that were not valid are missing from the spec: nothing is said about their variables again, and there is no plan.
    """
    if any(variable.required and spec[name] is None for name, variable in VARIABLES.items()):
        return None, acknowledge([], spec["rag_accept"])
    plan, findings = resolve(spec, catalog, addresses, secrets)
    told = {finding.where.get("variable") for finding in spec_findings}
    findings = [finding for finding in findings if finding.where.get("variable") not in told]
    return (None if any(finding.open_error for finding in spec_findings) else plan), findings
