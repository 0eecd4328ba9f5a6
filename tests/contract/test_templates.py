# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every template renders, with no undefined variable, for every host of the quickstart's plan."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _report

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "inventories" / "quickstart"
SECRETS = [
    "embedder_api_key",
    "litellm_master_key",
    "open_webui_admin_password",
    "open_webui_secret_key",
    "postgres_password",
    "reranker_api_key",
]
VERIFIED = json.loads((ROOT / "tests" / "contract" / "verified.json").read_text(encoding="utf-8"))
# What a template needs besides its role's variables, the plan and the secrets.
SAMPLES: dict[str, dict[str, Any]] = {"templates/report.html.j2": {"report": _report.view(VERIFIED)}}


def ansible_playbook(*arguments: str, cwd: Path) -> None:
    done = subprocess.run(
        ["ansible-playbook", "-i", str(QUICKSTART), *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def play(template: Path, plan: dict[str, Any], target: Path) -> dict[str, Any]:
    """A play that renders one template as its role would: with the role's variables, the plan and the samples."""
    name = str(template.relative_to(ROOT))
    role = ROOT.joinpath(*Path(name).parts[:2]) if name.startswith("roles/") else None
    files = [role / "defaults" / "main.yml", *sorted((role / "vars").glob("*.yml"))] if role else []
    return {
        "hosts": "all",
        "gather_facts": True,
        "vars": {
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
            "rag_plan": plan,
            "rag_secrets": dict.fromkeys(SECRETS, "sample"),
            **SAMPLES.get(name, {}),
        },
        "vars_files": [str(path) for path in files if path.exists()],
        "tasks": [
            {"name": name, "ansible.builtin.template": {"src": str(template), "dest": str(target), "mode": "0600"}}
        ],
    }


def test_every_template_renders(tmp_path: Path) -> None:
    ansible_playbook("plumbline.rag.plan", "-e", f"rag_report_dir={tmp_path}", cwd=tmp_path)
    plan = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))["plan"]
    templates = sorted([*ROOT.glob("templates/**/*.j2"), *ROOT.glob("roles/*/templates/**/*.j2")])
    assert templates
    plays = [play(template, plan, tmp_path / f"{number}.out") for number, template in enumerate(templates)]
    book = tmp_path / "render.yml"
    book.write_text(json.dumps(plays), encoding="utf-8")
    ansible_playbook(str(book), cwd=tmp_path)
    assert [
        str(template)
        for number, template in enumerate(templates)
        if not (tmp_path / f"{number}.out").read_text().strip()
    ] == []


def test_samples_are_of_templates_that_exist() -> None:
    assert [name for name in SAMPLES if not (ROOT / name).exists()] == []
