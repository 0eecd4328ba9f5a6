#!/usr/bin/python
# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verify an installation with real requests."""

from __future__ import annotations

DOCUMENTATION = r"""
module: verify
short_description: Prove with real requests that an installation is right
description:
  - Runs the checks that the plan asks for at every hop (engine, proxy, Open WebUI, vector store, reranker) and compares
    vectors, scores and settings with expected values. The checks run concurrently and send at most 200 small requests;
    at most 100 at depth C(quick) and 1000 at depth C(deep).
  - Everything that it makes is named C(plumbline-verify) and removed again, also after a failure or an interrupt; a later run
    removes what a killed one left. At every depth it makes one knowledge base with three short text files. Depth C(standard) adds
    Markdown (English, Japanese, Arabic), HTML, CSV, a PDF and a DOCX, and a memory of the administrator. Depth C(deep) adds files
    that must be refused, and for the time of its run a user without rights with a file and two more knowledge bases.
  - Everything else is only read. Of the vector store it reads its own rows, and counts and compares the others without showing them.
  - On the controller it compares reference vectors and the quality of a labelled set with the installation's C(lock.json).
  - On the controller it acknowledges findings, writes C(verify.json), C(report.html), C(junit.xml) and C(metrics.prom), shows the
    findings, and fails when an error among them is open.
version_added: 0.1.0
author: plumbline.rag contributors (@plumbline)
requirements: [httpx, docker, psycopg]
options:
  verify:
    description: The plan's C(verify) part.
    type: dict
    required: true
  secrets:
    description: Secrets by the names that the plan uses for them.
    type: dict
    default: {}
  network:
    description: The stack's Docker network, on which container names are looked up.
    type: str
    default: ""
  probes:
    description: The collection's questions and passages in several languages; the controller adds them.
    type: dict
    default: {}
  evaluation:
    description: The questions and passages that measure the reranker; the controller adds them from the plan's C(eval_set).
    type: dict
    default: {}
  since:
    description: Logs are read from this time on, in seconds since 1970; the controller adds the end of the last run.
    type: float
    default: 0.0
  installation:
    description: Name of the installation, for the report.
    type: str
    default: default
  report_dir:
    description: Folder on the controller for the report; C(reports/INSTALLATION) without it.
    type: str
  accept:
    description: Acknowledged findings, id to reason, as in C(rag_accept).
    type: dict
    default: {}
  planned:
    description: Findings of the plan, which the report repeats; those that stop a run never come here.
    type: list
    elements: dict
    default: []
  plan:
    description:
      - The whole plan, for C(lock.json) in I(report_dir), which the controller compares with and writes after a verification
        without open errors. Without it no lock is written.
    type: dict
    default: {}
attributes:
  action:
    description: The requests are made on the host, the report is written on the controller.
    support: full
  check_mode:
    description: Skipped, because a proof uploads a file.
    support: none
  diff_mode:
    description: There is nothing to compare.
    support: none
"""

EXAMPLES = r"""
- name: Prove the installation
  plumbline.rag.verify:
    verify: "{{ rag_plan.verify }}"
    secrets: "{{ rag_secrets }}"
    network: "{{ rag_plan.network }}"
    installation: "{{ rag_plan.installation }}"
    accept: "{{ rag_accept | default({}) }}"
    planned: "{{ rag_plan.findings }}"
    plan: "{{ rag_plan }}"
"""

RETURN = r"""
findings:
  description: What is wrong, in which hop, and what to do.
  returned: success
  type: list
  elements: dict
measurements:
  description: The measured values of each check, by its name.
  returned: success
  type: dict
versions:
  description: The versions that the running services report.
  returned: success
  type: dict
checks:
  description: Name, hop, state, duration and findings of each check.
  returned: success
  type: list
  elements: dict
hops:
  description: The state of each hop.
  returned: success
  type: dict
requests:
  description: How many requests were made.
  returned: success
  type: int
duration:
  description: Seconds that the checks took.
  returned: success
  type: float
latency:
  description: How long the answers of each route took.
  returned: success
  type: list
  elements: dict
reports:
  description: The files that were written on the controller.
  returned: always
  type: list
  elements: str
"""

import asyncio

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

from ansible_collections.plumbline.rag.plugins.module_utils import _docker, _http, _pgvector
from ansible_collections.plumbline.rag.plugins.module_utils._checks import _run

_LIBRARIES = (
    ("httpx", _http.HTTPX_ERROR),
    ("docker", _docker.DOCKER_ERROR),
    ("psycopg", _pgvector.PSYCOPG_ERROR),
)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "verify": {"type": "dict", "required": True},
            "secrets": {"type": "dict", "default": {}, "no_log": True},
            "network": {"type": "str", "default": ""},
            "probes": {"type": "dict", "default": {}},
            "evaluation": {"type": "dict", "default": {}},
            "since": {"type": "float", "default": 0.0},
            "installation": {"type": "str", "default": "default"},
            "report_dir": {"type": "str"},
            "accept": {"type": "dict", "default": {}},
            "planned": {"type": "list", "elements": "dict", "default": []},
            "plan": {"type": "dict", "default": {}},
        },
    )
    for library, error in _LIBRARIES:
        if error is not None:
            module.fail_json(msg=missing_required_lib(library), exception=str(error))
    arguments = module.params
    try:
        more = {name: arguments[name] for name in ("probes", "evaluation", "since")}
        more["accepted"] = tuple(arguments["accept"])
        result = asyncio.run(_run.verify(arguments["verify"], arguments["secrets"], arguments["network"], **more))
    except asyncio.CancelledError:
        module.fail_json(msg="Interrupted; the probe data was removed.")
    except _http.ServiceError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
