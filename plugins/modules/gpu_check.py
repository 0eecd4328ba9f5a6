#!/usr/bin/python
# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that containers have the graphics cards that they were given."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_check
short_description: Check that a container has the graphics cards that it was given
description:
  - Runs C(nvidia-smi -L) inside the container and compares the cards with those of the plan; opens the driver's device instead
    where the image has no C(nvidia-smi).
  - Asks text-embeddings-inference for its dtype and reads the start of the engine's log, to find one that computes on the processor.
  - Fails with a finding (PL301, PL308, PL315, PL316).
version_added: 0.1.0
author: plumbline.rag contributors (@plumbline)
requirements: [docker]
options:
  service:
    description: Name of the service.
    type: str
    required: true
  container:
    description: Its container.
    type: str
    required: true
  gpus:
    description: Indexes or UUIDs of the cards that it is given.
    type: list
    elements: raw
    required: true
  cards:
    description: The cards of the host, as M(plumbline.rag.gpu_info) returns them.
    type: list
    elements: dict
    required: true
  host:
    description: Name of the host in findings.
    type: str
    required: true
  engine:
    description: Engine whose device is checked as well; without it the container only tries the cards.
    type: str
  port:
    description: Port of the engine inside the container.
    type: int
    default: 8000
  arguments:
    description: Arguments that the engine was started with.
    type: list
    elements: str
    default: []
  api_key:
    description: Key of the engine.
    type: str
  refused:
    description: What Docker said when it did not start the container; then nothing else is checked.
    type: str
attributes:
  check_mode:
    description: Reads only, so check mode is the same.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
"""

EXAMPLES = r"""
- name: Look at the cards
  plumbline.rag.gpu_info:
  register: gpu

- name: Check the embedder
  plumbline.rag.gpu_check:
    service: embedder
    container: rag-embedder
    gpus: [0]
    cards: "{{ gpu.gpus }}"
    host: "{{ inventory_hostname }}"
    engine: tei
    arguments: [--dtype, float16]
    api_key: "{{ rag_secrets.embedder_api_key }}"
"""

RETURN = r"""
findings:
  description: What is wrong.
  returned: always
  type: list
  elements: dict
"""

import itertools
import json
from collections.abc import Iterator
from typing import Any

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible.module_utils.urls import open_url

from ansible_collections.plumbline.rag.plugins.module_utils import _gpu, _gpu_container
from ansible_collections.plumbline.rag.plugins.module_utils._findings import Finding

try:
    import docker
    import docker.errors

    DOCKER_ERROR: Exception | None = None
except ImportError as error:
    DOCKER_ERROR = error

# The device stands near the start of the log.
START = 2000


def run(api: Any, container: str, command: list[str]) -> tuple[int, str]:
    """Exit status and output of a command inside a container."""
    try:
        identifier = api.exec_create(container, command)["Id"]
        output = api.exec_start(identifier).decode("utf-8", "replace")
    except docker.errors.APIError as error:
        # an engine of version 28 and later answers so when the program is not there
        return 127 if "not found" in str(error) else 1, str(error)
    return int(api.exec_inspect(identifier)["ExitCode"]), output


def info(address: str, port: int, key: str | None) -> dict[str, Any]:
    """What text-embeddings-inference says of itself; empty when it says nothing."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        reply = open_url(f"http://{address}:{port}/info", headers=headers, timeout=10, use_proxy=False)
        answer = json.load(reply)
    except (OSError, ValueError):
        return {}
    return answer if isinstance(answer, dict) else {}


def cards(api: Any, subject: _gpu_container.Subject) -> Iterator[Finding]:
    """Whether the container sees its cards."""
    status, output = run(api, subject.container, ["nvidia-smi", "-L"])
    if _gpu_container.no_listing(status):
        yield from _gpu_container.device_file(subject, *run(api, subject.container, ["sh", "-c", ": < /dev/nvidiactl"]))
    else:
        yield from _gpu_container.listing(subject, status, output)


def device(api: Any, subject: _gpu_container.Subject, options: dict[str, Any]) -> Iterator[Finding]:
    """Whether the engine in the container computes on them."""
    inspected = api.inspect_container(subject.container)
    networks = inspected["NetworkSettings"]["Networks"].values()
    address = next((network["IPAddress"] for network in networks if network["IPAddress"]), None)
    said = info(address, options["port"], options["api_key"]) if subject.engine == "tei" and address else {}
    since = inspected["State"]["StartedAt"][:19]
    log = api.logs(subject.container, stream=True, follow=False, timestamps=True)
    # of an earlier start nothing counts; the engine's times have one length and sort as text
    lines = (line.decode("utf-8", "replace") for line in log)
    begun = (line.partition(" ")[2] for line in lines if line[:19] >= since)
    yield from _gpu_container.device(subject, said, itertools.islice(begun, START))


def check(options: dict[str, Any]) -> list[Finding]:
    """What is wrong with the container."""
    wanted = tuple(_gpu.uuids(options["gpus"], options["cards"]))
    dtype = _gpu_container.dtype(options["arguments"])
    subject = _gpu_container.Subject(
        options["service"], options["host"], options["container"], wanted, options["engine"], dtype
    )
    if options["refused"] is not None:
        return [_gpu_container.refused(subject, options["refused"])]
    api = docker.from_env(timeout=60).api
    found = list(cards(api, subject))
    return found or (list(device(api, subject, options)) if subject.engine else [])


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "service": {"type": "str", "required": True},
            "container": {"type": "str", "required": True},
            "gpus": {"type": "list", "elements": "raw", "required": True},
            "cards": {"type": "list", "elements": "dict", "required": True},
            "host": {"type": "str", "required": True},
            "engine": {"type": "str"},
            "port": {"type": "int", "default": 8000},
            "arguments": {"type": "list", "elements": "str", "default": []},
            "api_key": {"type": "str", "no_log": True},
            "refused": {"type": "str"},
        },
        supports_check_mode=True,
    )
    if DOCKER_ERROR is not None:
        module.fail_json(msg=missing_required_lib("docker"), exception=str(DOCKER_ERROR))
    try:
        findings = check(module.params)
    except (docker.errors.DockerException, ValueError) as error:
        module.fail_json(msg=f"The container {module.params['container']} cannot be examined: {error}")
    result = {"changed": False, "findings": [finding.as_dict() for finding in findings]}
    if findings:
        reasons = "\n".join(f"{finding.id}: {finding.message}\n{finding.remedy}" for finding in findings)
        module.fail_json(msg=reasons, **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
