# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""References of images: what they are made of, what they say, and how the operator's get into the plan."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _images

from .installation import QUICKSTART, resolve

DIGEST = "sha256:" + "0123456789abcdef" * 4
REGISTRY = {**QUICKSTART, "rag_image_source": "registry"}


def images(**changes: Any) -> dict[str, dict[str, Any]]:
    plan, _findings = resolve(changes, base=REGISTRY)
    assert plan is not None
    return {image["service"]: image for image in plan["hosts"]["h1"]["images"]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("redis:8", ("redis", "8", None)),
        ("ghcr.io/berriai/litellm:v1.106.12", ("ghcr.io/berriai/litellm", "v1.106.12", None)),
        ("localhost:5000/a/b:1@" + DIGEST, ("localhost:5000/a/b", "1", DIGEST)),
        ("localhost:5000/a/b", None),
        ("a@" + DIGEST, None),
        ("a:1@sha256:12", None),
        ("A:1", None),
        ("a:1 ", None),
        (1, None),
        (None, None),
    ],
)
def test_parse(text: Any, expected: tuple[str, str, str | None] | None) -> None:
    found = _images.parse(text)
    assert (None if found is None else (found.repository, found.tag, found.digest)) == expected


@pytest.mark.parametrize(
    ("name", "tag", "expected"),
    [
        ("tei", "cuda-1.9.3", "1.9.3"),
        ("tei", "1.9", "1.9"),
        ("tei", "120-1.9.3", "1.9.3"),
        ("tei", "cpu-latest", None),
        ("vllm", "v0.33.0", "0.33.0"),
        ("vllm", "latest", None),
        ("litellm", "main-v1.104.0-stable", None),
        ("litellm", "v1.104.0-stable", "1.104.0"),
        ("open_webui", "v0.12.4-slim", "0.12.4"),
        ("open_webui", "main-slim", None),
        ("postgres", "0.8.5-pg18", "18"),
        ("postgres", "18.4", "18.4"),
    ],
)
def test_version(name: str, tag: str, expected: str | None) -> None:
    assert _images.version(name, tag) == expected


def test_the_operators_image_is_what_runs_and_what_verification_expects() -> None:
    plan, _findings = resolve({"rag_images": {"litellm": f"r.example.org/litellm:v1.109.0@{DIGEST}"}}, base=REGISTRY)
    assert plan is not None
    assert plan["hosts"]["h1"]["litellm"]["image"] == "r.example.org/litellm:v1.109.0"
    assert {image["service"]: image for image in plan["hosts"]["h1"]["images"]}["litellm"] == {
        "service": "litellm",
        "ref": "r.example.org/litellm:v1.109.0",
        "recipe": "litellm",
        "version": "1.109.0",
        "digest": DIGEST,
    }
    assert plan["verify"]["proxy"]["version"] == "1.109.0"


def test_a_tag_without_a_version_leaves_the_variables() -> None:
    found = images(rag_images={"litellm": f"r.example.org/litellm:ours@{DIGEST}"}, rag_litellm_version="1.109.0")
    assert found["litellm"]["version"] == "1.109.0"


def test_other_services_keep_their_images() -> None:
    found = images(rag_images={"litellm": "r.example.org/litellm:v1.109.0"})
    assert found["open_webui"]["ref"] == "ghcr.io/open-webui/open-webui:v0.12.4-slim"
    assert "digest" not in found["open_webui"]


def test_the_mirror_is_not_put_in_front_twice() -> None:
    found = images(
        rag_image_registry_prefix="r.example.org/mirror",
        rag_images={
            "litellm": "r.example.org/mirror/ghcr.io/berriai/litellm:v1.106.12",
            "postgres": "quay.io/ours/pgvector:0.8.5-pg18",
        },
    )
    assert found["litellm"]["ref"] == "ghcr.io/berriai/litellm:v1.106.12"
    assert found["postgres"]["ref"] == "quay.io/ours/pgvector:0.8.5-pg18"


def test_the_tag_of_tei_is_the_operators() -> None:
    reference = "ghcr.io/huggingface/text-embeddings-inference:89-1.9.3"
    plan, _findings = resolve(
        {
            "rag_embedder": "BAAI/bge-m3",
            "rag_embedder_engine": "tei",
            "rag_embedder_gpus": [0],
            "rag_images": {"tei": reference},
        },
        base=REGISTRY,
    )
    assert plan is not None
    assert (plan["hosts"]["h1"]["embedder"]["image"], plan["hosts"]["h1"]["embedder"]["version"]) == (
        reference,
        "1.9.3",
    )


def test_the_engine_that_is_in_no_registry_may_be_in_the_operators() -> None:
    found = images(rag_images={"bundled": "r.example.org/bundled-engine:0.1.0"})
    assert (found["embedder"]["ref"], found["embedder"]["version"]) == ("r.example.org/bundled-engine:0.1.0", "0.1.0")


def test_recipes_do_not_ask_for_images() -> None:
    plan, _findings = resolve({"rag_images": {"litellm": "r.example.org/litellm:v1.109.0"}})
    assert plan is not None
    assert plan["hosts"]["h1"]["litellm"]["image"] == "ghcr.io/berriai/litellm:v1.106.12"
