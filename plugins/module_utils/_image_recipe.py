# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes into an image, as data: its key, its configuration, the manifest of its archive. Pure."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

LABEL = "org.plumbline.recipe"
SITE = "/opt/app"
EPOCH = 1700000000

# Part of every key: raise it when a change of the builder must make new images of unchanged recipes.
_FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Base:
    """The layer of operating system and Python that all images share."""

    suite: str
    python: str
    packages: tuple[str, ...] = ()
    users: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, data: dict[str, Any]) -> Base:
        return cls(
            data["suite"],
            data["python"],
            tuple(data.get("packages") or ()),
            tuple(sorted((data.get("users") or {}).items())),
        )

    @property
    def key(self) -> str:
        return _digest({"format": _FORMAT, "base": dataclasses.asdict(self)})


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The application layer of one image and how its container starts."""

    ref: str
    service: str
    lock: str
    prune: list[str] = dataclasses.field(default_factory=list)
    links: dict[str, str] = dataclasses.field(default_factory=dict)
    directories: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    files: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    env: dict[str, str] = dataclasses.field(default_factory=dict)
    entrypoint: list[str] = dataclasses.field(default_factory=list)
    cmd: list[str] = dataclasses.field(default_factory=list)
    user: str = ""
    workdir: str = "/"
    ports: list[int] = dataclasses.field(default_factory=list)
    volumes: list[str] = dataclasses.field(default_factory=list)
    stop_signal: str = ""

    @classmethod
    def of(cls, data: dict[str, Any]) -> Recipe:
        """Take the fields that make the image; a catalog entry has more, and an option that was not given is None."""
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: _given(value) for name, value in data.items() if name in known and value is not None})


def recipe_key(base: Base, recipe: Recipe) -> str:
    """Equal inputs have equal keys, and whatever changes the image changes the key; its service does not."""
    content = {name: value for name, value in dataclasses.asdict(recipe).items() if name != "service"}
    return _digest({"format": _FORMAT, "base": dataclasses.asdict(base), "recipe": content})


def archive_name(recipe: Recipe, key: str) -> str:
    return f"{recipe.service}-{key[:16]}.tar"


def image_config(recipe: Recipe, key: str, architecture: str, layers: list[str]) -> dict[str, Any]:
    """The image's configuration; `layers` are the SHA-256 of the uncompressed layers, lowest first."""
    env = {"PATH": f"{SITE}/bin:/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONPATH": SITE, **recipe.env}
    config: dict[str, Any] = {
        "Env": [f"{name}={value}" for name, value in env.items()],
        "Entrypoint": recipe.entrypoint or None,
        "Cmd": recipe.cmd or None,
        "WorkingDir": recipe.workdir,
        "User": recipe.user,
        "ExposedPorts": {f"{port}/tcp": {} for port in recipe.ports},
        "Volumes": {path: {} for path in recipe.volumes} or None,
        "Labels": {LABEL: key},
    }
    if recipe.stop_signal:
        config["StopSignal"] = recipe.stop_signal
    return {
        "architecture": architecture,
        "os": "linux",
        "created": "2023-11-14T22:13:20Z",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer}" for layer in layers]},
        "history": [{"created_by": "plumbline.rag base"}, {"created_by": f"plumbline.rag {recipe.ref}"}],
    }


def manifest(recipe: Recipe, image_id: str, layers: list[str]) -> list[dict[str, Any]]:
    """`manifest.json` of an archive in the format of `docker save`."""
    return [{"Config": f"{image_id}.json", "RepoTags": [recipe.ref], "Layers": layers}]


def encode(document: object) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _given(value: Any) -> Any:
    """An option that was not given and one that is absent are the same."""
    if isinstance(value, dict):
        return {name: _given(inner) for name, inner in value.items() if inner is not None}
    return [_given(inner) for inner in value] if isinstance(value, list) else value


def _digest(document: object) -> str:
    return hashlib.sha256(encode(document)).hexdigest()
