# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time that an engine may take grows with the model, and with what its engine does before it answers."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _startup

from .installation import CATALOG, resolve


@pytest.mark.parametrize(
    ("engine", "device", "parameters", "seconds"),
    [
        ("tei", "gpu", 22_700_000, 150),
        ("tei", "gpu", 568_000_000, 180),
        ("tei", "cpu", 568_000_000, 360),
        ("vllm", "gpu", 596_000_000, 360),
        ("vllm", "gpu", 7_570_000_000, 630),
        ("vllm", "gpu", 27_000_000_000, 1380),
        ("vllm", "gpu", None, 900),
        ("tei", "gpu", "many", 900),
        ("bundled", "cpu", 118_000_000, None),
    ],
)
def test_timeout(engine: str, device: str, parameters: Any, seconds: int | None) -> None:
    assert _startup.timeout(CATALOG.engines[engine], device, parameters) == seconds


@pytest.mark.parametrize(
    ("parameters", "size"),
    [(118_000_000, 472_000_000), (7_570_000_000, 15_140_000_000), (0, None), (True, None), (None, None)],
)
def test_size_of_the_files(parameters: Any, size: int | None) -> None:
    assert _startup.file_bytes(parameters) == size


def engine(**variables: Any) -> dict[str, Any]:
    base = {"rag_embedder": "BAAI/bge-m3", "rag_embedder_engine": "vllm", "rag_embedder_gpus": [0]}
    plan, _findings = resolve({**base, **variables}, base={})
    assert plan is not None
    service: dict[str, Any] = plan["hosts"]["h1"]["embedder"]
    return service


def test_the_plan_says_where_the_weights_are() -> None:
    assert engine()["weights"] == {
        "source": "hub",
        "repository": "BAAI/bge-m3",
        "directory": "/var/lib/plumbline/models",
        "mount": "/models",
        "folder": None,
        "endpoint": "https://huggingface.co",
        "bytes": 2_272_000_000,
    }
    brought = engine(rag_weights_source="folder", rag_weights_dir="/srv/models", rag_embedder_engine="tei")["weights"]
    assert (brought["source"], brought["directory"], brought["mount"]) == ("folder", "/srv/models", "/data")
    named = engine(rag_embedder_weights="/models/mine/bge")["weights"]
    assert (named["source"], named["folder"]) == ("folder", "mine/bge")
    assert engine(rag_image_source="build", rag_embedder_gpus=[])["weights"] is None
    assert engine()["timeout"] == 360
