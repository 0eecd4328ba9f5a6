# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read-only inspection of containers by the Docker SDK. Changes go through community.docker, never through here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._http import ServiceError

try:
    import docker
    import docker.errors

    DOCKER_ERROR: Exception | None = None
except ImportError as error:
    DOCKER_ERROR = error


@dataclass(frozen=True)
class Container:
    """What a verification needs to know of a container."""

    name: str
    running: bool
    image: str
    image_id: str
    digests: tuple[str, ...]
    labels: dict[str, str]
    addresses: dict[str, str]
    _environment: tuple[str, ...]
    named_id: str | None = None  # the image that its image's name means now; None when the name is gone

    @property
    def environment(self) -> dict[str, str]:
        """The variables that the process was started with, exactly as written: blanks and quotes included."""
        return dict(entry.split("=", 1) for entry in self._environment if "=" in entry)

    @property
    def environment_bytes(self) -> dict[str, bytes]:
        """The same as bytes, for messages about blanks and quotes."""
        return {name: value.encode("utf-8", "surrogateescape") for name, value in self.environment.items()}


class Docker:
    """The Docker Engine of this host."""

    def __init__(self, client: Any = None) -> None:
        if client is None:
            try:
                client = docker.from_env(timeout=20)
            except docker.errors.DockerException as error:
                raise ServiceError(f"the Docker Engine of this host cannot be used: {error}") from None
        self._client = client

    def container(self, name: str) -> Container | None:
        """The container with this name, or None when this host has none."""
        try:
            found = self._client.containers.get(name)
            image = self._client.api.inspect_image(found.attrs["Image"])
        except docker.errors.NotFound:
            return None
        except docker.errors.DockerException as error:
            raise ServiceError(f"container {name} cannot be inspected: {error}") from None
        attrs = found.attrs
        name_of_image = attrs["Config"].get("Image", "")
        networks = (attrs.get("NetworkSettings") or {}).get("Networks") or {}
        return Container(
            name=name,
            running=bool(attrs["State"].get("Running")),
            image=name_of_image,
            image_id=attrs["Image"],
            digests=tuple(image.get("RepoDigests") or ()),
            labels=dict(attrs["Config"].get("Labels") or {}),
            addresses={network: data["IPAddress"] for network, data in networks.items() if data.get("IPAddress")},
            _environment=tuple(attrs["Config"].get("Env") or ()),
            named_id=self._image_id(name_of_image),
        )

    def _image_id(self, reference: str) -> str | None:
        try:
            return str(self._client.api.inspect_image(reference)["Id"])
        except docker.errors.NotFound:
            return None
        except docker.errors.DockerException as error:
            raise ServiceError(f"image {reference} cannot be inspected: {error}") from None

    def containers(self, names: list[str]) -> dict[str, Container]:
        """Those of the named containers that exist on this host."""
        found = {name: self.container(name) for name in names}
        return {name: container for name, container in found.items() if container is not None}

    def logs(self, name: str, lines: int, since: float, until: float) -> str:
        """The last lines that a container wrote between two times, in seconds since 1970, and not before its start."""
        try:
            found = self._client.containers.get(name)
            begun = max(since, _seconds(found.attrs["State"].get("StartedAt") or ""))
            written: bytes = found.logs(tail=lines, since=math.ceil(begun), until=int(until), stdout=True, stderr=True)
        except docker.errors.DockerException as error:
            raise ServiceError(f"the log of container {name} cannot be read: {error}") from None
        return written.decode("utf-8", "replace")

    def names_on(self, network: str) -> list[str]:
        """The containers that are attached to a network: a hosted engine may be one of them."""
        if not network:
            return []
        try:
            return [found.name for found in self._client.containers.list(filters={"network": network})]
        except docker.errors.DockerException as error:
            raise ServiceError(f"the containers of network {network} cannot be listed: {error}") from None


def _seconds(time: str) -> float:
    """The Engine's time of day, which has nanoseconds; 0 when there is none."""
    try:
        return datetime.fromisoformat(time[:19]).replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return 0.0


def addresses(containers: dict[str, Container], network: str) -> dict[str, str]:
    """Container names with their addresses on a network: the names resolve only inside it."""
    found = {}
    for name, container in containers.items():
        address = container.addresses.get(network) or next(iter(container.addresses.values()), "")
        if address:
            found[name] = address
    return found
