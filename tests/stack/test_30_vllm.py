"""The same site.yml with real vLLM on the CPU and the oldest LiteLLM that is allowed."""

from __future__ import annotations

import json

from .conftest import ROOT, container_ids, docker, open_errors, run, site

INVENTORY = ROOT / "tests" / "stack" / "inventories" / "vllm"
MODEL = "sentence-transformers/all-MiniLM-L6-v2"


def test_vllm_is_deployed_and_proven():
    result = site(inventory=INVENTORY)
    assert result.status == 0
    assert open_errors(installation="vllm") == set()
    report = json.loads((ROOT / "reports" / "vllm" / "verify.json").read_text())
    assert report["findings"] == [f for f in report["findings"] if f["severity"] != "error"]


def test_the_floor_of_litellm_is_what_runs():
    assert docker("inspect", "--format", "{{.Config.Image}}", "rag-vllm-litellm").endswith("litellm:v1.94.3")


def test_a_second_run_changes_nothing():
    before = container_ids()
    again = site(inventory=INVENTORY)
    assert again.status == 0
    assert again.recap()["changed"] == 0
    assert container_ids() == before


def test_it_goes_and_leaves_the_other_installation_alone():
    others = {name: identity for name, identity in container_ids().items() if not name.startswith("rag-vllm-")}
    down = run("ansible-playbook", "plumbline.rag.uninstall", "-i", str(INVENTORY), "-e", '{"uninstall_volumes": true}')
    assert down.status == 0
    assert container_ids() == others
    assert docker("volume", "ls", "--quiet", "--filter", "name=^rag-vllm-") == ""
