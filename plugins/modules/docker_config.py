#!/usr/bin/python
# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Set or take away settings of the Docker daemon."""

from __future__ import annotations

DOCUMENTATION = r"""
module: docker_config
short_description: Set or take away settings of the Docker daemon
description:
  - Merges settings into C(daemon.json) and leaves the others as they are; does not restart Docker.
  - Records what it added, and takes away only that.
version_added: 0.1.0
author: plumbline.rag contributors (@plumbline)
options:
  settings:
    description: Settings that the file has to have; objects are merged. Not needed to take them away.
    type: dict
    default: {}
  state:
    description: Whether the settings are set, or what an earlier run added is taken away.
    type: str
    choices: [present, absent]
    default: present
  path:
    description: The configuration of the daemon.
    type: path
    default: /etc/docker/daemon.json
  record:
    description: Where the settings that were added are recorded.
    type: path
    required: true
attributes:
  check_mode:
    description: Says what it would change.
    support: full
  diff_mode:
    description: Shows the file before and after.
    support: full
"""

EXAMPLES = r"""
- name: Let Docker use CDI
  plumbline.rag.docker_config:
    settings: {features: {cdi: true}}
    record: /var/lib/plumbline/nvidia.json
"""

RETURN = r"""
added:
  description: The settings that were added by this collection and are still there.
  returned: success
  type: dict
  sample: {features: {cdi: true}}
"""

import os
import tempfile
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.plumbline.rag.plugins.module_utils import _daemon_config


def read(module: AnsibleModule, path: str) -> dict[str, Any]:
    """The content of a file of settings; empty when it is not there."""
    try:
        with open(path, encoding="utf-8") as file:
            return _daemon_config.read(file.read())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        return module.fail_json(msg=f"{path} cannot be read: {error}. Correct it, then run again.")


def write(module: AnsibleModule, path: str, content: dict[str, Any], mode: int) -> None:
    """Write the file in one step, or remove it when nothing is left in it."""
    if not content:
        if os.path.exists(path):
            os.unlink(path)
        return
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=module.tmpdir)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(_daemon_config.write(content))
    if not os.path.exists(path):
        os.chmod(draft, mode)
    module.atomic_move(draft, path)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "settings": {"type": "dict", "default": {}},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "path": {"type": "path", "default": "/etc/docker/daemon.json"},
            "record": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    path, record, settings = module.params["path"], module.params["record"], module.params["settings"]
    before, ours = read(module, path), read(module, record)
    if module.params["state"] == "present":
        after = _daemon_config.merged(before, settings)
        recorded = _daemon_config.merged(ours, _daemon_config.added(before, settings))
    else:
        after, recorded = _daemon_config.without(before, ours), {}
    changed = after != before
    if not module.check_mode:
        if recorded != ours:
            write(module, record, recorded, 0o644)
        if changed:
            write(module, path, after, 0o644)
    diff = {"before": _daemon_config.write(before), "after": _daemon_config.write(after), "before_header": path}
    module.exit_json(changed=changed, added=recorded, diff={**diff, "after_header": path})


if __name__ == "__main__":
    main()
