#!/usr/bin/python
# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Provide the weights of a model on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: model_weights
short_description: Provide the weights of a model on a host, or judge those that are there
description:
  - Fetches the files that an engine needs from a model hub into a cache on the host, and checks the digest of each.
  - An interrupted download goes on where it ended. A later run asks nobody while all files are as they were checked, and
    reads again only those that have changed; a damaged one is fetched anew.
  - A revision that is not a commit is resolved once; the commit is recorded, and stays until the revision is changed.
  - Weights that were brought along are judged only; Git LFS pointers, links that lead nowhere, missing files, files that were
    cut off and other revisions are findings.
version_added: 0.1.0
author: plumbline.rag contributors (@plumbline)
requirements: [huggingface_hub (to fetch)]
options:
  state:
    description:
      - C(present) fetches what is missing and fails with the findings.
      - C(examined) judges the folder, changes nothing and returns the findings.
    type: str
    choices: [present, examined]
    default: present
  service:
    description: The service that findings name.
    type: str
    choices: [embedder, reranker]
    default: embedder
  engine:
    description: The engine that loads the weights.
    type: str
    choices: [tei, vllm]
    required: true
  device:
    description: What the engine computes on.
    type: str
    choices: [cpu, gpu]
    default: gpu
  code:
    description: Whether the engine runs Python of the repository, which may lie in another one. It is then fetched as well.
    type: bool
    default: false
  repository:
    description: Name of the repository, such as C(BAAI/bge-m3).
    type: str
    required: true
  revision:
    description: Commit, tag or branch; the hub's main branch, as it was when it was first fetched, unless given.
    type: str
  directory:
    description: Folder on the host that holds the models.
    type: path
    default: /var/lib/plumbline/models
  folder:
    description: The model's own folder below C(directory); found by the repository's name unless given. It is never fetched into.
    type: str
  source:
    description: Where the weights come from - a hub, or somebody who has laid them into C(directory).
    type: str
    choices: [hub, folder]
    default: hub
  endpoint:
    description: URL of the hub or of a mirror of it.
    type: str
    default: https://huggingface.co
  token:
    description: Token for models that are not public.
    type: str
    default: ""
attributes:
  check_mode:
    description: Says what would be fetched and fetches nothing.
    support: full
  diff_mode:
    description: Lists the files that are fetched with their sizes.
    support: full
"""

EXAMPLES = r"""
- name: Fetch the weights
  plumbline.rag.model_weights:
    repository: BAAI/bge-m3
    revision: 5617a9f61b028005a4858fdac845db406aefb181
    engine: vllm
"""

RETURN = r"""
path:
  description: Folder with the weights on the host.
  returned: success
  type: str
  sample: /var/lib/plumbline/models/models--BAAI--bge-m3/snapshots/5617a9f61b028005a4858fdac845db406aefb181
relative:
  description: The same below C(directory).
  returned: success
  type: str
  sample: models--BAAI--bge-m3/snapshots/5617a9f61b028005a4858fdac845db406aefb181
commit:
  description: Commit of the weights, where it is known.
  returned: success
  type: str
  sample: 5617a9f61b028005a4858fdac845db406aefb181
fetched:
  description: Names of the files that were fetched, or would be.
  returned: success
  type: list
  elements: str
bytes:
  description: Size of these files.
  returned: success
  type: int
size:
  description: Size of all files that the engine needs.
  returned: success
  type: int
findings:
  description: What is wrong with the weights.
  returned: always
  type: list
  elements: dict
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

from ansible_collections.plumbline.rag.plugins.module_utils import _hub, _provision
from ansible_collections.plumbline.rag.plugins.module_utils._rules import weights as rules
from ansible_collections.plumbline.rag.plugins.module_utils._weights import Fault


def _answer(outcome: _provision.Outcome, directory: str, service: str, changed: bool) -> dict[str, Any]:
    found = rules.weights_findings(service, outcome.path or directory, outcome.faults)
    fetched = sorted(outcome.fetched, key=lambda file: file.name)
    listed = "".join(f"{file.name}  {file.size}\n" for file in fetched)
    return {
        "changed": changed,
        "path": outcome.path,
        "relative": os.path.relpath(outcome.path, directory) if outcome.path else "",
        "commit": outcome.commit,
        "fetched": [file.name for file in fetched],
        "bytes": sum(file.size or 0 for file in fetched),
        "size": outcome.size,
        "findings": [finding.as_dict() for finding in found],
        "diff": {"before": "", "after": listed} if listed else {},
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "examined"], "default": "present"},
            "service": {"type": "str", "choices": ["embedder", "reranker"], "default": "embedder"},
            "engine": {"type": "str", "choices": ["tei", "vllm"], "required": True},
            "device": {"type": "str", "choices": ["cpu", "gpu"], "default": "gpu"},
            "code": {"type": "bool", "default": False},
            "repository": {"type": "str", "required": True},
            "revision": {"type": "str"},
            "directory": {"type": "path", "default": "/var/lib/plumbline/models"},
            "folder": {"type": "str"},
            "source": {"type": "str", "choices": ["hub", "folder"], "default": "hub"},
            "endpoint": {"type": "str", "default": "https://huggingface.co"},
            "token": {"type": "str", "default": "", "no_log": True},
        },
        supports_check_mode=True,
    )
    given = module.params
    wanted = _provision.Wanted(
        repository=given["repository"],
        revision=given["revision"],
        directory=given["directory"],
        folder=given["folder"],
        task="embed" if given["service"] == "embedder" else "rerank",
        engine=given["engine"],
        device=given["device"],
        code=given["code"],
    )

    def hub() -> _hub.Hub:
        if _hub.LIBRARY_ERROR is not None:
            if module.check_mode:
                module.exit_json(**_answer(_provision.Outcome("", None), given["directory"], given["service"], True))
            module.fail_json(msg=missing_required_lib("huggingface_hub"), exception=str(_hub.LIBRARY_ERROR))
        return _hub.Hub(given["endpoint"], given["token"], given["directory"])

    try:
        if given["source"] == "folder" or given["folder"] is not None or given["state"] == "examined":
            outcome = _provision.examine(wanted)
        else:
            os.umask(0o022)
            outcome = _provision.provide(wanted, hub, write=not module.check_mode)
    except _hub.HubError as error:
        outcome = _provision.Outcome("", None, faults=[Fault(error.kind, "", str(error))])
    answer = _answer(outcome, given["directory"], given["service"], bool(outcome.fetched))
    open_errors = [finding for finding in answer["findings"] if finding["severity"] == "error"]
    if open_errors and given["state"] == "present":
        reasons = " ".join(f"{one['id']}: {one['message']} {one['remedy']}" for one in open_errors)
        module.fail_json(msg=f"The container was not touched. {reasons}", **answer)
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
