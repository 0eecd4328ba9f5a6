# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about a host, judged before anything is changed on it. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, WARNING, Finding, register

PORT_IN_USE = register(
    "PL201",
    ERROR,
    "A port that a service shall publish is in use",
    "The container could not be started, after the old one had been removed.",
    "Stop what listens there, or publish another port.",
    example="rag_open_webui_port: 3001",
    acknowledgeable=False,
)
NO_DISK_SPACE = register(
    "PL202",
    ERROR,
    "There is not enough disk space for the images",
    "A full disk stops every container of the host in the middle of a write, PostgreSQL first.",
    "Free space or enlarge the file system; images of old versions are removed with `docker image prune`.",
)
INDEX_UNREACHABLE = register(
    "PL203",
    ERROR,
    "The package index does not answer",
    "Images are built on the host from packages, and the tools on the host come from there as well.",
    "Make the index reachable or configure pip for a mirror (/etc/pip.conf), then run again.",
    acknowledgeable=False,
)
DOCKER_BROKEN = register(
    "PL204",
    ERROR,
    "Docker is installed but does not work",
    "It may carry other people's containers, so that nothing here repairs, replaces or restarts it.",
    "Repair it until `docker info` works as root, then run again.",
    acknowledgeable=False,
)
UNSUPPORTED_PLATFORM = register(
    "PL205",
    ERROR,
    "The host's operating system or architecture is not supported",
    "Images are built for the host's processor from binary packages, and Docker is installed by distribution.",
    "Use Debian 12 or 13, Ubuntu 22.04 or 24.04 or the RHEL 9 family; building images needs x86_64.",
)
MEMORY_SHORT = register(
    "PL206",
    WARNING,
    "The host has less memory than the limits of its containers add up to",
    "Under load the kernel ends one of them, and the answers just get worse or stop.",
    "Use a host with more memory, or place services on several hosts.",
)
NAME_TAKEN = register(
    "PL207",
    ERROR,
    "A container that is not ours has the name of one of ours",
    "It would be replaced, and whatever it served would be gone.",
    "Rename or remove that container, or use another rag_installation.",
    acknowledgeable=False,
)

SERVICES = ("postgres", "embedder", "reranker", "litellm", "open_webui")
_FAMILIES = {
    "debian": "debian",
    "ubuntu": "ubuntu",
    "rhel": "rhel",
    "rocky": "rhel",
    "almalinux": "rhel",
    "centos": "rhel",
}
_VERSIONS = {"debian": ("12", "13"), "ubuntu": ("22.04", "24.04"), "rhel": ("9",)}
_BUILD_ARCHITECTURES = ("x86_64",)
# Disk space in MiB that one image takes, by where it comes from; measured, rounded up. Building holds packages and layers.
_IMAGE_MB = {"build": 2048, "registry": 3072, "archive": 6144}
_LARGE_IMAGE_MB = {"build": 8192, "registry": 24576, "archive": 49152}
_LARGE_RECIPES = ("vllm", "open_webui_full", "open_webui_cuda")
_RESERVE_MB = 1024
_UNITS_MB = {"b": 1 / 2**20, "k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0 * 1024.0}


def host_findings(plan: Mapping[str, Any], host: str, facts: Mapping[str, Any]) -> Iterator[Finding]:
    """What speaks against deploying the slice of ``plan`` for ``host`` on a host with these ``facts``."""
    for rule in (_docker, _platform, _ports, _names, _disk, _memory, _index):
        yield from rule(plan, host, facts)


def needs_index(plan: Mapping[str, Any], host: str, facts: Mapping[str, Any]) -> bool:
    """Whether this run will fetch packages on the host: for the tools there, or to build an image."""
    building = plan["image_source"] == "build" and bool(_missing_images(plan, host, facts))
    return building or not facts["tools"]


def memory_mb(limit: str) -> float:
    """A Docker memory limit such as ``1g`` or ``512m`` in MiB."""
    text = limit.strip().lower().rstrip("i")
    number = text.rstrip("bkmgti")
    unit = text[len(number) :].rstrip("b").rstrip("i") or "b"
    return float(number) * _UNITS_MB[unit]


def _services(plan: Mapping[str, Any], host: str) -> dict[str, Mapping[str, Any]]:
    mine = plan["hosts"][host]
    return {service: mine[service] for service in SERVICES if service in mine}


def _missing_images(plan: Mapping[str, Any], host: str, facts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    present = set(facts["images"])
    wanted = {image["ref"]: image for image in plan["hosts"][host].get("images", [])}
    return [image for ref, image in wanted.items() if not present & {ref, _short(ref)}]


def _short(ref: str) -> str:
    """The engine lists images of Docker's own registry without its name."""
    short = ref[len("docker.io/") :] if ref.startswith("docker.io/") else ref
    return short[len("library/") :] if short.startswith("library/") else short


def _docker(plan: Mapping[str, Any], host: str, facts: Mapping[str, Any]) -> Iterator[Finding]:
    docker = facts["docker"]
    if docker["state"] == "broken":
        yield DOCKER_BROKEN.finding(f"Docker on {host} is installed but does not work: {docker['reason']}.", host=host)


def _platform(plan: Mapping[str, Any], host: str, facts: Mapping[str, Any]) -> Iterator[Finding]:
    building = plan["image_source"] == "build"
    if building and facts["arch"] not in _BUILD_ARCHITECTURES:
        message = f"rag_image_source is build, which needs {_BUILD_ARCHITECTURES[0]}; {host} is {facts['arch']}."
        yield UNSUPPORTED_PLATFORM.finding(
            message, "Use rag_image_source: registry there.", host=host, variable="rag_image_source"
        )
    system = facts["os"]
    name = f"{system['id']} {system['version']}".strip() or "an unknown system"
    family = _FAMILIES.get(system["id"], "")
    supported = any(system["version"] == v or system["version"].startswith(f"{v}.") for v in _VERSIONS.get(family, ()))
    if supported:
        return
    if facts["docker"]["state"] == "absent":
        yield UNSUPPORTED_PLATFORM.finding(
            f"{host} runs {name}, on which Docker cannot be installed from here.", host=host
        )
    elif building:
        message = f"rag_image_source is build, which is not supported on {name} ({host})."
        yield UNSUPPORTED_PLATFORM.finding(message, host=host, variable="rag_image_source")


def _ports(plan: Mapping[str, Any], host: str, facts: Mapping[str, Any]) -> Iterator[Finding]:
    for name, service in _services(plan, host).items():
        publish = service.get("publish")
        if not publish:
            continue
        holder = _holder(publish, service["container"], facts)
        if holder:
            message = f"{publish['address']}:{publish['port']} on {host}, where {name} shall be published, is in use by {holder}."
            variable = {"variable": "rag_open_webui_port"} if name == "open_webui" else {}
            yield PORT_IN_USE.finding(message, host=host, hop=name, **variable)


def _holder(publish: Mapping[str, Any], container: str, facts: Mapping[str, Any]) -> str | None:
    """Who holds the address and port, unless it is the service's own container."""
    for other in facts["containers"]:
        if any(_overlap(publish, published) for published in other["published"]):
            return None if other["name"] == container else f"the container {other['name']}"
    return "another program" if any(_overlap(publish, entry) for entry in facts["listening"]) else None


def _overlap(one: Mapping[str, Any], two: Mapping[str, Any]) -> bool:
    if int(one["port"]) != int(two["port"]):
        return False
    a, b = _address(one["address"]), _address(two["address"])
    return a == b or a.is_unspecified or b.is_unspecified


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    address = ipaddress.ip_address(text or "0.0.0.0")
    return getattr(address, "ipv4_mapped", None) or address


def _names(plan: Mapping[str, Any], host: str, facts: Mapping[str, Any]) -> Iterator[Finding]:
    owners = {container["name"]: container["installation"] for container in facts["containers"]}
    for name, service in _services(plan, host).items():
        owner = owners.get(service["container"])
        if owner is not None and owner != plan["installation"]:
            whose = f"of the installation {owner}" if owner else "that this collection did not make"
            yield NAME_TAKEN.finding(f"{host} has a container {service['container']} {whose}.", host=host, hop=name)


def _disk(plan: Mapping[str, Any], host: str, facts: Mapping[str, Any]) -> Iterator[Finding]:
    source = plan["image_source"]
    missing = _missing_images(plan, host, facts)
    sizes = [_LARGE_IMAGE_MB if image["recipe"].startswith(_LARGE_RECIPES) else _IMAGE_MB for image in missing]
    needs = {"docker": _RESERVE_MB + sum(size[source] for size in sizes), "root": _RESERVE_MB}
    for place, need in needs.items():
        disk = facts["disk"][place]
        if disk["free_mb"] < need:
            message = (
                f"{disk['path']} on {host} has {disk['free_mb'] / 1024:.1f} GiB free; "
                f"{len(missing)} images by {source} need {need / 1024:.1f} GiB."
            )
            yield NO_DISK_SPACE.finding(message, host=host, variable="rag_image_source")


def _memory(plan: Mapping[str, Any], host: str, facts: Mapping[str, Any]) -> Iterator[Finding]:
    limits = sum(memory_mb(service["memory"]) for service in _services(plan, host).values() if service.get("memory"))
    if limits > facts["memory_mb"]:
        message = f"{host} has {facts['memory_mb'] / 1024:.1f} GiB of memory; its containers may use {limits / 1024:.1f} GiB together."
        yield MEMORY_SHORT.finding(message, host=host)


def _index(plan: Mapping[str, Any], host: str, facts: Mapping[str, Any]) -> Iterator[Finding]:
    index = facts["package_index"]
    if index["answers"] is False:
        message = f"The package index that {host} is configured for does not answer: {index['reason']}"
        yield INDEX_UNREACHABLE.finding(message, host=host, variable="rag_image_source")
