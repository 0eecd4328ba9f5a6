# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on the operator's own images: a reference is checked, and never replaced. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.plumbline.rag.plugins.module_utils import _images, _tei, _versions
from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, WARNING, Finding, register
from ansible_collections.plumbline.rag.plugins.module_utils._rules._subject import Subject
from ansible_collections.plumbline.rag.plugins.module_utils._spec import nearest, shown

VARIABLE = "rag_images"
REFERENCE = register(
    "PL607",
    ERROR,
    "An image of rag_images is not a full reference",
    "Without a tag Docker takes latest, and a name that nothing reads leaves the collection's own image in place.",
    "Write repository:tag or repository:tag@sha256:digest, under tei, vllm, bundled, litellm, open_webui or postgres.",
    example="rag_images:\n  litellm: ghcr.io/berriai/litellm    # ghcr.io/berriai/litellm:v1.106.12",
    source="BerriAI/litellm#24518",
    acknowledgeable=False,
)
MOVES = register(
    "PL608",
    WARNING,
    "The tag of an image moves",
    "The next pull brings other software under the same name, on one host and not on another, and nobody knows which version's "
    "faults to look for.",
    "Write the tag of a release to its last part, or add @sha256: and the digest.",
    example="rag_images:\n  open_webui: ghcr.io/open-webui/open-webui:main-slim",
    source="open-webui/docs#1388",
)
DIFFERS = register(
    "PL609",
    ERROR,
    "An image is not what the inventory says beside it",
    "The version and the variant decide settings, flags and what verification expects; they would be those of the variable, and "
    "what runs is the image's.",
    "Set the variable and the image to the same version and variant, or remove the variable.",
    example='rag_open_webui_version: "0.12.4"\nrag_images:\n  open_webui: ghcr.io/open-webui/open-webui:v0.12.3-slim',
)
DEVICE = register(
    "PL610",
    ERROR,
    "An image of TEI is for another device than the service is given",
    "The image for the processor leaves the cards idle. An image for cards falls back to the processor with a warning in its log, "
    "fifty times slower.",
    "Use a tag of the right kind: cpu- for hosts without cards, cuda- or the one of the card's capability for the others.",
    example="rag_embedder_gpus: [0]\nrag_images:\n  tei: ghcr.io/huggingface/text-embeddings-inference:cpu-1.9.3",
    source="huggingface/text-embeddings-inference#15, huggingface/text-embeddings-inference#806",
)


def references(subject: Subject) -> Iterator[Finding]:
    for host, images in subject.per_host(VARIABLE):
        for name, text in images.items():
            if name not in _images.NAMES:
                close = nearest(name, _images.NAMES)
                hint = f"Did you mean {close}?" if close else None
                yield REFERENCE.finding(
                    f"{VARIABLE} has {name}, which is no image here.", hint, variable=VARIABLE, host=host
                )
            elif _images.parse(text) is None:
                message = f"{VARIABLE}.{name} is {shown(text)}, which is not repository:tag."
                yield REFERENCE.finding(message, variable=VARIABLE, host=host)


def moves(subject: Subject) -> Iterator[Finding]:
    for host, images in subject.per_host(VARIABLE):
        for name, text in images.items():
            reference = _images.parse(text)
            if reference is None or reference.digest is not None or name not in _images.NAMES:
                continue
            told = _images.version(name, reference.tag)
            least = subject.catalog.versions[name].get("exact_parts", 1)
            if told is None or len(_versions.parse(told)) < least:
                message = f"{VARIABLE}.{name} has the tag {reference.tag}, which moves."
                yield MOVES.finding(message, variable=VARIABLE, host=host)


def differs(subject: Subject) -> Iterator[Finding]:
    spec = subject.spec
    for host, images in subject.per_host(VARIABLE):
        for name, text in images.items():
            reference = _images.parse(text)
            told = _images.version(name, reference.tag) if reference is not None else None
            given = spec.values.get(f"rag_{name}_version")
            if told is not None and given is not None and told != given.lstrip("v"):
                message = f"{VARIABLE}.{name} is version {told} and rag_{name}_version is {given}."
                yield DIFFERS.finding(message, variable=VARIABLE, host=host)
            variant = _variant(reference.tag) if name == "open_webui" and reference is not None else None
            if variant is not None and variant != spec["rag_open_webui_variant"]:
                message = f"{VARIABLE}.open_webui is the variant {variant} and rag_open_webui_variant is {spec['rag_open_webui_variant']}."
                yield DIFFERS.finding(message, variable=VARIABLE, host=host)


def _variant(tag: str) -> str | None:
    """The variant of Open WebUI that a tag is; None for a tag of one's own, which tells nothing."""
    if _images.version("open_webui", tag) is None and not tag.startswith(("main", "latest", "slim", "cuda")):
        return None
    return "slim" if "slim" in tag else "cuda" if "cuda" in tag else "full"


def device(subject: Subject) -> Iterator[Finding]:
    for service in subject.services():
        if service.name != "tei" or subject.plan is None or subject.spec["rag_image_source"] == "build":
            continue
        for host, services in subject.plan["hosts"].items():
            planned = services.get(service.kind)
            reference = _images.own(subject.spec, host, "tei")
            if planned is None or reference is None or _images.version("tei", reference.tag) is None:
                continue
            for_processor = _tei.prefix_of(f":{reference.tag}").startswith("cpu")
            if for_processor != (not planned["gpus"]):
                given = f"cards {', '.join(map(str, planned['gpus']))}" if planned["gpus"] else "no card"
                message = (
                    f"{VARIABLE}.tei has the tag {reference.tag}, and the {service.kind} of {host} is given {given}."
                )
                yield DEVICE.finding(message, variable=VARIABLE, host=host)


RULES = (references, moves, differs, device)
