#!/usr/bin/python
# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait until a container does its work."""

from __future__ import annotations

DOCUMENTATION = r"""
module: container_ready
short_description: Wait until a container does its work, and say why it does not
description:
  - Runs the container's own health check until it succeeds, which is sooner than the engine reports it.
  - Fails within a minute for a container that keeps ending, and shows the end of its log with all secrets masked.
  - Reads the log of text-embeddings-inference and vLLM for what keeps them from starting, and says what to do (PL301 to PL317).
version_added: 0.1.0
author: plumbline.rag contributors (@plumbline)
requirements: [docker]
options:
  name:
    description: Name of the container, which has a health check.
    type: str
    required: true
  timeout:
    description: Seconds within which the health check has to succeed.
    type: int
    default: 120
  command:
    description: Command that asks the service for real work inside its container; it has to succeed within the same time.
    type: list
    elements: str
    default: []
  secrets:
    description: Values that must not be shown.
    type: list
    elements: str
    default: []
  software:
    description: What runs in the container, where its log is to be read for the cause of a failure.
    type: str
    choices: [tei, vllm]
attributes:
  check_mode:
    description: Does not wait, because the container may not be there.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
"""

EXAMPLES = r"""
- name: Wait for the database
  plumbline.rag.container_ready:
    name: rag-postgres
    secrets: ["{{ postgres_password }}"]
"""

RETURN = r"""
waited:
  description: Seconds until the health check succeeded.
  returned: success
  type: float
  sample: 2.1
findings:
  description: Why the container does not get ready.
  returned: failure
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

from ansible_collections.plumbline.rag.plugins.module_utils import _readiness

try:
    import docker
    import docker.errors

    DOCKER_ERROR: Exception | None = None
except ImportError as error:
    DOCKER_ERROR = error


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "timeout": {"type": "int", "default": 120},
            "command": {"type": "list", "elements": "str", "default": []},
            "secrets": {"type": "list", "elements": "str", "default": [], "no_log": True},
            "software": {"type": "str", "choices": ["tei", "vllm"]},
        },
        supports_check_mode=True,
    )
    if DOCKER_ERROR is not None:
        module.fail_json(msg=missing_required_lib("docker"), exception=str(DOCKER_ERROR))
    if module.check_mode:
        module.exit_json(changed=False, waited=0.0)
    name, secrets, engine = module.params["name"], module.params["secrets"], module.params["software"] is not None
    command = module.params["command"]
    try:
        api = docker.from_env(timeout=60).api
        waited = _readiness.wait(api, name, module.params["timeout"], engine=engine)
        if command:
            waited += _readiness.answers(api, name, command, module.params["timeout"] - waited)
    except _readiness.NotReady as error:
        finding = _readiness.explain(api, name, error, secrets, engine)
        log = _readiness.log_end(api, name, secrets)
        module.fail_json(
            msg=f"{finding.id}: The container {finding.message}\n{finding.remedy}\nThe end of its log:\n{log}\n"
            f"It is left as it is for a look (docker logs {name}).",
            findings=[finding.as_dict()],
        )
    except docker.errors.DockerException as error:
        module.fail_json(msg=f"The container {name} cannot be examined: {_readiness.mask(str(error), secrets)}")
    module.exit_json(changed=False, waited=round(waited, 1))


if __name__ == "__main__":
    main()
