# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What changes against the last plan, and the findings about it."""

from __future__ import annotations

import copy

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils._rules import changes

from .installation import CATALOG, ids, resolve

BASE = {"rag_image_source": "registry", "rag_reranker": "none", "rag_reranker_engine": None}


def plan(**variables):
    result, _findings = resolve({**BASE, **variables})
    assert result is not None
    return result


def compared(before, after):
    found = changes.compare(before, after)
    return found, changes.check(found, CATALOG.versions)


@pytest.mark.rule("PL188", "PL189", fires=False)
def test_the_same_plan_has_no_changes():
    assert compared(plan(), plan()) == ([], [])


@pytest.mark.rule("PL189", fires=True)
@pytest.mark.parametrize(
    ("variables", "variable"),
    [
        ({"rag_embedder": "BAAI/bge-m3", "rag_embedder_engine": "vllm"}, "rag_embedder"),
        ({"rag_embedder_query_prefix": "query:"}, "rag_embedder_query_prefix"),
        ({"rag_embedder_revision": "abc"}, "rag_embedder_revision"),
        ({"rag_pgvector_halfvec": True}, "rag_pgvector_halfvec"),
    ],
)
def test_what_makes_stored_vectors_worthless(variables, variable):
    found, findings = compared(plan(), plan(**variables))
    assert [f.where["variable"] for f in findings] == [variable]
    assert "reindex" in {change["effect"] for change in found}
    assert any("re-index" in line for line in changes.lines(found))


@pytest.mark.rule("PL189", fires=True)
def test_against_a_lock_it_is_an_error():
    after = plan(rag_embedder="BAAI/bge-m3", rag_embedder_engine="vllm")
    found = changes.compare(changes.extract(plan()), after)
    assert found == changes.compare(plan(), after)
    (finding,) = changes.check(found, CATALOG.versions, "2026-01-01T00:00:00+00:00")
    assert (finding.id, finding.severity) == ("PL189", "error")
    assert finding.message.startswith("Changed against the lock of 2026-01-01T00:00:00+00:00: embedder model from ")
    assert changes.check(found, CATALOG.versions)[0].severity == "warning"


def test_what_is_extracted_compares_as_the_plan_does():
    for variables in ({}, {"rag_vector_store": "chroma", "rag_open_webui_variant": "full"}):
        assert changes.compare(changes.extract(plan(**variables)), plan(**variables)) == []


@pytest.mark.rule("PL189", fires=True)
def test_a_model_of_the_same_dimension_is_noticed():
    vllm = {"rag_embedder_engine": "vllm"}
    before = plan(rag_embedder="BAAI/bge-m3", **vllm)
    after = plan(rag_embedder="Qwen/Qwen3-Embedding-0.6B", **vllm)
    assert before["verify"]["embedder"]["dimensions"] == after["verify"]["embedder"]["dimensions"]
    assert ids(compared(before, after)[1]) == ["PL189"]


@pytest.mark.rule("PL189", fires=False)
def test_another_engine_or_proxy_leaves_vectors_alone():
    found, findings = compared(plan(), plan(rag_litellm_version="1.104.0"))
    assert findings == []
    assert [(c["what"], c["before"], c["after"]) for c in found] == [("litellm version", "1.106.12", "1.104.0")]


def versions(before, after, service="open_webui", **variables):
    base = plan(**variables)
    old, new = copy.deepcopy(base), copy.deepcopy(base)
    old["hosts"]["h1"][service]["version"], new["hosts"]["h1"][service]["version"] = before, after
    return compared(old, new)[1]


@pytest.mark.rule("PL188", fires=True)
@pytest.mark.parametrize(
    ("before", "after", "service", "part"),
    [
        ("0.12.4", "0.11.4", "open_webui", "go back from 0.12.4 to 0.11.4"),
        ("0.9.5", "0.12.4", "open_webui", "leads over 0.9.6"),
        ("0.11.3", "0.12.4", "open_webui", "From 0.11.4 on slim"),
        ("17.6", "18", "postgres", "cannot read the data files of 17.6"),
    ],
)
def test_versions_that_cannot_be_reached(before, after, service, part):
    findings = versions(before, after, service)
    assert set(ids(findings)) == {"PL188"}
    assert any(part in f.message for f in findings)


@pytest.mark.rule("PL188", fires=False)
@pytest.mark.parametrize(
    ("before", "after", "service"),
    [
        ("0.11.4", "0.12.4", "open_webui"),
        ("18.3", "18", "postgres"),
        ("main", "0.12.4", "open_webui"),
        ("1.106.12", "1.104.0", "litellm"),
    ],
)
def test_versions_that_can_be_reached(before, after, service):
    assert versions(before, after, service) == []


@pytest.mark.parametrize("broken", [{}, {"verify": []}, {"verify": {}, "hosts": {"h": {"x": {}}}}])
def test_a_plan_of_another_kind_is_told_apart(broken):
    with pytest.raises((KeyError, AttributeError, TypeError)):
        changes.compare(broken, plan())
