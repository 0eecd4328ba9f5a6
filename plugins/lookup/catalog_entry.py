# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: catalog_entry
author: plumbline.rag contributors (@plumbline)
version_added: 0.1.0
short_description: The catalog's entry of a model
description:
  - Returns what the catalog knows of an embedding or reranking model, such as its dimension, limits and exact prefixes.
  - The fields are those of C(catalog/schema/embedder.json) and C(catalog/schema/reranker.json).
options:
  _terms:
    description: Ids of models, such as V(BAAI/bge-m3).
    type: list
    elements: str
    required: true
  catalog_dirs:
    description: Folders with the operator's own entries.
    type: list
    elements: path
    default: []
    vars:
      - name: rag_catalog_dirs
"""

EXAMPLES = r"""
- name: Show the dimension of the embedder
  ansible.builtin.debug:
    msg: "{{ lookup('plumbline.rag.catalog_entry', rag_embedder).dimensions }}"
"""

RETURN = r"""
_raw:
  description: One dictionary a model, with the fields of its file.
  type: list
  elements: dict
"""

from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

from ansible_collections.plumbline.rag.plugins.module_utils import _spec
from ansible_collections.plumbline.rag.plugins.plugin_utils import _controller


class LookupModule(LookupBase):
    def run(self, terms: list[Any], variables: Any = None, **kwargs: Any) -> list[dict[str, Any]]:
        self.set_options(var_options=variables, direct=kwargs)
        catalog, findings = _controller.load_catalog(self.get_option("catalog_dirs"))
        errors = [finding.message for finding in findings if finding.open_error]
        if errors:
            raise AnsibleLookupError(" ".join(errors))
        models = {**catalog.embedders, **catalog.rerankers}
        result = []
        for term in self._flatten(terms):
            if term not in models:
                close = _spec.nearest(str(term), models)
                raise AnsibleLookupError(
                    f"the catalog has no model {term}" + (f"; did you mean {close}?" if close else "")
                )
            result.append(dict(models[term].raw))
        return result
