# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wiring: LiteLLM's configuration and Open WebUI's environment and settings, from the choice and the URLs. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._choice import Choice
from ansible_collections.plumbline.rag.plugins.module_utils._spec import Spec


def as_env(value: Any) -> str:
    """An environment value: only the word true is true for Open WebUI, in lower case."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


# Seconds that Open WebUI waits for an embedding; without a limit it waits for ever.
EMBED_PATIENCE = 300
# How often LiteLLM asks engines of which there are several, and how long one that failed is left out.
HEALTH_INTERVAL = 30
COOLDOWN = 60
# Another try goes to any of those that are not left out, which may be the dead one until it is found out.
_RETRIES = 3
# What a request may take at one of several engines: a connection to a host that is gone says nothing for that long.
_LONGEST_ATTEMPT = 60
_NEVER = 1_000_000
# What says that an instance is dead counts at once; what another instance would answer as well never does.
_ALLOWED_FAILS = {
    "TimeoutErrorAllowedFails": 0,
    "InternalServerErrorAllowedFails": 0,
    "ServiceUnavailableErrorAllowedFails": 0,
    "BadGatewayErrorAllowedFails": 0,
    "RateLimitErrorAllowedFails": _NEVER,
    "AuthenticationErrorAllowedFails": _NEVER,
    "NotFoundErrorAllowedFails": _NEVER,
    "BadRequestErrorAllowedFails": _NEVER,
}


def litellm_config(
    choice: Choice,
    engines: Mapping[str, Mapping[str, Any]],
    embedder_urls: Sequence[str],
    reranker_urls: Sequence[str],
    more_models: Sequence[Any],
    rerank_patience: int,
) -> dict[str, Any]:
    """LiteLLM's config.yaml as data: one entry for each engine instance; keys only as references to the environment.

    ``*_urls`` are roots without a path (http://host:port), or full base URLs for hosted backends.
    """
    models = [_embed_entry(choice, engines[choice.embedder_engine], url, len(embedder_urls)) for url in embedder_urls]
    if choice.reranker is not None and choice.reranker_engine is not None:
        rerank = engines[choice.reranker_engine]
        models += [_rerank_entry(choice, rerank, url, len(reranker_urls), rerank_patience) for url in reranker_urls]
    config: dict[str, Any] = {
        "model_list": models + list(more_models),
        "general_settings": {"master_key": "os.environ/LITELLM_MASTER_KEY"},
        "litellm_settings": {"drop_params": False},
        # a single deployment in cooldown answers 429 to everybody for five seconds
        "router_settings": {"num_retries": 1, "disable_cooldowns": True},
    }
    several = max(len(embedder_urls), len(reranker_urls)) > 1
    return _watched(config, models, more_models) if several else config


def _watched(
    config: Mapping[str, Any], models: Sequence[Mapping[str, Any]], more_models: Sequence[Any]
) -> dict[str, Any]:
    """The configuration with a watch over the engines of which there are several.

    A dead one is left out, found by requests and by health checks, and asked again later. When all are out they are asked
    all the same: that is what enable_health_check_routing does beside a policy, and it spares everybody the 429.
    """
    names = [entry["model_name"] for entry in models]
    own = [_asked(entry) if names.count(entry["model_name"]) > 1 else _unwatched(entry) for entry in models]
    return {
        **config,
        "model_list": [*own, *map(_unwatched, more_models)],
        "general_settings": {
            **config["general_settings"],
            "background_health_checks": True,
            "health_check_interval": HEALTH_INTERVAL,
            "enable_health_check_routing": True,
        },
        "router_settings": {
            "num_retries": _RETRIES,
            "cooldown_time": COOLDOWN,
            "allowed_fails_policy": dict(_ALLOWED_FAILS),
        },
    }


def _asked(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry that health checks ask, and that is out when it does not answer until the next one."""
    return {**entry, "model_info": {**entry["model_info"], "health_check_timeout": HEALTH_INTERVAL}}


def _unwatched(entry: Any) -> Any:
    """An entry that no health check asks: it has no other instance, or its answers cost money."""
    info = entry.get("model_info", {}) if isinstance(entry, Mapping) else None
    return (
        {**entry, "model_info": {**info, "disable_background_health_check": True}}
        if isinstance(info, Mapping)
        else entry
    )


def _attempt(patience: int, instances: int) -> dict[str, Any]:
    """The time that one of several instances has, so that another one can answer before the client gives up."""
    if instances < 2:
        return {}
    return {"timeout": max(1, min((patience - 1) // 2, _LONGEST_ATTEMPT)), "max_retries": 0}


def _embed_entry(choice: Choice, engine: Mapping[str, Any], url: str, instances: int) -> dict[str, Any]:
    driver = engine["litellm"]["embedding"]
    params: dict[str, Any] = {
        "model": f"{driver}/{choice.embed_name}",
        "api_base": url + engine.get("embed_path", ""),
        "api_key": "os.environ/EMBEDDER_API_KEY",
        **_attempt(EMBED_PATIENCE, instances),
    }
    if driver in ("openai", "cohere"):
        # up to 1.83 the field was sent as null, which strict servers answer with 400; Cohere is told its number format
        params["encoding_format"] = "float"
    if choice.dimensions in choice.embedder.matryoshka:
        # Open WebUI sends no dimension; the openai driver refuses one for other names unless it is allowed
        params["dimensions"] = choice.dimensions
        if driver == "openai":
            params["allowed_openai_params"] = ["dimensions"]
    return {"model_name": choice.embedder.id, "litellm_params": params, "model_info": {"mode": "embedding"}}


def _rerank_entry(choice: Choice, engine: Mapping[str, Any], url: str, instances: int, patience: int) -> dict[str, Any]:
    driver = engine["litellm"]["rerank"]
    params: dict[str, Any] = {
        "model": f"{driver}/{choice.rerank_name}",
        "api_base": url + engine["litellm"].get("rerank_base", ""),
        "api_key": "os.environ/RERANKER_API_KEY",
        **_attempt(patience, instances),
    }
    if driver == "huggingface":
        # honoured from 1.109.0; before, one over-long chunk fails the whole call
        params["truncate"] = True
    name = choice.reranker.id if choice.reranker else ""
    return {"model_name": name, "litellm_params": params, "model_info": {"mode": "rerank"}}


def open_webui_settings(
    spec: Spec, choice: Choice, embed_base_url: str, embed_name: str, rerank_url: str | None, rerank_name: str | None
) -> dict[str, Any]:
    """The settings that live in Open WebUI's database, under the field names of its admin API, without keys."""
    return {
        "embedding": {
            "RAG_EMBEDDING_ENGINE": "openai",
            "RAG_EMBEDDING_MODEL": embed_name,
            "RAG_EMBEDDING_BATCH_SIZE": choice.batch_size,
            "ENABLE_ASYNC_EMBEDDING": True,
            "RAG_EMBEDDING_CONCURRENT_REQUESTS": choice.concurrency,
            "openai_config": {"url": embed_base_url},
        },
        "retrieval": {
            "TOP_K": choice.top_k,
            "TOP_K_RERANKER": choice.top_k_reranker,
            "RELEVANCE_THRESHOLD": spec["rag_relevance_threshold"],
            "HYBRID_BM25_WEIGHT": spec["rag_bm25_weight"],
            "ENABLE_RAG_HYBRID_SEARCH": choice.hybrid,
            "RAG_RERANKING_ENGINE": "external" if rerank_url else "",
            "RAG_RERANKING_MODEL": rerank_name or "",
            "RAG_EXTERNAL_RERANKER_URL": rerank_url or "",
            "RAG_EXTERNAL_RERANKER_TIMEOUT": str(spec["rag_reranker_timeout"]) if rerank_url else "",
            "CHUNK_SIZE": choice.chunk_size,
            "CHUNK_OVERLAP": choice.chunk_overlap,
            "TEXT_SPLITTER": "" if spec["rag_text_splitter"] == "character" else spec["rag_text_splitter"],
            "CONTENT_EXTRACTION_ENGINE": ""
            if spec["rag_content_extraction"] == "builtin"
            else spec["rag_content_extraction"],
        },
    }


# API field -> environment variable, where the two differ
_ENV_NAMES = {
    "TOP_K": "RAG_TOP_K",
    "TOP_K_RERANKER": "RAG_TOP_K_RERANKER",
    "RELEVANCE_THRESHOLD": "RAG_RELEVANCE_THRESHOLD",
    "HYBRID_BM25_WEIGHT": "RAG_HYBRID_BM25_WEIGHT",
    "TEXT_SPLITTER": "RAG_TEXT_SPLITTER",
}


def open_webui_env(spec: Spec, choice: Choice, settings: Mapping[str, Any]) -> dict[str, str]:
    """Open WebUI's environment without secrets; a variable without a value is left out, because empty is not unset."""
    env: dict[str, Any] = {
        "ENABLE_SIGNUP": False,  # else switching persistent settings off re-opens sign-up
        "WEBUI_ADMIN_EMAIL": spec["rag_open_webui_admin_email"],
        "VECTOR_DB": spec["rag_vector_store"],
        "RAG_OPENAI_API_BASE_URL": settings["embedding"]["openai_config"]["url"],
        "RAG_EMBEDDING_QUERY_PREFIX": choice.query_prefix,
        "RAG_EMBEDDING_CONTENT_PREFIX": choice.document_prefix,
        "AIOHTTP_CLIENT_TIMEOUT": EMBED_PATIENCE,
    }
    if choice.prefix_field is not None:
        # Open WebUI then puts the prefix into this field, and the text stays as it is
        env["RAG_EMBEDDING_PREFIX_FIELD_NAME"] = choice.prefix_field["field"]
        env["RAG_EMBEDDING_QUERY_PREFIX"] = choice.prefix_field["query"]
        env["RAG_EMBEDDING_CONTENT_PREFIX"] = choice.prefix_field["document"]
    if spec["rag_vector_store"] == "pgvector":
        env["PGVECTOR_INITIALIZE_MAX_VECTOR_LENGTH"] = choice.dimensions
        env["PGVECTOR_USE_HALFVEC"] = halfvec(spec, choice)
        if spec["rag_pgvector_index"]:
            env["PGVECTOR_INDEX_METHOD"] = spec["rag_pgvector_index"]
    for group in ("embedding", "retrieval"):
        for name, value in settings[group].items():
            if not isinstance(value, Mapping):
                env[_ENV_NAMES.get(name, name)] = value
    hidden = secret_env(spec)
    env.update({name: value for name, value in spec["rag_open_webui_env"].items() if name not in hidden})
    return {name: as_env(value) for name, value in sorted(env.items()) if value is not None and as_env(value) != ""}


def halfvec(spec: Spec, choice: Choice) -> bool:
    """Whether vectors are stored in half precision: pgvector indexes no more than 2000 dimensions otherwise."""
    given = spec["rag_pgvector_halfvec"]
    return choice.dimensions > 2000 if given is None else bool(given)


_SECRET_NAME = re.compile(r"(KEY|SECRET|PASSWORD|TOKEN|CREDENTIAL)")


def secret_env(spec: Spec) -> dict[str, str]:
    """The variables of rag_open_webui_env that carry a secret by their name, as variable -> name of the secret."""
    return {name: f"env_{name}" for name in spec["rag_open_webui_env"] if _SECRET_NAME.search(name)}


def extra_models(spec: Spec) -> tuple[list[Any], dict[str, str]]:
    """The operator's LiteLLM entries with their literal keys replaced by references, and variable -> name of the secret."""
    models: list[Any] = []
    names: dict[str, str] = {}
    for number, entry in enumerate(spec["rag_litellm_extra_models"]):
        params = entry.get("litellm_params") if isinstance(entry, Mapping) else None
        key = params.get("api_key") if isinstance(params, Mapping) else None
        if isinstance(key, str) and not key.startswith("os.environ/"):
            variable = f"EXTRA_MODEL_{number}_API_KEY"
            names[variable] = f"extra_model_{number}_api_key"
            entry = {**entry, "litellm_params": {**entry["litellm_params"], "api_key": f"os.environ/{variable}"}}
        models.append(entry)
    return models, names


def operator_secrets(spec: Spec) -> dict[str, str]:
    """Secret values that stand inside other variables, by the names that the plan uses for them."""
    values = {name: as_env(spec["rag_open_webui_env"][variable]) for variable, name in secret_env(spec).items()}
    for number, entry in enumerate(spec["rag_litellm_extra_models"]):
        name = f"extra_model_{number}_api_key"
        if name in extra_models(spec)[1].values():
            values[name] = entry["litellm_params"]["api_key"]
    if spec["rag_database_url"] is not None:
        values["database_url"] = spec["rag_database_url"]
    return values
