# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""References of images: the operator's, or those of the versions that are deployed, and what a reference says. Pure."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _tei
from ansible_collections.plumbline.rag.plugins.module_utils._catalog import Catalog
from ansible_collections.plumbline.rag.plugins.module_utils._spec import Spec

# What a key of rag_images stands for.
NAMES = ("tei", "vllm", "bundled", "litellm", "open_webui", "postgres")
_REFERENCE = re.compile(
    r"(?P<repository>(?:[a-z0-9.-]+(?::[0-9]+)?/)?[a-z0-9._-]+(?:/[a-z0-9._-]+)*)"
    r":(?P<tag>\w[\w.-]{0,127})(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_NUMBERS = re.compile(r"v?(\d+(?:\.\d+)*)")


@dataclasses.dataclass(frozen=True)
class Reference:
    """A full reference: repository, tag, and the digest where there is one."""

    repository: str
    tag: str
    digest: str | None


def parse(text: Any) -> Reference | None:
    """``repository:tag`` or ``repository:tag@sha256:digest``; None for anything else."""
    match = _REFERENCE.fullmatch(text) if isinstance(text, str) else None
    return Reference(match["repository"], match["tag"], match["digest"]) if match else None


def version(name: str, tag: str) -> str | None:
    """The version in a tag; None for a tag that has none, such as latest."""
    if name == "postgres":  # pgvector's images have the extension's version first
        tag = tag.rpartition("pg")[2]
    elif name == "tei":
        tag = tag[len(_tei.prefix_of(f":{tag}")) :]
    match = _NUMBERS.match(tag)
    return match[1] if match else None


def own(spec: Spec, host: str, name: str) -> Reference | None:
    """The operator's reference for a service on a host, without the mirror's name in front."""
    reference = parse(spec.host_values[host]["rag_images"].get(name))
    prefix = f"{spec['rag_image_registry_prefix']}/"
    if reference is None or prefix == "/" or not reference.repository.startswith(prefix):
        return reference
    return dataclasses.replace(reference, repository=reference.repository[len(prefix) :])


def first_own(spec: Spec, name: str) -> Reference | None:
    """The operator's reference of the first host that has one."""
    return next((found for host in spec.host_values if (found := own(spec, host, name)) is not None), None)


def chosen_version(spec: Spec, catalog: Catalog, name: str) -> str:
    """The version of a component: that of the operator's image, else the operator's, else the default."""
    reference = first_own(spec, name) if spec["rag_image_source"] != "build" else None
    told = version(name, reference.tag) if reference is not None else None
    variable = f"rag_{name}_version"
    given = spec[variable] if variable in spec.values else None
    return str(told or given or catalog.versions[name]["default"])


def pulled(spec: Spec, catalog: Catalog, name: str, host: str, cards: list[Any]) -> dict[str, Any]:
    """Reference and version of an image that comes from a registry or a bundle, with its digest where one is given."""
    reference = own(spec, host, name)
    if reference is not None:
        told = version(name, reference.tag) or chosen_version(spec, catalog, name)
        image: dict[str, Any] = {"ref": f"{reference.repository}:{reference.tag}", "version": told}
        return image if reference.digest is None else {**image, "digest": reference.digest}
    known: Mapping[str, Any] = catalog.versions[name]
    release = chosen_version(spec, catalog, name)
    suffix = known["image"].get("suffix", {}).get(spec["rag_open_webui_variant"], "")
    tag = known["image"]["tag"].format(version=release, suffix=suffix)
    if name == "tei":
        # The plan knows no host: preflight compares the image with the cards that are there.
        tag = _tei.tag(tag, None if cards else [])
    return {"ref": f"{known['image']['repository']}:{tag}", "version": release}
