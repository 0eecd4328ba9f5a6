# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: plan
author: plumbline.rag contributors (@plumbline)
version_added: 0.1.0
short_description: Resolve the inventory into a plan and report what is wrong with it
description:
  - Reads the C(rag_*) variables of every host, looks the models up in the catalog, derives every URL, name, limit and
    environment value, and reports findings. Nothing but C(plan.json) on the controller is written.
  - Runs on the controller. Use C(run_once), because it looks at the whole inventory.
  - Fails when an error finding is open.
attributes:
  check_mode:
    description: Runs the same in check mode, because it changes no host.
    support: full
  diff_mode:
    description: There is nothing to show a difference of.
    support: none
"""

EXAMPLES = r"""
- name: Plan every installation of the inventory
  plumbline.rag.plan:
  run_once: true
"""

RETURN = r"""
findings:
  description: All findings, open errors first.
  returned: success
  type: list
  elements: dict
  sample:
    - id: PL153
      severity: warning
      where: {variable: rag_reranker}
      message: "BAAI/bge-reranker-v2-m3: mixed results over a strong first stage."
      remedy: Measure it on your own questions.
reports:
  description: The written plan files.
  returned: success
  type: list
  elements: str
  sample: [/srv/rag/reports/default/plan.json]
ansible_facts:
  description: The plans.
  returned: success
  type: dict
  contains:
    rag_plans:
      description: One plan an installation, by its name. Holds no secret.
      returned: success
      type: dict
"""
