# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: device_requests
author: plumbline.rag contributors (@plumbline)
version_added: 0.1.0
short_description: What Docker is asked for when a service is given graphics cards
description:
  - Takes the indexes and UUIDs that a service is given and returns C(device_requests) for M(community.docker.docker_container),
    with whole UUIDs, which stay the same when indexes change with a reboot.
options:
  _input:
    description: Indexes or UUIDs, which may be shortened.
    type: list
    required: true
  cards:
    description: The cards of the host, as M(plumbline.rag.gpu_info) returns them.
    type: list
    elements: dict
    required: true
  form:
    description: How Docker hands them out.
    type: str
    choices: [cdi, runtime]
    required: true
"""

EXAMPLES = r"""
- name: Look at the cards
  plumbline.rag.gpu_info:
  register: gpu

- name: Show what Docker is asked for
  ansible.builtin.debug:
    msg: "{{ [0] | plumbline.rag.device_requests(gpu.gpus, gpu.docker.form) }}"
"""

RETURN = r"""
_value:
  description: The list for the option of that name.
  type: list
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.plumbline.rag.plugins.module_utils import _gpu


def device_requests(wanted: list[Any], cards: list[dict[str, Any]], form: str) -> list[dict[str, Any]]:
    """The filter itself."""
    try:
        return _gpu.device_requests(wanted, cards, form)
    except ValueError as error:
        raise AnsibleFilterError(f"{error}; `nvidia-smi -L` lists what is") from error


class FilterModule:
    """The filter device_requests."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filter by its name."""
        return {"device_requests": device_requests}
