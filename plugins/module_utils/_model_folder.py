# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders with weights on a host: where a model lies, what is in it, and the record of what was fetched. Stdlib only."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._weights import (
    COMMIT,
    Entry,
    Fault,
    File,
    places,
    safetensors_size,
    same_commit,
)

MAIN = "main"
# the longest header that the format allows
_LONGEST_HEADER = 100_000_000
_BLOCK = 1 << 20


@dataclasses.dataclass(frozen=True)
class Located:
    """A model's folder: its path and, where it is known, the commit of what lies there."""

    path: str
    commit: str | None


class NotFound(Exception):
    """The folder has no such model or revision."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.detail)
        self.fault = fault


def locate(directory: str, repository: str, revision: str | None, folder: str | None) -> Located:
    """The model below ``directory``: in ``folder`` where it is named, else as a hub cache or as a plain folder."""
    candidates = [("plain", folder)] if folder is not None else places(repository)
    for layout, relative in candidates:
        path = os.path.join(directory, relative)
        if not os.path.isdir(path):
            continue
        if layout == "cache":
            return _snapshot(path, revision)
        commit = _downloaded(path)
        if not same_commit(revision, commit):
            raise NotFound(Fault("revision", relative, f"holds the commit {commit}, not {revision}"))
        return Located(path, commit)
    tried = ", ".join(relative for _layout, relative in candidates)
    raise NotFound(Fault("missing", directory, f"has no folder of {repository}; it may be called {tried}"))


def recorded(cache: str, revision: str | None) -> str | None:
    """The commit that a revision of a cached repository stands for; None when it was never resolved."""
    if revision is not None and COMMIT.fullmatch(revision):
        return revision
    return read_text(os.path.join(cache, "refs", revision or MAIN)).strip() or None


def _snapshot(cache: str, revision: str | None) -> Located:
    snapshots = os.path.join(cache, "snapshots")
    there = sorted(os.listdir(snapshots)) if os.path.isdir(snapshots) else []
    commit = recorded(cache, revision)
    if commit is None and revision is None and len(there) == 1:
        commit = there[0]
    if commit is None or commit not in there:
        name = os.path.basename(cache)
        have = ", ".join(there) or "none"
        raise NotFound(Fault("revision", name, f"does not hold {revision or commit or MAIN}; it has {have}"))
    return Located(os.path.join(snapshots, commit), commit)


def _downloaded(path: str) -> str | None:
    """The commit that the hub's client noted beside the files of a plain folder."""
    notes = os.path.join(path, ".cache", "huggingface", "download")
    for name in sorted(os.listdir(notes)) if os.path.isdir(notes) else []:
        lines = read_text(os.path.join(notes, name)).splitlines()
        if name.endswith(".metadata") and lines and COMMIT.fullmatch(lines[0]):
            return lines[0]
    return None


def scan(folder: str, mount: str) -> dict[str, Entry]:
    """Every file below ``folder`` by relative name; links must stay below ``mount``, which is what a container sees."""
    inside = os.path.realpath(mount) + os.sep
    entries: dict[str, Entry] = {}
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for file in files:
            path = os.path.join(root, file)
            entries[os.path.relpath(path, folder)] = _entry(path, inside)
    return entries


def _entry(path: str, inside: str) -> Entry:
    if not os.path.exists(path):
        return Entry(0, "dangling")
    if not os.path.realpath(path).startswith(inside):
        return Entry(0, "outside")
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        head = file.read(64)
        declared = None
        if path.endswith(".safetensors"):
            length = int.from_bytes(head[:8], "little")
            if 0 < length < min(_LONGEST_HEADER, size):
                file.seek(0)
                declared = safetensors_size(file.read(8 + length))
    return Entry(size, "file", head, declared)


def documents(folder: str, names: Iterable[str]) -> dict[str, Any]:
    """The JSON files among ``names``, parsed; one that is not JSON is None."""
    result: dict[str, Any] = {}
    for name in names:
        text = read_text(os.path.join(folder, name))
        if text:
            result[name] = parse(text)
    return result


def parse(text: str) -> Any:
    """JSON, or None."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def read_text(path: str) -> str:
    """The content of a file; empty when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def digest(path: str, like: str) -> str:
    """The digest of a file in the form of ``like``: its SHA-256, or the id that Git gives its content."""
    kind = like.partition(":")[0]
    state = hashlib.sha256() if kind == "sha256" else hashlib.sha1(usedforsecurity=False)
    with open(path, "rb") as file:
        if kind == "git":
            state.update(b"blob %d\0" % os.fstat(file.fileno()).st_size)
        for block in iter(lambda: file.read(_BLOCK), b""):
            state.update(block)
    return f"{kind}:{state.hexdigest()}"


@dataclasses.dataclass
class Record:
    """What the hub said of one commit, and for each file that was checked the time of its last change then."""

    repository: str
    commit: str
    files: dict[str, File]
    checked: dict[str, int]

    @classmethod
    def read(cls, path: str) -> Record | None:
        """The record in a file; None when there is none that can be used."""
        content = parse(read_text(path))
        try:
            files = {name: File(name, entry["size"], entry["digest"]) for name, entry in content["files"].items()}
            return cls(content["repository"], content["commit"], files, dict(content["checked"]))
        except (KeyError, TypeError, AttributeError, ValueError):
            return None

    def write(self, path: str) -> None:
        """Write the record in one step."""
        files = {name: {"size": file.size, "digest": file.digest} for name, file in sorted(self.files.items())}
        content = {"repository": self.repository, "commit": self.commit, "files": files, "checked": self.checked}
        replace(path, json.dumps(content, indent=1, sort_keys=True) + "\n")


def replace(path: str, text: str) -> None:
    """Write a text file in one step, so that a reader never sees half of it."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    descriptor, draft = tempfile.mkstemp(dir=os.path.dirname(path))
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(draft, 0o644)
    os.replace(draft, path)


def changed_since(folder: str, record: Record, names: Iterable[str]) -> list[str]:
    """The files that have to be read again: they have changed, or were never checked."""
    return [name for name in names if modified(os.path.join(folder, name)) != record.checked.get(name)]


def modified(path: str) -> int | None:
    """Time of the last change of a file, through links; None when it is not there."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None


def free_bytes(path: str) -> int:
    """Free space where ``path`` is, or will be once it is made."""
    existing = path
    while not os.path.exists(existing):
        existing = os.path.dirname(existing)
    usage = os.statvfs(existing)
    return usage.f_bavail * usage.f_frsize


def digests(folder: str, files: Mapping[str, File], names: Iterable[str]) -> dict[str, str]:
    """The digests of those of ``names`` that are there, and that the hub gave a digest of."""
    there = [name for name in names if files[name].digest and os.path.isfile(os.path.join(folder, name))]
    return {name: digest(os.path.join(folder, name), files[name].digest) for name in there}
