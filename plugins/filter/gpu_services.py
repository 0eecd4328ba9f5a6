# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: gpu_services
author: plumbline.rag contributors (@plumbline)
version_added: 0.1.0
short_description: The services of a host that compute on graphics cards
description:
  - Takes a host's slice of the plan and returns the services in it that are given cards and compute on them.
options:
  _input:
    description: The host's slice of the plan.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Say which services need cards
  ansible.builtin.debug:
    msg: "{{ rag_plan.hosts[inventory_hostname] | plumbline.rag.gpu_services | list }}"
"""

RETURN = r"""
_value:
  description: The services by name; empty when there is none.
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _gpu


class FilterModule:
    """The filter gpu_services."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filter by its name."""
        return {"gpu_services": _gpu.users}
