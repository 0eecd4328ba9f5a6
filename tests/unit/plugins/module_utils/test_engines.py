# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bodies that a verification sends to an embeddings route."""

from __future__ import annotations

from ansible_collections.plumbline.rag.plugins.module_utils._engines import Embeddings


def test_full_vectors_are_asked_for_as_open_webui_does():
    client = Embeddings(None, "http://e/v1", "m", None)
    assert client.body(["a", "b"]) == {"input": ["a", "b"], "model": "m"}
    assert client.body(["a"], encoding_format=None) == {"input": ["a"], "model": "m", "encoding_format": None}


def test_a_reduced_dimension_is_asked_for():
    client = Embeddings(None, "http://e/v1", "m", None, 256)
    assert client.body(["a"], encoding_format="base64") == {
        "input": ["a"],
        "model": "m",
        "dimensions": 256,
        "encoding_format": "base64",
    }
