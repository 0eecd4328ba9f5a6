# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Properties that hold for any inventory: nothing raises, everything can be written, and texts stay as they are."""

from __future__ import annotations

import json
import string
import time
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.plumbline.rag.plugins.module_utils import _advice, _findings, _rules, _spec

from .plugins.module_utils.installation import CATALOG, GROUPS, QUICKSTART, plan_inventory

NAMES = sorted(_spec.VARIABLES)
QUIET = settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
TEXT = st.text(max_size=40)
SCALAR = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), TEXT, st.text(string.punctuation + "0123456789-", max_size=12)
)
ANYTHING = st.recursive(
    SCALAR, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)), max_leaves=6
)
ENGINE_ARGS = st.lists(
    st.one_of(
        st.sampled_from(
            ["--dtype", "--task", "--pooler-config", "--hf-overrides", "--max-client-batch-size", "--dtype=half"]
        ),
        st.sampled_from(["float16", "{}", "{", "64", "-1", "²"]),
        TEXT,
    ),
    max_size=4,
)
MODELS = st.lists(
    st.one_of(
        ANYTHING,
        st.fixed_dictionaries(
            {
                "model_name": TEXT,
                "litellm_params": st.dictionaries(st.sampled_from(["model", "api_base", "rpm"]), ANYTHING),
            },
            optional={"model_info": ANYTHING},
        ),
    ),
    max_size=2,
)


def plausible(name: str) -> st.SearchStrategy[Any]:
    """Values of the right type for a variable, right and wrong ones."""
    variable = _spec.VARIABLES[name]
    if name.endswith("_extra_args"):
        return ENGINE_ARGS
    if name == "rag_litellm_extra_models":
        return MODELS
    if name == "rag_embedder":
        return st.sampled_from([*CATALOG.embedders, "acme/x"])
    if name == "rag_reranker":
        return st.sampled_from([*CATALOG.rerankers, "none", "acme/x"])
    if variable.choices:
        return st.sampled_from(variable.choices)
    return {
        "str": st.one_of(
            TEXT, st.sampled_from(["http://h:1/v1", "http://[", "1.2.3", "", "0.12.4", "http://h/v1/rerank"])
        ),
        "secret": st.one_of(TEXT, st.sampled_from(["sk-1234", "postgresql://u:p@h/d", "postgres://["])),
        "int": st.one_of(st.integers(-5, 5), st.integers()),
        "float": st.floats(),
        "bool": st.booleans(),
        "list": st.lists(SCALAR, max_size=3),
        "dict": st.dictionaries(
            st.one_of(TEXT, st.sampled_from(["RAG_TOP_K", "UVICORN_WORKERS", "PL153", "ENABLE_X", "HTTP_PROXY"])),
            ANYTHING,
        ),
    }[variable.type]


@st.composite
def inventories(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    """One to three hosts with the quickstart's variables and others over them, most of the right type."""
    hosts = {}
    for number in range(draw(st.integers(1, 3))):
        values = dict(QUICKSTART)
        for name in draw(st.lists(st.sampled_from(NAMES), max_size=8, unique=True)):
            values[name] = draw(st.one_of(plausible(name), ANYTHING))
        hosts[f"h{number}"] = values
    return hosts


@QUIET
@given(inventories())
def test_the_plan_never_raises_and_can_always_be_written(hosts: dict[str, dict[str, Any]]) -> None:
    plans, findings = plan_inventory(hosts, {group: list(hosts) for group in GROUPS})
    document = {"plans": plans, "findings": [finding.as_dict() for finding in findings]}
    text = json.dumps(document, ensure_ascii=False)
    assert json.dumps(json.loads(text.encode()), ensure_ascii=False) == text
    assert _findings.table(findings).encode() or not findings
    for plan in plans.values():
        assert "\n".join(_advice.lines(_advice.advise(plan, CATALOG, None, 0.17)))
        assert _rules.changes.compare(plan, json.loads(json.dumps(plan))) == []
        for host in plan["hosts"].values():
            # what the role writes into LiteLLM's configuration file reads back as it was meant
            config = json.loads(json.dumps(host.get("litellm", {}).get("config")))
            assert str(yaml.safe_load(yaml.safe_dump(config, sort_keys=False))) == str(config)


@QUIET
@given(
    st.text(
        st.characters(
            blacklist_categories=("Cs",), blacklist_characters="".join(map(chr, [*range(9), *range(11, 32), 127]))
        )
    )
)
def test_a_prefix_reaches_the_environment_byte_for_byte(prefix: str) -> None:
    variables = {
        "rag_embedder": "acme/x",
        "rag_embedder_engine": "external",
        "rag_embedder_base_url": "http://h:8000/v1",
        "rag_embedder_dimensions": 8,
        "rag_embedder_query_prefix": prefix,
        "rag_embedder_document_prefix": prefix,
        "rag_open_webui_env": {"WEBUI_NAME": prefix},
    }
    plans, _found = plan_inventory({"h1": variables}, {group: ["h1"] for group in GROUPS})
    env = json.loads(json.dumps(plans["default"]))["hosts"]["h1"]["open_webui"]["env"]
    # an empty value is left out, because Open WebUI does not take it for unset
    wanted = [prefix.encode()] * 3 if prefix else []
    names = ("RAG_EMBEDDING_QUERY_PREFIX", "RAG_EMBEDDING_CONTENT_PREFIX", "WEBUI_NAME")
    assert [env[name].encode() for name in names if name in env] == wanted


@pytest.mark.rule("PL133", fires=True)
@pytest.mark.parametrize("name", ["rag_embedder_query_prefix", "rag_embedder", "rag_open_webui_secret_key"])
def test_ten_megabytes_are_a_short_finding(name: str) -> None:
    plans, findings = plan_inventory(
        {"h1": {**QUICKSTART, name: "x" * 10_000_000}}, {group: ["h1"] for group in GROUPS}
    )
    assert plans == {}
    assert [f.id for f in findings if f.id == "PL133"] == ["PL133"]
    assert max(len(f.message) for f in findings) < 300


def seconds(hosts: int) -> float:
    """Shortest of three times that the plan of so many hosts takes, in installations of ten hosts."""
    names = [f"h{number:03}" for number in range(hosts)]
    inventory = {
        name: {**QUICKSTART, "rag_installation": f"i{number // 10}", "rag_open_webui_port": 3000 + number % 10}
        for number, name in enumerate(names)
    }
    groups = {"rag_embedders": names, "rag_rerankers": names}
    groups |= {group: names[::10] for group in GROUPS if group not in groups}
    times = []
    for _run in range(3):
        start = time.process_time()
        plans, _found = plan_inventory(inventory, groups)
        times.append(time.process_time() - start)
        assert len(plans) == hosts // 10
    return min(times)


def test_the_time_of_a_plan_grows_with_the_hosts_and_no_faster() -> None:
    assert seconds(200) / seconds(10) < 40
