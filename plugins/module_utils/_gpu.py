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
)
PROCESS_FIELDS = ("gpu_uuid", "pid", "process_name", "used_memory")
CDI_KIND = "nvidia.com/gpu"
_MISSING = re.compile(r"\[.*\]|")
_KERNEL = re.compile(r"^NVRM version:.*?Kernel Module\s+(?:for \S+\s+)?(\d+(?:\.\d+)+)", re.MULTILINE)
_LIBRARY = re.compile(r"libnvidia-ml\.so\.(\d+(?:\.\d+)+)$")
_LIBRARY_IN_ERROR = re.compile(r"NVML library version: (\d+(?:\.\d+)+)")
_INSTANCE = re.compile(r"^\s+MIG\s+(\S+)\s+Device\s+\d+: \(UUID: (MIG-[^)]+)\)")
_CARD_LINE = re.compile(r"^GPU \d+: .*\(UUID: (GPU-[^)]+)\)")


def query(fields: Iterable[str], of: str = "gpu") -> list[str]:
    """The arguments of nvidia-smi that ask for these fields."""
    return [f"--query-{of}={','.join(fields)}", "--format=csv,noheader,nounits"]


def _rows(text: str, fields: tuple[str, ...]) -> list[dict[str, str | None]]:
    rows = (row for row in csv.reader(text.splitlines(), skipinitialspace=True) if len(row) == len(fields))
    return [
        {field: None if _MISSING.fullmatch(value.strip()) else value.strip() for field, value in zip(fields, row)}
        for row in rows
    ]


def _number(value: str | None) -> int | None:
    return int(value) if value is not None and value.isascii() and value.isdecimal() else None


def cards(text: str) -> list[dict[str, Any]]:
    """The cards of a query for ``CARD_FIELDS``, memory in MiB; what a card does not report is None."""
    return [
        {
            "index": _number(row["index"]),
            "uuid": row["uuid"],
            "name": row["name"],
            "compute_capability": row["compute_cap"],
            "memory_mb": _number(row["memory.total"]),
            "free_mb": _number(row["memory.free"]),
            "driver": row["driver_version"],
            "mig": row["mig.mode.current"] == "Enabled",
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
            "name": row["process_name"],
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


def docker_support(info: Mapping[str, Any], specifications: Mapping[str, str]) -> dict[str, Any]:
    """How Docker hands out cards: its nvidia runtime, or CDI with a specification of NVIDIA's kind.

    ``info`` is the engine's own; ``specifications`` are the CDI files of the host, path to content.
    """
    described = any(
        re.search(rf"[\"']?kind[\"']?\s*:\s*[\"']?{re.escape(CDI_KIND)}\b", text) for text in specifications.values()
    )
    return {
        "runtime": "nvidia" in (info.get("Runtimes") or {}),
        "cdi": described and bool(info.get("CDISpecDirs")),
        "snap": str(info.get("DockerRootDir") or "").startswith("/var/snap/"),
    }


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
