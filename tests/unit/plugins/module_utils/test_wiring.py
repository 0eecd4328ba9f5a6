# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""LiteLLM's configuration for several engines: all of them are asked, a dead one is left out, and nobody gets a 429 for it."""

from __future__ import annotations

from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _resolve

from .installation import CATALOG, GROUPS, QUICKSTART, specs

BASE = {**QUICKSTART, "rag_image_source": "registry"}
ADDRESSES = {"g1": "192.0.2.1", "g2": "192.0.2.2", "g3": "192.0.2.3", "app": "192.0.2.9"}


def config(embedders: list[str], rerankers: list[str], proxy: str = "app", **changes: Any) -> dict[str, Any]:
    names = list(dict.fromkeys([*embedders, *rerankers, proxy]))
    groups = {**{group: [proxy] for group in GROUPS}, "rag_embedders": embedders, "rag_rerankers": rerankers}
    found, findings = specs({name: {**BASE, **changes} for name in names}, groups)
    assert findings == []
    plan, _findings = _resolve.resolve(found["default"], CATALOG, ADDRESSES)
    assert plan is not None
    return plan["hosts"][proxy]["litellm"]["config"]


def test_one_engine_of_each_kind_is_never_in_cooldown() -> None:
    found = config(["g1"], ["g1"])
    assert found["router_settings"] == {"num_retries": 1, "disable_cooldowns": True}
    assert found["general_settings"] == {"master_key": "os.environ/LITELLM_MASTER_KEY"}
    assert all("timeout" not in model["litellm_params"] for model in found["model_list"])


def test_several_engines_are_watched() -> None:
    found = config(["g1", "g2"], ["g1"])
    assert found["general_settings"] == {
        "master_key": "os.environ/LITELLM_MASTER_KEY",
        "background_health_checks": True,
        "health_check_interval": 30,
        "enable_health_check_routing": True,
    }
    assert found["router_settings"] == {
        "num_retries": 3,
        "cooldown_time": 60,
        "allowed_fails_policy": {
            "TimeoutErrorAllowedFails": 0,
            "InternalServerErrorAllowedFails": 0,
            "ServiceUnavailableErrorAllowedFails": 0,
            "BadGatewayErrorAllowedFails": 0,
            "RateLimitErrorAllowedFails": 1000000,
            "AuthenticationErrorAllowedFails": 1000000,
            "NotFoundErrorAllowedFails": 1000000,
            "BadRequestErrorAllowedFails": 1000000,
        },
    }


def test_an_attempt_leaves_time_for_another_one() -> None:
    found = config(["g1", "g2"], ["g1", "g2", "g3"], rag_reranker_timeout=30)
    times = [model["litellm_params"].get("timeout") for model in found["model_list"]]
    assert times == [60, 60, 14, 14, 14]
    assert {model["litellm_params"]["max_retries"] for model in found["model_list"]} == {0}


def test_only_engines_with_a_stand_in_are_asked_for_their_health() -> None:
    chat = {"model_name": "chat", "litellm_params": {"model": "openai/gpt-x"}, "model_info": {"mode": "chat"}}
    found = config(["g1", "g2"], ["g1"], rag_litellm_extra_models=[chat])
    assert [model["model_info"] for model in found["model_list"]] == [
        {"mode": "embedding", "health_check_timeout": 30},
        {"mode": "embedding", "health_check_timeout": 30},
        {"mode": "rerank", "disable_background_health_check": True},
        {"mode": "chat", "disable_background_health_check": True},
    ]


def test_the_engine_beside_the_proxy_does_not_stand_alone() -> None:
    found = config(["g1", "g2"], ["g1"], proxy="g1")
    bases = [model["litellm_params"]["api_base"] for model in found["model_list"]]
    assert bases == ["http://rag-embedder:8000/v1", "http://192.0.2.2:8000/v1", "http://rag-reranker:8000/v1"]
