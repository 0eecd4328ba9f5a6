# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What verification expects of an installation at each hop, seen from its first Open WebUI host. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _wiring
from ansible_collections.plumbline.rag.plugins.module_utils._catalog import Reranker
from ansible_collections.plumbline.rag.plugins.module_utils._hosted import HOSTED
from ansible_collections.plumbline.rag.plugins.module_utils._topology import Topology, container_name


def verification(topology: Topology, hosts: Mapping[str, Any]) -> dict[str, Any]:
    """The plan's part for verification; ``hosts`` are the slices of the plan."""
    spec, choice, versions = topology.spec, topology.choice, topology.catalog.versions
    host = topology.where["open_webui"][0]
    webui = hosts[host]["open_webui"]
    embed_url, rerank_url = topology.client_urls(host)
    embed_secret, rerank_secret = topology.client_secrets()

    reranker = choice.reranker
    proxied = spec["rag_proxy"] == "litellm"
    database = topology.database(host)
    return {
        "host": host,
        "depth": spec["rag_verify_depth"],
        "eval_set": spec["rag_eval_set"],
        "images": {service["container"]: service["image"] for name, service in hosts[host].items() if name != "images"},
        "embedder": _embedder(topology, host),
        "reranker": None if reranker is None else _reranker(topology, host, reranker),
        "proxy": None
        if not proxied
        else {
            "base_url": embed_url,
            "rerank_url": rerank_url,
            "api_key_secret": "litellm_master_key",
            "container": _container(topology, "litellm", host),
            "version": hosts[topology.where["litellm"][0]]["litellm"]["version"],
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
            "embedding_model": webui["settings"]["embedding"]["RAG_EMBEDDING_MODEL"],
            "embedding_key_secret": embed_secret,
            "rerank_url": rerank_url,
            "rerank_model": webui["settings"]["retrieval"]["RAG_RERANKING_MODEL"] or None,
            "rerank_key_secret": rerank_secret,
            "hybrid": choice.hybrid,
            "top_k": choice.top_k,
            "top_k_reranker": choice.top_k_reranker,
            "config_owner": webui["config_owner"],
            "env": webui["env"],
            "settings": webui["settings"],
            "replicas": [_replica(topology, other, hosts) for other in topology.where["open_webui"][1:]],
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
            "container": _container(topology, "postgres", host),
            "table": "document_chunk",
            "dimensions": choice.dimensions,
            "halfvec": _wiring.halfvec(spec, choice),
            "pgvector_floor": versions["postgres"]["pgvector_floor"],
        },
    }


def _container(topology: Topology, service: str, host: str) -> str | None:
    """The name of the service's container, when it runs on the host."""
    here = host in topology.where.get(service, [])
    return container_name(topology.spec.installation, service) if here else None


def _replica(topology: Topology, host: str, hosts: Mapping[str, Any]) -> dict[str, Any]:
    """A further Open WebUI; without a URL when its port is published on its own host only."""
    publish = hosts[host]["open_webui"]["publish"]
    local = publish["address"].startswith("127.")
    return {"host": host, "url": None if local else f"http://{topology.addresses[host]}:{publish['port']}"}


def _embedder(topology: Topology, host: str) -> dict[str, Any]:
    choice, engine = topology.choice, topology.catalog.engines[topology.choice.embedder_engine]
    entry = choice.embedder
    url, secret, name = next(iter(topology.embed_base_urls(host)), ""), _key(topology, "embedder"), choice.embed_name
    if "embed" in engine.get("dialect", ()):  # nothing but the proxy understands it
        url, secret, name = topology.client_urls(host)[0], topology.client_secrets()[0], entry.id
    return {
        "engine": choice.embedder_engine,
        "model": entry.id,
        "served_name": name,
        "revision": topology.spec["rag_embedder_revision"],
        "pooling": entry.raw.get("pooling"),
        "dimensions": choice.dimensions,
        "reduced_dimensions": choice.dimensions if choice.dimensions != entry.dimensions else None,
        "normalized": entry.normalized,
        "kind": entry.kind,
        "max_input_tokens": entry.max_tokens,
        "truncates": engine.get("truncates"),
        "languages": list(entry.raw.get("languages", ())),
        "max_batch": choice.embed_max_batch,
        "batch_size": choice.batch_size,
        "query_prefix": choice.query_prefix,
        "document_prefix": choice.document_prefix,
        # requests of verification speak of documents
        "fields": {}
        if choice.prefix_field is None
        else {choice.prefix_field["field"]: choice.prefix_field["document"]},
        "base_url": url,
        "api_key_secret": secret,
        "container": _container(topology, "embedder", host),
        "instances": _instances(topology, "embedder", host),
        # reference values hold for vectors of the full length
        "fixtures": [dict(f) for f in entry.fixtures] if choice.dimensions == entry.dimensions else [],
        "tolerance": engine.get("tolerance", 0.01),
    }


def _reranker(topology: Topology, host: str, entry: Reranker) -> dict[str, Any]:
    choice, name = topology.choice, str(topology.choice.reranker_engine)
    engine = topology.catalog.engines[name]
    url, secret, served = next(iter(topology.rerank_urls(host)), ""), _key(topology, "reranker"), choice.rerank_name
    if "rerank" in engine.get("dialect", ()):
        url, secret, served = topology.client_urls(host)[1] or "", topology.client_secrets()[1], entry.id
    return {
        "engine": name,
        "model": entry.id,
        "served_name": served,
        "url": url,
        "api_key_secret": secret,
        "container": _container(topology, "reranker", host),
        "instances": _instances(topology, "reranker", host),
        "kind": entry.kind,
        "max_batch": choice.rerank_max_batch,
        "max_input_tokens": entry.max_tokens,
        "truncates": engine.get("truncates"),
        "languages": list(entry.raw.get("languages", ())),
        "score_range": list(entry.score_range.get(name, ())),
        "fixtures": [dict(fixture) for fixture in entry.fixtures],
        "statement": entry.quality["statement"],
    }


def _key(topology: Topology, service: str) -> str | None:
    """The secret that the engine is asked with; None for a backend that the operator gave no key for."""
    hosted = topology.engine_name(service) in HOSTED
    return None if hosted and topology.spec[f"rag_{service}_api_key"] is None else f"{service}_api_key"


def _instances(topology: Topology, service: str, host: str) -> list[dict[str, Any]]:
    """Every instance that this collection runs, with its URL as verification reaches it."""
    if topology.engine_name(service) in HOSTED:
        return []
    engine = topology.catalog.engines[topology.engine_name(service)]
    path = engine["embed_path" if service == "embedder" else "rerank_path"]
    return [
        {
            "host": where,
            "url": topology.root(service, where, host) + path,
            "container": _container(topology, service, host) if where == host else None,
        }
        for where in topology.where.get(service, [])
    ]
