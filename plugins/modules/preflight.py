#!/usr/bin/python
# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight
short_description: Judge a host before anything is changed on it
description:
  - Reads the host with M(plumbline.rag.host_facts) and evaluates the host rules (PL2xx) against its slice of the plan.
  - Reads the cards with M(plumbline.rag.gpu_info) when a service of the host is given some, or could be.
  - Judges weights that were brought along with M(plumbline.rag.model_weights).
  - Prints the findings, and fails when an error among them is not acknowledged.
version_added: 0.1.0
author: plumbline.rag contributors (@plumbline)
options:
  plan:
    description: The plan of the installation.
    type: dict
    required: true
  accept:
    description: Acknowledged findings, id to reason, as in C(rag_accept).
    type: dict
    default: {}
  driver_install:
    description: Whether the role nvidia may install the driver where there is none.
    type: bool
    default: false
  toolkit_install:
    description: Whether the role nvidia may install the container toolkit where there is none.
    type: bool
    default: true
attributes:
  action:
    description: The rules run on the controller, the facts come from the host.
    support: full
  check_mode:
    description: Reads only, so check mode is the same.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
"""

EXAMPLES = r"""
- name: Judge the host
  plumbline.rag.preflight:
    plan: "{{ rag_plan }}"
    accept: "{{ rag_accept | default({}) }}"
"""

RETURN = r"""
findings:
  description: What speaks against a deployment on this host.
  returned: always
  type: list
  elements: dict
"""
