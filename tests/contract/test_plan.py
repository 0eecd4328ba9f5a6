# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan verb as users run it: worked inventories, bad input, and what it writes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _lock

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "docs" / "plan.schema.json").read_text(encoding="utf-8"))
INVENTORIES = sorted(
    path.parent
    for folder in ("inventories", "tests/stack/inventories", "tests/gpu/inventories")
    for path in (ROOT / folder).glob("*/hosts.yml")
)
GOOD = """
all:
  hosts:
    h1:
      ansible_connection: local
      rag_embedder: intfloat/multilingual-e5-small
      rag_embedder_engine: bundled
      rag_image_source: build
"""


def plan(inventory: Path, cwd: Path) -> tuple[int, str]:
    done = subprocess.run(
        ["ansible-playbook", "plumbline.rag.plan", "-i", str(inventory)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def reports(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("reports/*/plan.json"))]


@pytest.mark.parametrize("inventory", INVENTORIES, ids=lambda path: path.name)
def test_a_worked_inventory_plans(inventory: Path, tmp_path: Path) -> None:
    status, output = plan(inventory, tmp_path)
    written = reports(tmp_path)
    assert written, output
    for document in written:
        jsonschema.Draft202012Validator(SCHEMA).validate(document)
        errors = [f["id"] for f in document["findings"] if f["severity"] == "error" and "accepted" not in f]
        assert errors == []
    assert status == 0, output


@pytest.mark.parametrize(
    ("line", "rule", "text"),
    [
        ('rag_top_k: "{{ rag_top_k }}"', "PL105", "cannot be evaluated"),
        ('rag_top_k: "{{ rag_chunk_size }}"\n      rag_chunk_size: "{{ rag_top_k }}"', "PL105", "cannot be evaluated"),
        ('rag_top_k: "{{ nothing }}"', "PL105", "cannot be evaluated"),
        ('rag_embedder_query_prefix: "query:\\u00a0"', "PL132", "NO-BREAK SPACE"),
        ('rag_embedder_query_prefix: "query: \\0"', "PL133", "U+0000"),
        ("rag_embedder_query_prefix: \"{{ 'x' * 10000000 }}\"", "PL133", "10000000 characters"),
        ("rag_open_webui_version: 2026-01-01", "PL102", "must be a quoted string"),
        ("rag_open_webui_env: {WEBUI_NAME: {a: 1}}", "PL172", "has no text value"),
        ("rag_installation: ../../x", "PL102", "lower-case letters"),
        ("rag_catalog_dirs: [nowhere]", "PL106", "nowhere"),
    ],
)
def test_bad_input_is_a_finding(line: str, rule: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(f"{GOOD}      {line}\n", encoding="utf-8")
    status, output = plan(tmp_path / "hosts.yml", tmp_path)
    assert status == 2, output
    found = [finding for document in reports(tmp_path) for finding in document["findings"]]
    assert any(finding["id"] == rule and text in finding["message"] for finding in found), output
    assert "Traceback" not in output
    assert len(output) < 20_000


def test_broken_yaml_is_an_error_in_words(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(GOOD, encoding="utf-8")
    folder = tmp_path / "group_vars"
    folder.mkdir()
    (folder / "all.yml").write_text("rag_top_k: [1\nrag_proxy: none\n", encoding="utf-8")
    status, output = plan(tmp_path / "hosts.yml", tmp_path)
    assert status != 0
    assert "YAML parsing failed" in output
    assert "Traceback" not in output


@pytest.mark.parametrize("earlier", ["{", "[]", '{"plan": {"verify": []}}'])
def test_a_report_of_another_kind_is_no_obstacle(earlier: str, tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(GOOD, encoding="utf-8")
    target = tmp_path / "reports" / "default" / "plan.json"
    target.parent.mkdir(parents=True)
    target.write_text(earlier, encoding="utf-8")
    status, output = plan(tmp_path / "hosts.yml", tmp_path)
    assert status == 0, output
    assert reports(tmp_path)[0]["changes"] == []


def test_the_second_plan_says_what_changes(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(GOOD, encoding="utf-8")
    assert plan(tmp_path / "hosts.yml", tmp_path)[0] == 0
    (tmp_path / "hosts.yml").write_text(GOOD + '      rag_embedder_revision: "abc"\n', encoding="utf-8")
    status, output = plan(tmp_path / "hosts.yml", tmp_path)
    assert status == 0, output
    assert "stored vectors become worthless" in output
    assert [finding["id"] for finding in reports(tmp_path)[0]["findings"]] == ["PL189"]


def lock(folder: Path) -> Path:
    """A lock of the plan that lies in the report folder."""
    (report,) = reports(folder)
    document = {
        "collection": "0.1.0",
        "installation": "default",
        "time": "2026-01-01T00:00:00+00:00",
        "requests": 1,
        "depth": "quick",
        "versions": {},
        "fingerprint": _lock.fingerprint(report["plan"]["verify"]),
        "latency": [],
        "measurements": {},
        "findings": [],
    }
    path = folder / "reports" / "default" / "lock.json"
    path.write_text(json.dumps(_lock.record(None, document, report["plan"], [])), encoding="utf-8")
    return path


def test_a_change_that_invalidates_stored_vectors_stops_until_it_is_acknowledged(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.yml"
    hosts.write_text(GOOD, encoding="utf-8")
    assert plan(hosts, tmp_path)[0] == 0
    lock(tmp_path)
    assert plan(hosts, tmp_path)[0] == 0
    changed = GOOD + '      rag_embedder_revision: "abc"\n'
    hosts.write_text(changed, encoding="utf-8")
    for _time in ("first", "again"):  # the lock stays, where the last plan is overwritten by the failed one
        status, output = plan(hosts, tmp_path)
        assert status == 2, output
        assert "Changed against the lock of 2026-01-01T00:00:00+00:00: embedder revision from" in " ".join(
            output.split()
        )
    hosts.write_text(changed + "      rag_accept: {PL189: everything is re-indexed tonight}\n", encoding="utf-8")
    status, output = plan(hosts, tmp_path)
    assert status == 0, output
    assert "everything is re-indexed tonight" in output


def test_a_damaged_lock_stops_the_plan_with_a_finding(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(GOOD, encoding="utf-8")
    assert plan(tmp_path / "hosts.yml", tmp_path)[0] == 0
    lock(tmp_path).write_text("half a fi", encoding="utf-8")
    status, output = plan(tmp_path / "hosts.yml", tmp_path)
    assert status == 2, output
    assert [finding["id"] for finding in reports(tmp_path)[0]["findings"]] == ["PL492"]
    assert "Traceback" not in output
