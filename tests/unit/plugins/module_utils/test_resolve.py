from __future__ import annotations

import json

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _resolve, _topology, _wiring
from ansible_collections.plumbline.rag.plugins.module_utils._choice import flag_value

from .installation import CATALOG, QUICKSTART, ids, resolve, specs

HOSTED = {**QUICKSTART, "rag_image_source": "registry"}


@pytest.fixture(name="quickstart")
def _quickstart():
    plan, findings = resolve({"rag_accept": {"PL153": "demo"}})
    assert [(f.id, f.accepted) for f in findings] == [("PL153", "demo")]
    return plan


def test_every_service_of_the_quickstart_is_there(quickstart):
    host = quickstart["hosts"]["h1"]
    assert set(host) == {"images", "postgres", "embedder", "reranker", "litellm", "open_webui"}
    assert [image["ref"] for image in host["images"]] == [
        "docker.io/pgvector/pgvector:0.8.5-pg18",
        "localhost/plumbline/bundled-engine:0.1.0",
        "ghcr.io/berriai/litellm:v1.106.12",
        "ghcr.io/open-webui/open-webui:v0.12.4-slim",
    ]


def test_only_open_webui_is_published_and_only_on_loopback(quickstart):
    host = quickstart["hosts"]["h1"]
    published = {name: service["publish"] for name, service in host.items() if name != "images"}
    assert published == {
        "postgres": None,
        "embedder": None,
        "reranker": None,
        "litellm": None,
        "open_webui": {"address": "127.0.0.1", "port": 3000},
    }


def test_litellm_entries(quickstart):
    assert quickstart["hosts"]["h1"]["litellm"]["config"] == {
        "model_list": [
            {
                "model_name": "intfloat/multilingual-e5-small",
                "litellm_params": {
                    "model": "hosted_vllm/intfloat/multilingual-e5-small",
                    "api_base": "http://rag-embedder:8000/v1",
                    "api_key": "os.environ/EMBEDDER_API_KEY",
                },
                "model_info": {"mode": "embedding"},
            },
            {
                "model_name": "plumbline/e5-small-cosine",
                "litellm_params": {
                    "model": "hosted_vllm/plumbline/e5-small-cosine",
                    "api_base": "http://rag-reranker:8000/v1",
                    "api_key": "os.environ/RERANKER_API_KEY",
                },
                "model_info": {"mode": "rerank"},
            },
        ],
        "general_settings": {"master_key": "os.environ/LITELLM_MASTER_KEY"},
        "litellm_settings": {"drop_params": False},
        "router_settings": {"num_retries": 1, "disable_cooldowns": True},
    }


def test_open_webui_environment(quickstart):
    env = quickstart["hosts"]["h1"]["open_webui"]["env"]
    assert env == {
        "AIOHTTP_CLIENT_TIMEOUT": "300",
        "CHUNK_OVERLAP": "49",
        "CHUNK_SIZE": "493",
        "ENABLE_ASYNC_EMBEDDING": "true",
        "ENABLE_RAG_HYBRID_SEARCH": "true",
        "ENABLE_SIGNUP": "false",
        "PGVECTOR_INITIALIZE_MAX_VECTOR_LENGTH": "384",
        "PGVECTOR_USE_HALFVEC": "false",
        "RAG_EMBEDDING_BATCH_SIZE": "32",
        "RAG_EMBEDDING_CONCURRENT_REQUESTS": "4",
        "RAG_EMBEDDING_CONTENT_PREFIX": "passage: ",
        "RAG_EMBEDDING_ENGINE": "openai",
        "RAG_EMBEDDING_MODEL": "intfloat/multilingual-e5-small",
        "RAG_EMBEDDING_QUERY_PREFIX": "query: ",
        "RAG_EXTERNAL_RERANKER_TIMEOUT": "30",
        "RAG_EXTERNAL_RERANKER_URL": "http://rag-litellm:4000/v1/rerank",
        "RAG_HYBRID_BM25_WEIGHT": "0.5",
        "RAG_OPENAI_API_BASE_URL": "http://rag-litellm:4000/v1",
        "RAG_RELEVANCE_THRESHOLD": "0.0",
        "RAG_RERANKING_ENGINE": "external",
        "RAG_RERANKING_MODEL": "plumbline/e5-small-cosine",
        "RAG_TOP_K": "20",
        "RAG_TOP_K_RERANKER": "5",
        "VECTOR_DB": "pgvector",
        "WEBUI_ADMIN_EMAIL": "admin@example.com",
    }


def test_the_reranker_takes_twice_top_k(quickstart):
    assert quickstart["hosts"]["h1"]["reranker"]["max_batch"] == 40
    assert quickstart["hosts"]["h1"]["embedder"]["max_batch"] == 32


def test_symmetric_models_set_no_prefix_variable():
    plan, _findings = resolve({"rag_embedder": "BAAI/bge-m3", "rag_embedder_engine": "vllm", "rag_reranker": "none"})
    env = plan["hosts"]["h1"]["open_webui"]["env"]
    assert [name for name in env if "PREFIX" in name] == []
    assert env["ENABLE_RAG_HYBRID_SEARCH"] == "false"
    assert [name for name in env if "RERANK" in name] == ["RAG_TOP_K_RERANKER"]
    assert plan["verify"]["reranker"] is None


def test_a_newline_in_a_prefix_stays_a_newline():
    plan, _findings = resolve({"rag_embedder": "Qwen/Qwen3-Embedding-0.6B", "rag_embedder_engine": "vllm"})
    prefix = plan["hosts"]["h1"]["open_webui"]["env"]["RAG_EMBEDDING_QUERY_PREFIX"]
    assert prefix.endswith("answer the query\nQuery:")


def test_reference_values_are_expected_of_full_vectors_only():
    qwen = {"rag_embedder": "Qwen/Qwen3-Embedding-0.6B", "rag_embedder_engine": "vllm"}
    full, _findings = resolve(qwen)
    reduced, _findings = resolve({**qwen, "rag_embedder_dimensions": 256})
    assert [f["name"] for f in full["verify"]["embedder"]["fixtures"]] == [
        "capital_gravity",
        "planets",
        "deep_learning",
    ]
    assert reduced["verify"]["embedder"]["fixtures"] == []
    assert full["verify"]["embedder"]["reduced_dimensions"] is None
    assert reduced["verify"]["embedder"]["reduced_dimensions"] == 256
    assert reduced["hosts"]["h1"]["open_webui"]["env"]["PGVECTOR_INITIALIZE_MAX_VECTOR_LENGTH"] == "256"


def test_without_a_proxy_open_webui_reaches_the_engines():
    plan, _findings = resolve({"rag_proxy": "none"})
    webui = plan["hosts"]["h1"]["open_webui"]
    assert webui["env"]["RAG_OPENAI_API_BASE_URL"] == "http://rag-embedder:8000/v1"
    assert webui["env"]["RAG_EXTERNAL_RERANKER_URL"] == "http://rag-reranker:8000/v1/rerank"
    assert webui["secret_env"]["RAG_OPENAI_API_KEY"] == "embedder_api_key"
    assert "litellm" not in plan["hosts"]["h1"]
    assert plan["verify"]["proxy"] is None


def test_hosts_apart_reach_each_other_by_address_and_publish_there():
    found, findings = specs(
        {"gpu": HOSTED, "app": HOSTED},
        {
            "rag_embedders": ["gpu"],
            "rag_rerankers": ["gpu"],
            "rag_proxies": ["app"],
            "rag_databases": ["app"],
            "rag_open_webui": ["app"],
        },
    )
    assert findings == []
    plan, _findings = _resolve.resolve(found["default"], CATALOG, {"gpu": "192.0.2.7", "app": "192.0.2.8"})
    bases = [m["litellm_params"]["api_base"] for m in plan["hosts"]["app"]["litellm"]["config"]["model_list"]]
    assert bases == ["http://192.0.2.7:8000/v1", "http://192.0.2.7:8001/v1"]
    assert plan["hosts"]["gpu"]["embedder"]["publish"] == {"address": "192.0.2.7", "port": 8000}
    assert plan["hosts"]["gpu"]["reranker"]["publish"] == {"address": "192.0.2.7", "port": 8001}
    assert plan["hosts"]["app"]["postgres"]["publish"] is None
    assert plan["verify"]["host"] == "app"
    assert plan["verify"]["embedder"]["container"] is None
    assert plan["verify"]["embedder"]["base_url"] == "http://192.0.2.7:8000/v1"


def test_every_engine_instance_becomes_a_deployment_of_the_proxy():
    found, _findings = specs(
        {"g1": HOSTED, "g2": HOSTED, "app": HOSTED},
        {
            group: ["g1", "g2"] if group in ("rag_embedders", "rag_rerankers") else ["app"]
            for group in _topology.GROUPS.values()
        },
    )
    plan, _findings = _resolve.resolve(found["default"], CATALOG, {"g1": "a", "g2": "b", "app": "c"})
    bases = [m["litellm_params"]["api_base"] for m in plan["hosts"]["app"]["litellm"]["config"]["model_list"]]
    assert bases == ["http://a:8000/v1", "http://b:8000/v1", "http://a:8001/v1", "http://b:8001/v1"]


def test_installations_have_names_of_their_own():
    plan, _findings = resolve({"rag_installation": None})
    assert plan["network"] == "rag"
    assert _topology.container_name("blue", "open_webui") == "rag-blue-open-webui"
    assert _topology.network_name("blue") == "rag-blue"


@pytest.mark.rule("PL110", fires=True)
def test_a_service_without_a_host_names_the_group():
    found, _findings = specs({"h1": QUICKSTART}, {"rag_embedders": ["h1"], "rag_open_webui": ["h1"]})
    plan, findings = _resolve.resolve(found["default"], CATALOG, {"h1": "a"})
    assert plan is None
    missing = [f.where["variable"] for f in findings if f.id == "PL110"]
    assert missing == ["rag_databases", "rag_rerankers", "rag_proxies"]


@pytest.mark.rule("PL110", fires=False)
def test_a_single_host_without_groups_is_in_all():
    found, _findings = specs({"h1": QUICKSTART}, {"ungrouped": ["h1"]})
    plan, findings = _resolve.resolve(found["default"], CATALOG, {"h1": "a"})
    assert "PL110" not in ids(findings)
    assert "litellm" in plan["hosts"]["h1"]


@pytest.mark.rule("PL111", fires=True)
def test_a_version_without_a_recipe_cannot_be_built():
    plan, findings = resolve({"rag_open_webui_version": "0.12.3"})
    assert plan is None
    assert [f.where["variable"] for f in findings if f.id == "PL111"] == ["rag_open_webui_version"]
    assert "0.12.4" in next(f.message for f in findings if f.id == "PL111")


@pytest.mark.rule("PL111", fires=False)
@pytest.mark.parametrize(
    "changes", [{"rag_litellm_version": "1.94.3"}, {"rag_image_source": "registry", "rag_open_webui_version": "0.12.3"}]
)
def test_pinned_versions_and_other_sources_are_fine(changes):
    _plan, findings = resolve(changes)
    assert "PL111" not in ids(findings)


@pytest.mark.parametrize(
    ("variables", "reference"),
    [
        ({}, "ghcr.io/open-webui/open-webui:v0.12.4-slim"),
        ({"rag_open_webui_variant": "full"}, "ghcr.io/open-webui/open-webui:v0.12.4"),
        ({"rag_image_registry_prefix": "mirror.example"}, "ghcr.io/open-webui/open-webui:v0.12.4-slim"),
    ],
)
def test_image_references(variables, reference):
    plan, _findings = resolve(variables, base=HOSTED)
    assert plan["hosts"]["h1"]["open_webui"]["image"] == reference


def test_built_images_carry_the_references_of_the_registry():
    built, _findings = resolve()
    pulled, _findings = resolve(base=HOSTED)
    for service in ("postgres", "litellm", "open_webui"):
        assert built["hosts"]["h1"][service]["image"] == pulled["hosts"]["h1"][service]["image"]


def test_no_secret_is_in_the_plan():
    secrets = {
        "rag_litellm_master_key": "sk-canary-0123456789",
        "rag_open_webui_secret_key": "canary-abcdefghijkl",
        "rag_database_url": "postgresql://u:canary@db/x",
        "rag_embedder_api_key": "canary-embedder",
        "rag_open_webui_env": {"OAUTH_CLIENT_SECRET": "canary-oauth", "WEBUI_NAME": "shown"},
        "rag_litellm_extra_models": [
            {"model_name": "m", "litellm_params": {"model": "openai/m", "api_key": "canary-model"}}
        ],
    }
    plan, _findings = resolve(secrets, {name: value for name, value in secrets.items() if isinstance(value, str)})
    assert "canary" not in json.dumps(plan)
    webui = plan["hosts"]["h1"]["open_webui"]
    assert webui["env"]["WEBUI_NAME"] == "shown"
    assert webui["secret_env"]["OAUTH_CLIENT_SECRET"] == "env_OAUTH_CLIENT_SECRET"
    litellm = plan["hosts"]["h1"]["litellm"]
    assert litellm["config"]["model_list"][-1]["litellm_params"]["api_key"] == "os.environ/EXTRA_MODEL_0_API_KEY"
    assert litellm["secret_env"]["EXTRA_MODEL_0_API_KEY"] == "extra_model_0_api_key"
    found, _findings = specs({"h1": {**QUICKSTART, **secrets}})
    assert _wiring.operator_secrets(found["default"]) == {
        "env_OAUTH_CLIENT_SECRET": "canary-oauth",
        "extra_model_0_api_key": "canary-model",
        "database_url": "postgresql://u:canary@db/x",
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "true"), (False, "false"), (0, "0"), (0.5, "0.5"), ("query: ", "query: "), ("a\nb", "a\nb")],
)
def test_environment_values(value, text):
    assert _wiring.as_env(value) == text


@pytest.mark.parametrize(
    ("args", "value"),
    [
        (["--max", "8"], 8),
        (["--max=16"], 16),
        (["--other", "8"], None),
        (["--max"], None),
        (["--max", "many"], None),
        ([], None),
    ],
)
def test_flag_value(args, value):
    assert flag_value(args, "--max") == value


def test_a_reduced_dimension_is_asked_for_and_allowed():
    matryoshka = {"rag_embedder": "Qwen/Qwen3-Embedding-0.6B", "rag_embedder_dimensions": 256}
    plan, _findings = resolve({**matryoshka, "rag_embedder_engine": "vllm"})
    host = plan["hosts"]["h1"]
    assert host["litellm"]["config"]["model_list"][0]["litellm_params"]["dimensions"] == 256
    overrides = host["embedder"]["args"][host["embedder"]["args"].index("--hf-overrides") + 1]
    assert json.loads(overrides)["is_matryoshka"] is True
    plan, _findings = resolve({**matryoshka, "rag_embedder_engine": "tei"}, base=HOSTED)
    params = plan["hosts"]["h1"]["litellm"]["config"]["model_list"][0]["litellm_params"]
    assert (params["dimensions"], params["allowed_openai_params"]) == (256, ["dimensions"])


@pytest.mark.parametrize("args", [["--hf-overrides"], ["--hf-overrides", "{"], ["--hf-overrides", "[1]"]])
def test_overrides_that_cannot_be_merged_are_left_alone(args):
    assert _resolve._allow_dimensions([*args], (8,))[: len(args)] == args


def test_the_embedding_of_full_size_is_not_asked_for():
    plan, _findings = resolve({"rag_embedder": "Qwen/Qwen3-Embedding-0.6B", "rag_embedder_engine": "vllm"})
    assert "dimensions" not in plan["hosts"]["h1"]["litellm"]["config"]["model_list"][0]["litellm_params"]


@pytest.mark.rule("PL101", "PL143", fires=True)
def test_a_spec_with_faults_is_examined_all_the_same():
    found, wrong = specs({"h1": {**QUICKSTART, "rag_topk": 3, "rag_hybrid_search": False}})
    plan, findings = _resolve.examine(found["default"], CATALOG, {"h1": "a"}, {}, wrong)
    assert plan is None
    assert "PL143" in ids(findings)


@pytest.mark.rule("PL109", fires=True)
def test_nothing_is_said_twice_about_a_variable():
    found, wrong = specs({"h1": {**QUICKSTART, "rag_reranker_engine": "tgi"}})
    _plan, findings = _resolve.examine(found["default"], CATALOG, {"h1": "a"}, {}, wrong)
    assert [f.id for f in wrong] == ["PL102"]
    assert [f.id for f in findings if f.where["variable"] == "rag_reranker_engine"] == []
