from __future__ import annotations

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _catalog

from .installation import ids

TEXTS = {"fixtures": {"t": {"queries": ["q"], "documents": ["d1", "d2"]}}}
ENTRY = {
    "id": "acme/embed",
    "dimensions": 8,
    "max_tokens": 64,
    "kind": "asymmetric",
    "prefixes": {"query": "q: ", "document": "d: "},
    "normalized": True,
    "engines": {"vllm": {}},
    "fixtures": [{"texts": "t", "cosines": [[0.1, 0.2]]}],
}


def parse(**changes):
    return _catalog.parse({**TEXTS, "embedders/acme": {**ENTRY, **changes}})


@pytest.mark.rule("PL106", fires=False)
def test_a_valid_entry_carries_its_texts_and_exact_prefixes():
    catalog, findings = parse()
    entry = catalog.embedders["acme/embed"]
    assert findings == []
    assert (entry.query_prefix, entry.document_prefix) == ("q: ", "d: ")
    assert entry.fixtures[0]["documents"] == ["d1", "d2"]


@pytest.mark.rule("PL106", fires=True)
@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"dimensions": "8"}, "dimensions"),
        ({"dimensions": True}, "dimensions"),
        ({"kind": "both"}, "kind"),
        ({"prefixes": {"query": "q: ", "document": ""}}, "prefixes do not fit the kind asymmetric"),
        ({"prefixes": {"query": "q: "}}, "document"),
        ({"fixtures": [{"texts": "nope"}]}, "no text set nope"),
        ({"fixtures": [{"texts": "t", "cosines": [[0.1]]}]}, "2 documents and 1 values"),
        ({"fixtures": [{"texts": "t", "cosines": [[0.1, 0.2], [0.3, 0.4]]}]}, "1 queries and 2 rows"),
        ({"matryoshka": [4, 8]}, "matryoshka must hold dimensions below 8"),
        ({"engines": None}, "engines"),
    ],
)
def test_a_fault_names_file_and_field_and_leaves_the_entry_out(changes, names):
    catalog, findings = parse(**changes)
    assert ids(findings) == ["PL106"]
    assert "embedders/acme" in findings[0].message
    assert names in findings[0].message
    assert catalog.embedders == {}


def test_a_document_that_is_no_mapping_is_a_finding_too():
    _parsed, findings = _catalog.parse({"rerankers/x": ["a"]})
    assert ids(findings) == ["PL106"]


def test_values_of_a_reduced_dimension_are_not_expected_of_whole_vectors():
    whole = {"texts": "t", "cosines": [[0.1, 0.2]]}
    catalog, findings = parse(matryoshka=[4], fixtures=[whole, {**whole, "dimensions": 4}])
    entry = catalog.embedders["acme/embed"]
    assert findings == []
    assert [fixture.get("dimensions") for fixture in entry.fixtures] == [None]
    assert len(entry.raw["fixtures"]) == 2


@pytest.mark.rule("PL106", fires=True)
def test_two_files_of_a_folder_cannot_have_one_id():
    _parsed, findings = _catalog.parse({**TEXTS, "embedders/a": ENTRY, "embedders/b": ENTRY})
    assert ids(findings) == ["PL106"]
    assert "embedders/b" in findings[0].message


@pytest.mark.rule("PL117", fires=True)
def test_an_entry_of_the_same_id_replaces_the_shipped_one_with_a_note():
    base, _none = parse()
    catalog, findings = _catalog.parse({"embedders/ours": {**ENTRY, "max_tokens": 32}}, base, "models/")
    assert ids(findings) == ["PL117"]
    assert "models/embedders/ours replaces the shipped entry of acme/embed" in findings[0].message
    assert catalog.embedders["acme/embed"].max_tokens == 32


@pytest.mark.rule("PL117", fires=False)
def test_a_new_entry_lies_beside_the_shipped_ones_and_may_use_their_texts():
    base, _none = parse()
    catalog, findings = _catalog.parse({"embedders/ours": {**ENTRY, "id": "acme/other"}}, base, "models/")
    assert findings == []
    assert sorted(catalog.embedders) == ["acme/embed", "acme/other"]
    assert catalog.embedders["acme/other"].fixtures[0]["documents"] == ["d1", "d2"]
    assert catalog.engines is base.engines
