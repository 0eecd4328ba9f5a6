from __future__ import annotations

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _findings
from ansible_collections.plumbline.rag.plugins.module_utils._findings import Finding, acknowledge

from .installation import ids

WARNING = Finding("PL153", "warning", {"variable": "rag_reranker"}, "weak", "measure")
ERROR = Finding("PL140", "error", {"variable": "rag_top_k"}, "too many", "fewer")


@pytest.mark.rule("PL190", fires=True)
def test_an_unknown_id_in_rag_accept_is_an_error():
    found = acknowledge([WARNING], {"PL999": "because"})
    assert [(f.id, f.severity, f.accepted) for f in found] == [("PL190", "error", None), ("PL153", "warning", None)]
    assert "PL999" in found[0].message


@pytest.mark.rule("PL190", fires=False)
def test_a_known_id_with_a_reason_is_accepted():
    found = acknowledge([WARNING, ERROR], {"PL153": " measured "})
    assert [(f.id, f.accepted) for f in found] == [("PL140", None), ("PL153", "measured")]


@pytest.mark.rule("PL191", fires=True)
@pytest.mark.parametrize("accept", [{"PL153": ""}, {"PL153": None}, {"PL101": "please"}])
def test_no_reason_and_what_cannot_be_accepted_are_refused(accept):
    found = acknowledge([WARNING], accept)
    assert found[0].id == "PL191"
    assert found[0].open_error


@pytest.mark.rule("PL191", fires=False)
def test_an_error_that_can_be_accepted_no_longer_stops_the_run():
    found = acknowledge([ERROR], {"PL140": "the engine is patched"})
    assert ids(found) == ["PL140"]
    assert not found[0].open_error


def test_a_finding_survives_its_json_form():
    accepted = acknowledge([WARNING], {"PL153": "measured"})[0]
    assert accepted.as_dict() == {
        "id": "PL153",
        "severity": "warning",
        "where": {"variable": "rag_reranker"},
        "message": "weak",
        "remedy": "measure",
        "accepted": "measured",
    }
    assert Finding.from_dict(accepted.as_dict()) == accepted


def test_verdict_counts_accepted_ones_apart():
    assert (
        _findings.verdict(acknowledge([WARNING, ERROR], {"PL153": "x"})) == "1 error, 0 warnings, 0 notes, 1 accepted"
    )


def test_table_names_place_message_and_remedy():
    text = _findings.table([ERROR])
    assert text.splitlines() == ["PL140 error    rag_top_k", "      too many", "      -> fewer"]
    assert _findings.table([]) == ""


def test_an_id_is_declared_once():
    with pytest.raises(ValueError, match="twice"):
        _findings.register("PL190", "error", "again", "", "")
