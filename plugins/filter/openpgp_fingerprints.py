# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: openpgp_fingerprints
author: plumbline.rag contributors (@plumbline)
version_added: 0.1.0
short_description: The fingerprints of the keys in an OpenPGP key file
description:
  - Reads the primary keys of a file as C(gpg) would show them, without C(gpg).
options:
  _input:
    description: The content of the file in base64, as M(ansible.builtin.slurp) returns it.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Read a key
  ansible.builtin.slurp:
    src: /etc/apt/keyrings/example.asc
  register: key

- name: Show its fingerprint
  ansible.builtin.debug:
    msg: "{{ key.content | plumbline.rag.openpgp_fingerprints }}"
"""

RETURN = r"""
_value:
  description: Fingerprints in capital letters, without blanks; empty when the file is no key.
  type: list
"""

import base64
from collections.abc import Callable
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _openpgp


def openpgp_fingerprints(content: str) -> list[str]:
    """The filter itself."""
    try:
        return _openpgp.fingerprints(base64.b64decode(content))
    except ValueError:
        return []


class FilterModule:
    """The filter openpgp_fingerprints."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filter by its name."""
        return {"openpgp_fingerprints": openpgp_fingerprints}
