# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalog as users meet it: the verb, the lookup, and their own folders in a plan."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "inventories" / "quickstart"
SMALL = (ROOT / "catalog" / "embedders" / "intfloat--multilingual-e5-small.yml").read_text(encoding="utf-8")


def ansible_playbook(*arguments: str | Path, cwd: Path) -> tuple[int, str]:
    done = subprocess.run(
        ["ansible-playbook", *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def listed(output: str) -> list[str]:
    return [line.split()[0] for line in output.splitlines() if "/" in line.split(" ")[0]]


def folder(root: Path, text: str) -> Path:
    target = root / "models" / "embedders" / "ours.yml"
    target.parent.mkdir(parents=True)
    target.write_text(text, encoding="utf-8")
    return target.parents[1]


@pytest.mark.parametrize(
    ("variables", "models"),
    [
        (
            {"engine": "bundled"},
            ["intfloat/multilingual-e5-small", "plumbline/e5-small-cosine"],
        ),
        (
            {"task": "embedder", "language": "ja", "kind": "asymmetric", "max_memory_gib": "0.2"},
            ["cl-nagoya/ruri-v3-30m", "cl-nagoya/ruri-v3-70m"],
        ),
        ({"dimensions": "1792", "commercial": "true"}, []),
        ({"dimensions": "1792", "commercial": "false"}, ["sbintuitions/sarashina-embedding-v2-1b"]),
    ],
)
def test_the_verb_lists_what_passes_the_filters(tmp_path: Path, variables: dict[str, str], models: list[str]) -> None:
    given = [part for name, value in variables.items() for part in ("-e", f"{name}={value}")]
    status, output = ansible_playbook("plumbline.rag.catalog", *given, cwd=tmp_path)
    assert status == 0, output
    assert listed(output) == models


def test_the_verb_prints_a_model_whose_block_can_be_planned(tmp_path: Path) -> None:
    status, output = ansible_playbook("plumbline.rag.catalog", "-e", "model=Qwen/Qwen3-Embedding-0.6B", cwd=tmp_path)
    assert status == 0, output
    assert 'passages that answer the query\\nQuery:"' in output
    block = output.split("# for an inventory\n")[1].split("\nok:")[0]
    assert yaml.safe_load(block) == {
        "rag_embedder": "Qwen/Qwen3-Embedding-0.6B",
        "rag_embedder_engine": "tei",
    }


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ("model=BAAI/bge-m4", "The catalog has no model BAAI/bge-m4. Did you mean BAAI/bge-m3?"),
        ("dimensions=many", "dimensions"),
        ("engine=gpu", "value of engine must be one of"),
        ('{"rag_catalog_dirs": ["nowhere"]}', "nowhere is not a folder"),
    ],
)
def test_the_verb_refuses_what_it_does_not_know(tmp_path: Path, variables: str, says: str) -> None:
    status, output = ansible_playbook("plumbline.rag.catalog", "-e", variables, cwd=tmp_path)
    assert status == 2
    assert says in output
    assert "Traceback" not in output


def test_the_lookup_gives_entries_by_id(tmp_path: Path) -> None:
    models = folder(tmp_path, SMALL.replace("intfloat/multilingual-e5-small", "acme/embed"))
    name = "plumbline.rag.catalog_entry"
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": {"rag_catalog_dirs": [str(models)]},
        "tasks": [
            {
                "ansible.builtin.assert": {
                    "that": [
                        f"lookup('{name}', 'BAAI/bge-m3').dimensions == 1024",
                        f"lookup('{name}', 'acme/embed').prefixes.query == 'query: '",
                        f"query('{name}', 'Qwen/Qwen3-Reranker-0.6B', 'BAAI/bge-m3') | map(attribute='kind') | list"
                        " == ['llm', 'symmetric']",
                    ]
                }
            },
            {"ansible.builtin.debug": {"msg": f"{{{{ lookup('{name}', 'acme/embad') }}}}"}},
        ],
    }
    book = tmp_path / "book.yml"
    book.write_text(json.dumps([play]), encoding="utf-8")
    status, output = ansible_playbook(book, cwd=tmp_path)
    assert status == 2
    assert "All assertions passed" in output
    assert "the catalog has no model acme/embad; did you mean acme/embed?" in output


def plan(tmp_path: Path, models: Path) -> tuple[int, dict[str, Any]]:
    given = json.dumps({"rag_catalog_dirs": [str(models)], "rag_report_dir": str(tmp_path)})
    status, output = ansible_playbook("plumbline.rag.plan", "-i", QUICKSTART, "-e", given, cwd=tmp_path)
    assert "Traceback" not in output
    return status, json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))


def test_an_operators_entry_is_planned_with_and_noted(tmp_path: Path) -> None:
    status, document = plan(tmp_path, folder(tmp_path, SMALL.replace("max_tokens: 512", "max_tokens: 256")))
    assert status == 0
    assert "PL117" in [finding["id"] for finding in document["findings"]]
    assert document["plan"]["verify"]["embedder"]["max_input_tokens"] == 256


def test_an_operators_bad_entry_stops_the_plan(tmp_path: Path) -> None:
    models = folder(tmp_path, SMALL.replace("dimensions: 384", "dimensions: many"))
    status, document = plan(tmp_path, models)
    assert status == 2
    [finding] = [finding for finding in document["findings"] if finding["id"] == "PL106"]
    assert f"{models}/embedders/ours.yml: dimensions: 'many' is not of type 'integer'" in finding["message"]
