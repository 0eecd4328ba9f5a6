#!/usr/bin/python
# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: catalog
short_description: Show the models that the catalog knows
description:
  - Prints the models as a table, or one of them in full with variables that deploy it.
  - Runs on the controller and changes nothing.
  - Fails when an entry of the catalog is not valid.
version_added: 0.1.0
author: plumbline.rag contributors (@plumbline)
options:
  model:
    description: Id of the model to print in full; the other filters are then not used.
    type: str
  task:
    description: What the model does.
    type: str
    choices: [embedder, reranker]
  kind:
    description: Which side of an embedder carries a prefix, or how a reranker scores.
    type: str
    choices: [symmetric, asymmetric, query-only, cross-encoder, llm, listwise, cosine]
  dimensions:
    description: Dimension that the vectors have or can be cut to.
    type: int
  commercial:
    description: Whether the licence allows commercial use; models whose licence does not say fit neither value.
    type: bool
  engine:
    description: An engine that has to serve the model.
    type: str
    choices: [bundled, tei, vllm]
  language:
    description: A language that the model is for, as an ISO 639-1 code; multilingual models fit any.
    type: str
  max_memory_gib:
    description:
      - Largest size of the weights in GiB, estimated as parameters times two bytes.
      - Activations and caches of the engine come on top.
    type: float
  catalog_dirs:
    description: Folders with the operator's own entries, as in C(rag_catalog_dirs).
    type: list
    elements: path
    default: []
attributes:
  action:
    description: Runs on the controller.
    support: full
  check_mode:
    description: Reads only, so check mode is the same.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
"""

EXAMPLES = r"""
- name: Show small embedders that may be used commercially
  plumbline.rag.catalog:
    task: embedder
    commercial: true
    max_memory_gib: 2

- name: Show one model in full
  plumbline.rag.catalog:
    model: BAAI/bge-m3
"""

RETURN = r"""
models:
  description: The entries, with the fields of their files.
  returned: success
  type: list
  elements: dict
findings:
  description: What is wrong with entries of the catalog, and which of them replace a shipped one.
  returned: success
  type: list
  elements: dict
"""
