# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: secrets
author: plumbline.rag contributors (@plumbline)
version_added: 0.1.0
short_description: Generate an installation's secrets once, keep them, and hand them to its hosts
description:
  - Takes the secrets that the operator set as variables, and generates the others once into a file on the controller,
    readable by its owner only. The file may be encrypted with ansible-vault.
  - Runs on the controller. Use C(no_log).
attributes:
  check_mode:
    description: In check mode missing secrets are made up and not kept.
    support: full
  diff_mode:
    description: Secrets are never shown.
    support: none
"""

EXAMPLES = r"""
- name: Get the secrets of this host's installation
  plumbline.rag.secrets:
  register: kept
  no_log: true
"""

RETURN = r"""
file:
  description: Where generated secrets are kept.
  returned: always
  type: str
  sample: /srv/rag/inventories/quickstart/.secrets/default.yml
created:
  description: Names of the secrets that were generated in this run.
  returned: always
  type: list
  elements: str
  sample: [postgres_password]
secrets:
  description: Secret values by name. Register the result; it is no fact, so that no fact cache keeps it.
  returned: always
  type: dict
"""
