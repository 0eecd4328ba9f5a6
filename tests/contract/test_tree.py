# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing in the tree depends on the machine it was written on, and generated pages and promises match the code."""

from __future__ import annotations

import re
import runpy
import subprocess
from pathlib import Path

import pytest
import yaml

from ansible_collections.plumbline.rag.plugins.module_utils import _spec

ROOT = Path(__file__).resolve().parents[2]
FILES = [
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    if name and (ROOT / name).is_file()
]
# Written as classes so that this file is not a hit itself.
FOREIGN = re.compile(
    r"""/(?:root|work|home)/ | [p]ypi[.] | pythonhosted[.] | [d]eb[.]debian | registry[.]npmjs | /[t]mp/(?:if|dev)\b""",
    re.VERBOSE,
)
CONTRACT = [
    "rag_installation",
    "rag_embedder",
    "rag_embedder_engine",
    "rag_embedder_revision",
    "rag_embedder_dimensions",
    "rag_embedder_query_prefix",
    "rag_embedder_document_prefix",
    "rag_embedder_base_url",
    "rag_embedder_api_key",
    "rag_embedder_gpus",
    "rag_embedder_extra_args",
    "rag_reranker",
    "rag_reranker_engine",
    "rag_reranker_revision",
    "rag_reranker_url",
    "rag_reranker_api_key",
    "rag_reranker_gpus",
    "rag_reranker_extra_args",
    "rag_proxy",
    "rag_litellm_version",
    "rag_litellm_extra_models",
    "rag_litellm_salt_key",
    "rag_litellm_master_key",
    "rag_open_webui_version",
    "rag_open_webui_variant",
    "rag_open_webui_env",
    "rag_open_webui_secret_key",
    "rag_open_webui_admin_email",
    "rag_open_webui_admin_password",
    "rag_open_webui_replicas",
    "rag_config_owner",
    "rag_vector_store",
    "rag_database_url",
    "rag_postgres_version",
    "rag_pgvector_halfvec",
    "rag_pgvector_index",
    "rag_hybrid_search",
    "rag_top_k",
    "rag_top_k_reranker",
    "rag_relevance_threshold",
    "rag_bm25_weight",
    "rag_chunk_size",
    "rag_chunk_overlap",
    "rag_text_splitter",
    "rag_embedding_batch_size",
    "rag_embedding_concurrency",
    "rag_reranker_timeout",
    "rag_content_extraction",
    "rag_image_source",
    "rag_image_registry_prefix",
    "rag_image_bundle_dir",
    "rag_accept",
    "rag_report_dir",
]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_no_path_or_registry_of_a_machine() -> None:
    hits = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in FILES
        for match in [FOREIGN.search(path.read_bytes().decode("utf-8", "ignore"))]
        if match
    ]
    assert hits == []


@pytest.mark.parametrize("lock", sorted(ROOT.glob("requirements/*.txt")), ids=lambda path: path.name)
def test_locks_have_hashes_and_no_address(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    assert "://" not in text
    requirements = re.findall(r"^\S.*\n( +--hash=)?", text, re.MULTILINE)
    assert requirements
    assert all(requirements)


def test_public_variables_are_there() -> None:
    assert set(CONTRACT) - set(_spec.VARIABLES) == set()


def test_generated_pages_are_in_step() -> None:
    wanted = runpy.run_path(str(ROOT / "docs" / "generate.py"))["pages"]()
    written = {
        str(path.relative_to(ROOT / "docs")) for path in [*ROOT.glob("docs/rules/*.md"), ROOT / "docs" / "variables.md"]
    }
    assert written == set(wanted)
    assert [name for name, text in wanted.items() if read(f"docs/{name}") != text] == []


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_commands_in_the_pages_exist(page: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z][a-z-]*)", read(page))) - targets == set()
    verbs = set(re.findall(r"plumbline\.rag\.([a-z]+) -i", read(page)))
    assert [verb for verb in verbs if not (ROOT / "playbooks" / f"{verb}.yml").exists()] == []


@pytest.mark.parametrize(
    "page", sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("docs/*.md")) + sorted(ROOT.glob("roles/*/README.md")), ids=str
)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!\w+:|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_variables_in_the_readme_exist() -> None:
    named = set(re.findall(r"\brag_[a-z0-9_]+", read("README.md")))
    groups = {
        "rag_embedders",
        "rag_rerankers",
        "rag_proxies",
        "rag_databases",
        "rag_open_webui",
        "rag_gateways",
        "rag_monitoring",
    }
    assert named - set(_spec.VARIABLES) - groups == set()


def test_action_group_holds_every_module() -> None:
    modules = sorted(path.stem for path in ROOT.glob("plugins/modules/*.py"))
    assert yaml.safe_load(read("meta/runtime.yml"))["action_groups"]["rag"] == modules
