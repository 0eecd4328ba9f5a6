from __future__ import annotations

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _spec

from .installation import QUICKSTART, ids, resolve, specs


@pytest.mark.rule("PL101", fires=True)
def test_a_misspelt_variable_is_named_with_the_nearest_one():
    _plan, findings = resolve({"rag_embeder": "BAAI/bge-m3"})
    assert ids(findings) == ["PL101"]
    assert findings[0].where["variable"] == "rag_embeder"
    assert findings[0].remedy == "Did you mean rag_embedder?"


@pytest.mark.rule("PL101", fires=False)
@pytest.mark.rule("PL102", fires=False)
@pytest.mark.rule("PL103", fires=False)
@pytest.mark.rule("PL105", fires=False)
def test_the_quickstart_has_no_spec_findings():
    found, findings = specs({"h1": {**QUICKSTART, "rag_plans": {}, "other_variable": 1}})
    assert findings == []
    assert found["default"]["rag_top_k_reranker"] is None
    assert found["default"]["rag_proxy"] == "litellm"
    assert found["default"].given == frozenset(QUICKSTART)


@pytest.mark.rule("PL102", fires=True)
@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("rag_open_webui_version", 0.12, "the number 0.12; it must be a quoted string"),
        ("rag_embedder_engine", "tgi", "must be one of tei, vllm"),
        ("rag_hybrid_search", "yes", "must be true or false"),
        ("rag_hybrid_search", 1, "must be true or false"),
        ("rag_top_k", "many", "must be a whole number"),
        ("rag_top_k", True, "the boolean True; it must be a whole number"),
        ("rag_relevance_threshold", "low", "must be a number"),
        ("rag_embedder_gpus", "0,1", "must be a list"),
        ("rag_open_webui_env", ["A=b"], "must be a mapping"),
    ],
)
def test_wrong_types_say_what_is_and_what_must_be(variable, value, expected):
    _plan, findings = resolve({variable: value})
    assert ids(findings) == ["PL102"]
    assert expected in findings[0].message
    assert findings[0].where["variable"] == variable


def test_a_secret_of_the_wrong_type_is_not_shown():
    _plan, findings = resolve({"rag_litellm_master_key": 271828})
    assert ids(findings) == ["PL102"]
    assert "271828" not in findings[0].message


@pytest.mark.parametrize(
    ("variable", "value", "result"),
    [
        ("rag_hybrid_search", "True", True),
        ("rag_hybrid_search", False, False),
        ("rag_top_k", "7", 7),
        ("rag_relevance_threshold", 1, 1.0),
        ("rag_embedder_query_prefix", "query: ", "query: "),
        ("rag_embedder_query_prefix", "", ""),
    ],
)
def test_values_are_converted_and_strings_kept_to_the_byte(variable, value, result):
    found, findings = specs({"h1": {**QUICKSTART, variable: value}})
    assert findings == []
    assert found["default"][variable] == result
    assert type(found["default"][variable]) is type(result)


@pytest.mark.rule("PL103", fires=True)
def test_required_variables_are_asked_for_once_each():
    _plan, findings = resolve({"rag_embedder": None, "rag_embedder_engine": None})
    assert sorted(f.where["variable"] for f in findings) == ["rag_embedder", "rag_embedder_engine"]
    assert set(ids(findings)) == {"PL103"}


def test_a_required_variable_with_a_wrong_value_is_reported_once():
    _plan, findings = resolve({"rag_embedder_engine": "tgi"})
    assert ids(findings) == ["PL102"]


@pytest.mark.rule("PL104", fires=True)
def test_hosts_of_one_installation_must_agree_and_both_are_named():
    _found, findings = specs(
        {"h1": QUICKSTART, "h2": {**QUICKSTART, "rag_top_k": 9}, "h3": {**QUICKSTART, "rag_top_k": 8}}
    )
    assert ids(findings) == ["PL104"]
    assert "h2 and h3" in findings[0].message
    assert "9 and 8" in findings[0].message


@pytest.mark.rule("PL104", fires=False)
def test_per_host_variables_and_other_installations_may_differ():
    found, findings = specs(
        {
            "h1": {**QUICKSTART, "rag_embedder_gpus": ["0"]},
            "h2": {**QUICKSTART, "rag_embedder_gpus": ["1"]},
            "h3": {**QUICKSTART, "rag_installation": "other", "rag_top_k": 9},
        }
    )
    assert findings == []
    assert found["default"].hosts == ["h1", "h2"]
    assert found["other"]["rag_top_k"] == 9
    assert found["default"].host_values["h2"]["rag_embedder_gpus"] == ["1"]


@pytest.mark.rule("PL105", fires=True)
def test_a_broken_expression_is_a_finding_with_its_reason():
    _plan, findings = resolve({"rag_top_k": _spec.Broken("'nope' is undefined")})
    assert ids(findings) == ["PL105"]
    assert "'nope' is undefined" in findings[0].message


def test_the_same_fault_on_many_hosts_is_reported_once():
    wrong = {**QUICKSTART, "rag_embeder": "x"}
    _found, findings = specs({f"h{n}": wrong for n in range(5)})
    assert ids(findings) == ["PL101"]
