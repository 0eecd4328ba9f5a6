# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""resolve: spec + catalog -> plan and findings. Pure; this is where every URL, name and limit is derived, once."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import (
    _expectation,
    _hosted,
    _images,
    _rules,
    _sizing,
    _startup,
    _tei,
    _wiring,
)
from ansible_collections.plumbline.rag.plugins.module_utils._catalog import Catalog, Embedder, Reranker
from ansible_collections.plumbline.rag.plugins.module_utils._choice import choose
from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, Finding, acknowledge, register
from ansible_collections.plumbline.rag.plugins.module_utils._hosted import HOSTED
from ansible_collections.plumbline.rag.plugins.module_utils._rules.gpus import share
from ansible_collections.plumbline.rag.plugins.module_utils._spec import VARIABLES, Spec
from ansible_collections.plumbline.rag.plugins.module_utils._topology import Topology, container_name, network_name

NOT_BUILDABLE = register(
    "PL111",
    ERROR,
    "There is no build recipe for a version",
    "rag_image_source build knows only the versions that are pinned with their hashes in catalog/images.yml.",
    "Use a pinned version, or rag_image_source registry or archive.",
    acknowledgeable=False,
)

_MEMORY = {"postgres": "1g", "litellm": "2g", "open_webui": "3g"}


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


def _has(args: Sequence[Any], flag: str) -> bool:
    """Whether an argument list has a flag, as ``--flag 8`` or ``--flag=8``."""
    return any(str(arg).partition("=")[0] == flag for arg in args)


class _Resolver(Topology):
    """One installation on its way from choice to plan."""

    def device(self, engine: Mapping[str, Any], service: str, host: str) -> str:
        """What the engine computes on; one that needs no card uses the processor of a host without."""
        spared = engine["gpu"] == "none" or (engine["gpu"] == "optional" and not self.cards(service, host))
        return "cpu" if self.spec["rag_image_source"] == "build" or spared else "gpu"

    def image(self, service: str, host: str) -> dict[str, Any]:
        """Reference, recipe and version of a service's image; recipes hold for rag_image_source build."""
        spec = self.spec
        name, recipe = service, service
        if service in ("embedder", "reranker"):
            name = self.catalog.engines[self.engine_name(service)]["image"]
            recipe = "vllm_cpu" if name == "vllm" else name
        elif service == "open_webui":
            recipe = f"open_webui_{spec['rag_open_webui_variant']}"
        packed = name == "bundled" and _images.own(spec, host, name) is None  # in no registry of ours
        if spec["rag_image_source"] == "build" or packed:
            return {"service": service, "recipe": recipe, **self._built(service, name, recipe)}
        return {
            "service": service,
            "recipe": recipe,
            **_images.pulled(spec, self.catalog, name, host, self.cards(service, host)),
        }

    def _built(self, service: str, name: str, recipe: str) -> dict[str, Any]:
        """Reference and version of the image that a recipe builds; a version without one becomes a finding."""
        version = _images.chosen_version(self.spec, self.catalog, name)
        pinned = self.catalog.images.get("recipes", {}).get(recipe, {}).get("versions", {})
        if service in ("embedder", "reranker"):
            version = next(iter(pinned), version)
        found = next((v for v in pinned if v == version or v.startswith(version + ".")), None)
        if found is None:
            have = ", ".join(pinned) or "none"
            message = f"rag_image_source is build and there is no recipe {recipe} {version} (pinned: {have})."
            self.findings.append(NOT_BUILDABLE.finding(message, variable=f"rag_{service}_version"))
            return {"ref": "", "version": version}
        return {"ref": pinned[found]["ref"], "version": found}

    def base(self, service: str, host: str, role: str, memory: str) -> dict[str, Any]:
        """What every container of the stack has."""
        return {
            "role": role,
            "container": container_name(self.spec.installation, service),
            "image": self.image(service, host)["ref"],
            "version": self.image(service, host)["version"],
            "port": self.port(service),
            "publish": self.publish(service, host),
            "memory": memory,
        }

    def postgres(self, host: str) -> dict[str, Any]:
        container = self.base("postgres", host, "postgres", _MEMORY["postgres"])
        return {**container, "volume": container["container"], "user": "open_webui", "database": "open_webui"}

    def engine(self, service: str, host: str) -> dict[str, Any]:
        """The container of the embedder or the reranker, with what it takes of its cards."""
        planned = self._engine_bare(service, host)
        engine = self.catalog.engines[planned["engine"]]
        if planned["device"] == "cpu" or not planned["gpus"]:
            return {**planned, "card_memory": {}}
        taken: dict[str, Any] = {}
        needed = _sizing.need(planned, engine, self._entry(service))
        if needed is not None:
            taken["bytes"] = needed.least
            if needed.most > needed.least and not _has(planned["args"], engine["length"]["flag"]):
                # the cache has to hold the longest input, and the checkpoint's own length may be several times that
                planned["args"] += [engine["length"]["flag"], str(planned["max_tokens"])]
        if "memory_share" in engine:
            flag = engine["memory_share"]["flag"]
            stated = None if _has(planned["args"], flag) else self._share(service, host, planned)
            planned["args"] += [] if stated is None else [flag, f"{stated:g}"]
            taken["share"] = share(planned["args"], engine)
        return {**planned, "card_memory": taken}

    def _share(self, service: str, host: str, planned: Mapping[str, Any]) -> float | None:
        """The share of its cards that an engine is told to reserve; None for shared cards of a size that is not known."""
        other = "reranker" if service == "embedder" else "embedder"
        beside = self._engine_bare(other, host) if host in self.where.get(other, []) else None
        cards = {str(card) for card in planned["gpus"]}
        if beside is None or beside["device"] == "cpu" or not cards & {str(card) for card in beside["gpus"]}:
            return float(self.catalog.engines[planned["engine"]]["memory_share"]["alone"])
        size = self.spec.host_values[host]["rag_gpu_memory"]
        engines = self.catalog.engines
        mine = _sizing.need(planned, engines[planned["engine"]], self._entry(service))
        theirs = _sizing.need(beside, engines[beside["engine"]], self._entry(other))
        if size is None or mine is None or theirs is None:
            return None
        card = round(size * _sizing.GIB)
        known = engines[beside["engine"]].get("memory_share")
        if known is None:
            given = _sizing.shares([mine], card, theirs.least)
        elif _has(beside["args"], known["flag"]):
            given = _sizing.shares([mine], card, round(share(beside["args"], engines[beside["engine"]]) * card))
        else:
            given = _sizing.shares([mine, theirs], card)
        return given[0] if given else None

    def _entry(self, service: str) -> Embedder | Reranker:
        reranker = self.choice.reranker
        return self.choice.embedder if service == "embedder" or reranker is None else reranker

    def _engine_bare(self, service: str, host: str) -> dict[str, Any]:
        choice, spec = self.choice, self.spec
        embedding = service == "embedder"
        name = self.engine_name(service)
        engine = self.catalog.engines[name]
        entry = self._entry(service)
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
        return {
            **self.base(service, host, engine["role"], engine["memory"]),
            "engine": name,
            "task": "embed" if embedding else "rerank",
            "device": device,
            "model": spec[f"rag_{service}_weights"] or model,
            "served_name": entry.id,
            "revision": spec[f"rag_{service}_revision"],
            "weights": self.weights(service, engine, model, entry),
            "timeout": _startup.timeout(engine, device, entry.raw.get("parameters")),
            "max_batch": limit,
            "max_tokens": entry.max_tokens,
            "limits": stated,
            "args": args,
            "chat_template": self.catalog.templates.get(support.get("chat_template", "")),
            "gpus": self.cards(service, host),
            "api_key_secret": f"{service}_api_key",
        }

    def weights(
        self, service: str, engine: Mapping[str, Any], model: str, entry: Embedder | Reranker
    ) -> dict[str, Any] | None:
        """Where the host has the weights and how they come there; None for an engine whose image holds them."""
        spec, mount = self.spec, engine.get("weights")
        if mount is None or spec["rag_image_source"] == "build":
            return None
        folder = spec[f"rag_{service}_weights"] or None
        return {
            "source": "folder" if folder is not None else spec["rag_weights_source"],
            "repository": model,
            "directory": spec["rag_weights_dir"],
            "mount": mount,
            "folder": None if folder is None else posixpath.relpath(folder, mount),
            "endpoint": spec["rag_hub_endpoint"],
            "bytes": _startup.file_bytes(entry.raw.get("parameters")),
        }

    def litellm(self, host: str) -> dict[str, Any]:
        choice = self.choice
        rerank_urls = self.every_root("reranker", host)
        if choice.reranker_engine in HOSTED:
            url = next(iter(self.rerank_urls(host)))
            rerank_urls = [_hosted.litellm_rerank_base(self.catalog.engines[str(choice.reranker_engine)], url)]
        hosted_embed = choice.embedder_engine in HOSTED
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
                self.embed_base_urls(host) if hosted_embed else self.every_root("embedder", host),
                rerank_urls,
                more_models,
                self.spec["rag_reranker_timeout"],
            ),
            "secret_env": secrets,
        }

    def open_webui(self, host: str) -> dict[str, Any]:
        choice = self.choice
        embed_url, rerank_url = self.client_urls(host)
        embed_secret, rerank_secret = self.client_secrets()
        proxied = self.spec["rag_proxy"] == "litellm"
        embed_name = choice.embedder.id if proxied else choice.embed_name
        rerank_name = choice.reranker.id if choice.reranker and proxied else choice.rerank_name
        settings = _wiring.open_webui_settings(self.spec, choice, embed_url, embed_name, rerank_url, rerank_name)
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
                "verify": _expectation.verification(resolver, hosts),
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
