# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The container that tries the cards and the service ask Docker for the same, and hosts without cards pay nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.plumbline.rag.plugins.module_utils import _gpu

ROOT = Path(__file__).resolve().parents[2]
WITH_CARDS = "rag_plan.hosts[inventory_hostname] | plumbline.rag.gpu_services | length > 0"


def load(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


@pytest.mark.parametrize("role", ["tei", "vllm"])
def test_an_engine_takes_its_request_from_the_role_nvidia(role: str) -> None:
    request = load(f"roles/{role}/vars/main.yml")[f"_{role}_device_requests"]
    assert request == (
        f"{{{{ nvidia_device_requests[{role}_service] if {role}_spec.device == 'gpu' and {role}_spec.gpus else [] }}}}"
    )
    (task,) = load(f"roles/{role}/tasks/service.yml")
    assert task["vars"]["container_device_requests"] == f"{{{{ _{role}_device_requests }}}}"
    assert task["vars"]["container_software"] == role


def test_the_trial_takes_the_same_request() -> None:
    (trial,) = load("roles/nvidia/tasks/trial.yml")
    container = trial["block"][0]["block"][0]["community.docker.docker_container"]
    assert container["device_requests"] == "{{ nvidia_device_requests[nvidia_service.key] }}"
    assert container["image"] == "{{ nvidia_service.value.image }}"
    assert trial["always"][0]["community.docker.docker_container"]["state"] == "absent"


@pytest.mark.parametrize(("playbook", "times"), [("site", 2), ("verify", 1), ("uninstall", 1)])
def test_only_hosts_with_cards_run_the_role(playbook: str, times: int) -> None:
    tasks = [task for play in load(f"playbooks/{playbook}.yml") for task in play.get("tasks", [])]
    found = [
        task for task in tasks if task.get("ansible.builtin.include_role", {}).get("name") == "plumbline.rag.nvidia"
    ]
    assert len(found) == times
    for task in found:
        when = task["when"]
        assert WITH_CARDS in ([when] if isinstance(when, str) else when)


def test_the_quickstart_has_no_service_with_cards() -> None:
    assert _gpu.users({"embedder": {"gpus": [], "device": "cpu"}, "images": [], "litellm": {"role": "litellm"}}) == {}
