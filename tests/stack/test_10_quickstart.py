"""make demo from nothing, and again."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

from .conftest import QUICKSTART, SERVICES, container_ids, open_errors, run


def test_demo_deploys_and_proves(root):
    demo = run("make", "demo")
    assert demo.status == 0
    assert "elapsed:" in demo.output
    assert "http://127.0.0.1:3000" in demo.output
    assert set(container_ids()) == set(SERVICES)
    assert open_errors() == set()


def test_the_report_says_what_was_measured(root):
    report = json.loads((root / "reports/default/verify.json").read_text())
    judged = [f for f in report["findings"] if f["severity"] != "note"]
    assert [(f["id"], bool(f["accepted"])) for f in judged] == [("PL153", True)]
    assert report["requests"] < 200
    page = (root / "reports/default/report.html").read_text()
    assert "cosine" in page
    assert "<script src" not in page
    suite = ET.parse(root / "reports/default/junit.xml").getroot()
    assert suite.findall(".//testcase")
    assert suite.findall(".//failure") == []


def test_a_second_run_changes_nothing():
    before = container_ids()
    again = run("make", "demo")
    assert again.status == 0
    assert again.recap()["changed"] == 0
    assert container_ids() == before


def test_the_admin_password_is_where_the_run_says_and_private():
    file = QUICKSTART / ".secrets" / "default.yml"
    assert file.stat().st_mode & 0o077 == 0
    assert "open_webui_admin_password" in file.read_text()
