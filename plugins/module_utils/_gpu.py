# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tools of the NVIDIA driver print, and what Docker says of cards, as data. Pure."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from typing import Any

CARD_FIELDS = (
    "index",
    "uuid",
    "name",
    "compute_cap",
    "memory.total",
    "memory.free",
    "driver_version",
    "mig.mode.current",
    "mig.mode.pending",
)
PROCESS_FIELDS = ("gpu_uuid", "pid", "process_name", "used_memory")
CDI_KIND = "nvidia.com/gpu"
SPECIFICATION = "/etc/cdi/nvidia.yaml"
# Docker 25.0.0 has CDI behind features.cdi of its configuration, by its release notes; a later 28 has it switched on.
# Which one that is does not matter here: `docker info` lists the folders of specifications where it is on.
_FIRST_WITH_CDI = 25
_MISSING = re.compile(r"\[.*\]|ERR!|")
_FAULT = re.compile(
    r"ERR!|\[(?:Unknown Error|GPU is lost|GPU requires reset|Reset Required|Insufficient Permissions)\]", re.IGNORECASE
)
_TOOLKIT = re.compile(r"version (\d+\.\d+\.\d+)")
_RECORD = re.compile(r"^# made for (.*)$", re.MULTILINE)
_KERNEL = re.compile(r"^NVRM version:.*?Kernel Module\s+(?:for \S+\s+)?(\d+(?:\.\d+)+)", re.MULTILINE)
_LIBRARY = re.compile(r"libnvidia-ml\.so\.(\d+(?:\.\d+)+)$")
_LIBRARY_IN_ERROR = re.compile(r"NVML library version: (\d+(?:\.\d+)+)")
_INSTANCE = re.compile(r"^\s+MIG\s+(\S+)\s+Device\s+\d+: \(UUID: (MIG-[^)]+)\)")
_CARD_LINE = re.compile(r"^GPU \d+: .*\(UUID: (GPU-[^)]+)\)")


def query(fields: Iterable[str], of: str = "gpu") -> list[str]:
    """The arguments of nvidia-smi that ask for these fields."""
    return [f"--query-{of}={','.join(fields)}", "--format=csv,noheader,nounits"]


def _rows(text: str, fields: tuple[str, ...]) -> list[dict[str, str]]:
    rows = (row for row in csv.reader(text.splitlines(), skipinitialspace=True) if len(row) == len(fields))
    return [{field: value.strip() for field, value in zip(fields, row)} for row in rows]


def _known(value: str) -> str | None:
    return None if _MISSING.fullmatch(value) else value


def _fault(values: Iterable[str]) -> str | None:
    """The first field that says that the card does not answer."""
    return next((value for value in values if _FAULT.fullmatch(value)), None)


def _number(value: str) -> int | None:
    return int(value) if value.isascii() and value.isdecimal() else None


def cards(text: str) -> list[dict[str, Any]]:
    """The cards of a query for ``CARD_FIELDS``, memory in MiB; what a card does not report is None."""
    return [
        {
            "index": _number(row["index"]),
            "uuid": _known(row["uuid"]),
            "name": _known(row["name"]),
            "compute_capability": _known(row["compute_cap"]),
            "memory_mb": _number(row["memory.total"]),
            "free_mb": _number(row["memory.free"]),
            "driver": _known(row["driver_version"]),
            "mig": row["mig.mode.current"] == "Enabled",
            "mig_changes": {row["mig.mode.current"], row["mig.mode.pending"]} == {"Enabled", "Disabled"},
            "fault": _fault(row.values()),
            "instances": [],
            "processes": [],
        }
        for row in _rows(text, CARD_FIELDS)
    ]


def processes(text: str) -> list[dict[str, Any]]:
    """The computing processes of a query for ``PROCESS_FIELDS``."""
    return [
        {
            "uuid": row["gpu_uuid"],
            "pid": _number(row["pid"]),
            "name": _known(row["process_name"]),
            "memory_mb": _number(row["used_memory"]),
        }
        for row in _rows(text, PROCESS_FIELDS)
    ]


def instances(text: str) -> dict[str, list[dict[str, str]]]:
    """The MIG instances in the list that ``nvidia-smi -L`` prints, by the UUID of their card."""
    found: dict[str, list[dict[str, str]]] = {}
    card = ""
    for line in text.splitlines():
        if match := _CARD_LINE.match(line):
            card = match[1]
        elif match := _INSTANCE.match(line):
            found.setdefault(card, []).append({"profile": match[1], "uuid": match[2]})
    return found


def kernel_version(text: str) -> str | None:
    """The version of the loaded kernel module, from /proc/driver/nvidia/version."""
    match = _KERNEL.search(text)
    return match[1] if match else None


def library_version(names: Iterable[str]) -> str | None:
    """The version of the management library that is installed, from the names of its files."""
    versions = [match[1] for name in names if (match := _LIBRARY.search(name))]
    return max(versions, key=lambda version: [int(part) for part in version.split(".")]) if versions else None


def driver(status: int | None, output: str, kernel: str | None, library: str | None) -> dict[str, Any]:
    """The state of the driver: absent, works, mismatch, or broken with what nvidia-smi said. ``status`` None: it is not there."""
    reason = " ".join(output.split())
    match = _LIBRARY_IN_ERROR.search(output)
    library = match[1] if match else library
    differ = kernel is not None and library is not None and not _same(kernel, library)
    if status is None:
        state, reason = (
            ("broken", "nvidia-smi is not installed") if kernel else ("absent", "no NVIDIA driver is installed")
        )
    elif "version mismatch" in output or differ:
        state = "mismatch"
    elif status != 0 and "No devices were found" not in output:
        state = "broken"
    else:
        state, reason = "works", ""
    return {"state": state, "reason": reason, "kernel": kernel, "library": library}


def _same(kernel: str, library: str) -> bool:
    """Whether the versions agree as far as both are written: an error names the library without its last part."""
    return all(a == b for a, b in zip(kernel.split("."), library.split(".")))


def toolkit_version(text: str) -> str | None:
    """The version of the container toolkit, from ``nvidia-ctk --version``."""
    match = _TOOLKIT.search(text)
    return match[1] if match else None


def _describes_cards(text: str) -> bool:
    """Whether a CDI specification is of NVIDIA's kind."""
    return re.search(rf"[\"']?kind[\"']?\s*:\s*[\"']?{re.escape(CDI_KIND)}\b", text) is not None


def docker_support(info: Mapping[str, Any], specifications: Mapping[str, str]) -> dict[str, Any]:
    """How Docker hands out cards: its nvidia runtime, or CDI with a specification of NVIDIA's kind.

    ``info`` is the engine's own; ``specifications`` are the CDI files of the host, path to content. ``form`` is how
    cards are to be asked for: by CDI where the engine has it on, else by a runtime that is set up already, else by what
    the engine can be set up for.
    """
    runtime, switched_on = "nvidia" in (info.get("Runtimes") or {}), bool(info.get("CDISpecDirs"))
    major = str(info.get("ServerVersion") or "").partition(".")[0]
    able = switched_on or (not runtime and major.isdecimal() and int(major) >= _FIRST_WITH_CDI)
    return {
        "runtime": runtime,
        "cdi": switched_on and any(_describes_cards(text) for text in specifications.values()),
        "cdi_on": switched_on,
        "form": "cdi" if able else "runtime",
        "snap": str(info.get("DockerRootDir") or "").startswith("/var/snap/"),
    }


def specification(
    driver: str | None, toolkit: str | None, found: Iterable[Mapping[str, Any]], files: Mapping[str, str]
) -> dict[str, Any]:
    """What the CDI specification of this collection was made for, and what it has to be made for now.

    ``foreign`` are specifications of NVIDIA's kind beside it: two of one folder that name the same card exclude each other.
    """
    devices = sorted(str(uuid) for card in found for uuid in [card["uuid"], *(i["uuid"] for i in card["instances"])])
    match = _RECORD.search(files.get(SPECIFICATION, ""))
    folder = SPECIFICATION.rpartition("/")[0]
    return {
        "path": SPECIFICATION,
        "recorded": match[1] if match else None,
        "wanted": f"driver {driver}, toolkit {toolkit}, devices {' '.join(devices)}",
        "foreign": sorted(
            path
            for path, text in files.items()
            if path != SPECIFICATION and path.rpartition("/")[0] == folder and _describes_cards(text)
        ),
    }


def find(wanted: Any, found: Iterable[dict[str, Any]]) -> tuple[dict[str, Any], str] | None:
    """The card of an index or UUID, or the one that an instance lies on, and the whole UUID; UUIDs may be shortened."""
    text = str(wanted)
    for card in found:
        if text == str(card["index"]):
            return card, str(card["uuid"] or text)
        for uuid in [card["uuid"], *(instance["uuid"] for instance in card["instances"])]:
            if uuid and uuid.startswith(text):
                return card, str(uuid)
    return None


def users(services: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The services of a host's slice of the plan that compute on cards."""
    return {
        name: service
        for name, service in services.items()
        if isinstance(service, Mapping) and service.get("gpus") and service.get("device") == "gpu"
    }


def uuids(wanted: Iterable[Any], found: Iterable[dict[str, Any]]) -> list[str]:
    """The whole UUIDs of the cards that a service is given. Raises ValueError for one that is not there."""
    there = list(found)
    result = []
    for one in wanted:
        match = find(one, there)
        if match is None:
            raise ValueError(f"card {one} is not there")
        result.append(match[1])
    return result


def device_requests(wanted: Iterable[Any], found: Iterable[dict[str, Any]], form: str) -> list[dict[str, Any]]:
    """What Docker is asked for, in the words of community.docker.

    Every field is stated: the engine answers with its defaults, and a field that differs makes a new container at each run.
    """
    names = uuids(wanted, found)
    cdi = form == "cdi"
    return [
        {
            "driver": "cdi" if cdi else "nvidia",
            "count": 0,
            "device_ids": [f"{CDI_KIND}={name}" for name in names] if cdi else names,
            "capabilities": [["gpu"]],
            "options": {},
        }
    ]


def attach(
    found: list[dict[str, Any]], running: Iterable[Mapping[str, Any]], parts: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The cards, each with its processes and MIG instances."""
    entries = list(running)
    return [
        {
            **card,
            "instances": parts.get(card["uuid"], []),
            "processes": [{k: v for k, v in p.items() if k != "uuid"} for p in entries if p["uuid"] == card["uuid"]],
        }
        for card in found
    ]
