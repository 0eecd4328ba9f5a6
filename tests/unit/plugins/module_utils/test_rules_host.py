# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each host rule, once firing and once quiet."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils._rules import host as rules

PLAN: dict[str, Any] = {
    "installation": "default",
    "image_source": "build",
    "hosts": {
        "box": {
            "images": [
                {
                    "service": "postgres",
                    "ref": "docker.io/pgvector/pgvector:1",
                    "recipe": "postgres",
                    "version": "18.4",
                },
                {
                    "service": "open_webui",
                    "ref": "ghcr.io/open-webui/open-webui:1",
                    "recipe": "open_webui_slim",
                    "version": "0.12.4",
                },
            ],
            "postgres": {"container": "rag-postgres", "publish": None, "memory": "1g"},
            "open_webui": {
                "container": "rag-open-webui",
                "publish": {"address": "127.0.0.1", "port": 3000},
                "memory": "2g",
            },
        }
    },
}
FACTS: dict[str, Any] = {
    "os": {"id": "debian", "like": [], "version": "12"},
    "arch": "x86_64",
    "memory_mb": 8000,
    "disk": {"docker": {"path": "/var/lib/docker", "free_mb": 50000}, "root": {"path": "/", "free_mb": 50000}},
    "listening": [{"address": "0.0.0.0", "port": 22}],
    "docker": {"state": "absent", "reason": "dockerd is not installed", "version": "", "root": "/var/lib/docker"},
    "containers": [],
    "images": [],
    "tools": [],
    "package_index": {"asked": True, "answers": True, "reason": ""},
}
Change = Callable[[dict[str, Any], dict[str, Any]], Any]


def found(change: Change) -> list[Any]:
    plan, facts = copy.deepcopy(PLAN), copy.deepcopy(FACTS)
    change(plan, facts)
    return list(rules.host_findings(plan, "box", facts))


def listen(address: str, port: int) -> Change:
    return lambda plan, facts: facts["listening"].append({"address": address, "port": port})


def container(name: str, installation: str, *published: tuple[str, int]) -> Change:
    ports = [{"address": address, "port": port} for address, port in published]
    entry = {"name": name, "installation": installation, "published": ports}
    return lambda plan, facts: facts["containers"].append(entry)


def fact(path: str, value: Any) -> Change:
    *parents, last = path.split(".")

    def change(plan: dict[str, Any], facts: dict[str, Any]) -> None:
        for parent in parents:
            facts = facts[parent]
        facts[last] = value

    return change


def source(name: str, *others: Change) -> Change:
    def change(plan: dict[str, Any], facts: dict[str, Any]) -> None:
        plan["image_source"] = name
        for other in others:
            other(plan, facts)

    return change


def both(*changes: Change) -> Change:
    def change(plan: dict[str, Any], facts: dict[str, Any]) -> None:
        for one in changes:
            one(plan, facts)

    return change


OLD_ALMA = fact("os", {"id": "almalinux", "like": ["rhel"], "version": "8.10"})

FIRES = {
    "same address": ("PL201", listen("127.0.0.1", 3000), "another program"),
    "all addresses": ("PL201", listen("0.0.0.0", 3000), "another program"),
    "all addresses, IPv6": ("PL201", listen("::", 3000), "another program"),
    "IPv4 in IPv6": ("PL201", listen("::ffff:127.0.0.1", 3000), "another program"),
    "other container": (
        "PL201",
        both(listen("127.0.0.1", 3000), container("web", "", ("0.0.0.0", 3000))),
        "the container web",
    ),
    "docker disk": ("PL202", fact("disk.docker.free_mb", 5000), "2 images by build need 5.0 GiB"),
    "registry is larger": ("PL202", source("registry", fact("disk.docker.free_mb", 7000)), "by registry need 7.0 GiB"),
    "root disk": ("PL202", fact("disk.root.free_mb", 500), "/ on box has 0.5 GiB free"),
    "index": ("PL203", fact("package_index", {"asked": True, "answers": False, "reason": "no route"}), "no route"),
    "broken docker": ("PL204", fact("docker", {"state": "broken", "reason": "it fails"}), "it fails"),
    "arch": ("PL205", fact("arch", "aarch64"), "aarch64"),
    "no docker to install": ("PL205", source("registry", OLD_ALMA), "almalinux 8.10"),
    "building elsewhere": ("PL205", both(OLD_ALMA, fact("docker.state", "running")), "almalinux 8.10"),
    "unknown system": ("PL205", fact("os", {"id": "", "like": [], "version": ""}), "an unknown system"),
    "memory": ("PL206", fact("memory_mb", 2000), "3.0 GiB together"),
    "foreign container": ("PL207", container("rag-postgres", ""), "did not make"),
    "other installation": ("PL207", container("rag-postgres", "blue"), "of the installation blue"),
}
QUIET = {
    "virgin host": lambda plan, facts: None,
    "stopped docker is started": fact("docker", {"state": "stopped", "reason": "it does not run"}),
    "other port": listen("127.0.0.1", 3001),
    "other address": listen("10.0.0.1", 3000),
    "our own container": both(
        listen("127.0.0.1", 3000),
        container("rag-open-webui", "default", ("127.0.0.1", 3000)),
        container("rag-postgres", "default"),
    ),
    "images are there": both(
        fact("disk.docker.free_mb", 1500), fact("images", ["pgvector/pgvector:1", "ghcr.io/open-webui/open-webui:1"])
    ),
    "index not asked": fact("package_index", {"asked": False, "answers": None, "reason": ""}),
    "no pip yet": fact("package_index", {"asked": True, "answers": None, "reason": "pip is not installed yet"}),
    "pulling on arm": source("registry", fact("arch", "aarch64")),
    "pulling with a working docker": source("registry", OLD_ALMA, fact("docker.state", "running")),
    "minor release": fact("os", {"id": "rocky", "like": ["rhel"], "version": "9.5"}),
    "nothing published": lambda plan, facts: plan["hosts"]["box"]["open_webui"].update(publish=None),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.rule(FIRES[name][0], fires=True)) for name in FIRES]
)
def test_fires(name: str) -> None:
    id, change, text = FIRES[name]
    findings = found(change)
    assert [finding.id for finding in findings] == [id]
    assert text in findings[0].message
    assert findings[0].where["host"] == "box"
    assert findings[0].remedy


@pytest.mark.rule("PL201", "PL202", "PL203", "PL204", "PL205", "PL206", "PL207", fires=False)
@pytest.mark.parametrize("name", QUIET)
def test_quiet(name: str) -> None:
    assert found(QUIET[name]) == []


@pytest.mark.parametrize(
    ("image_source", "images", "tools", "expected"),
    [
        ("build", [], ["1f"], True),
        ("build", ["pgvector/pgvector:1"], ["1f"], True),
        ("build", ["pgvector/pgvector:1", "ghcr.io/open-webui/open-webui:1"], ["1f"], False),
        ("registry", [], ["1f"], False),
        ("registry", [], [], True),
    ],
)
def test_needs_index(image_source: str, images: list[str], tools: list[str], expected: bool) -> None:
    plan = {**PLAN, "image_source": image_source}
    assert rules.needs_index(plan, "box", {**FACTS, "images": images, "tools": tools}) is expected


@pytest.mark.parametrize(
    ("limit", "expected"),
    [("1g", 1024), ("512m", 512), ("1.5g", 1536), ("2GB", 2048), ("1GiB", 1024), ("1048576", 1), ("2048k", 2)],
)
def test_memory(limit: str, expected: float) -> None:
    assert rules.memory_mb(limit) == expected
