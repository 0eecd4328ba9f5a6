#!/usr/bin/python
# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what a host is and has."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_facts
short_description: Read what the host preflight needs to know about a host
description:
  - Reads operating system, memory, disk space, listening ports, the state of Docker and its containers and images.
  - Needs nothing but Python on the host, and changes nothing.
version_added: 0.1.0
author: plumbline.rag contributors (@plumbline)
options:
  check_index:
    description: Also ask whether the package index that this host is configured for answers.
    type: bool
    default: false
  index_timeout:
    description: Seconds to wait for one answer of the package index.
    type: int
    default: 20
attributes:
  check_mode:
    description: Reads only, so check mode is the same.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
"""

EXAMPLES = r"""
- name: Look at the host
  plumbline.rag.host_facts:
  register: host
"""

RETURN = r"""
host:
  description: Operating system, architecture, memory, disk, listening ports, Docker, containers, images, package index.
  returned: success
  type: dict
  sample:
    os: {id: debian, like: [], version: "12"}
    arch: x86_64
    memory_mb: 24105
    docker: {state: running, reason: "", version: 20.10.24, root: /var/lib/docker}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.plumbline.rag.plugins.module_utils import _host


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "check_index": {"type": "bool", "default": False},
            "index_timeout": {"type": "int", "default": 20},
        },
        supports_check_mode=True,
    )
    module.exit_json(changed=False, host=_host.gather(module.params["check_index"], module.params["index_timeout"]))


if __name__ == "__main__":
    main()
