# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Weights on a host: judge a folder that was brought along, or bring a revision from the hub and check every byte of it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from ansible_collections.plumbline.rag.plugins.module_utils import _model_folder, _weights
from ansible_collections.plumbline.rag.plugins.module_utils._model_folder import Record
from ansible_collections.plumbline.rag.plugins.module_utils._weights import Fault, File

RESERVE = 1 << 30


@dataclasses.dataclass(frozen=True)
class Wanted:
    """The weights that a service needs: of which repository, for which engine, below which folder.

    ``code`` says that the engine runs Python of the repository.
    """

    repository: str
    revision: str | None
    directory: str
    folder: str | None
    task: str
    engine: str
    device: str
    code: bool = False

    @property
    def cache(self) -> str:
        """The repository's folder in the hub's cache layout."""
        return os.path.join(self.directory, _weights.cache_name(self.repository))

    def files(self, names: Iterable[str]) -> list[str]:
        """Those that the engine loads."""
        return _weights.needed(names, self.engine, self.device, self.code)


@dataclasses.dataclass(frozen=True)
class _Code(Wanted):
    """A repository that only code is taken from."""

    def files(self, names: Iterable[str]) -> list[str]:
        return sorted(name for name in names if name.endswith(".py"))


@dataclasses.dataclass
class Outcome:
    """Where the weights are, and what was or would be fetched."""

    path: str
    commit: str | None
    fetched: list[File] = dataclasses.field(default_factory=list)
    faults: list[Fault] = dataclasses.field(default_factory=list)
    size: int = 0


class Source(Protocol):
    """What a hub does for us."""

    def describe(self, repository: str, revision: str | None) -> tuple[str, dict[str, File]]: ...

    def fetch(self, repository: str, commit: str, file: File) -> None: ...


def examine(wanted: Wanted) -> Outcome:
    """Judge a folder that somebody else has filled."""
    try:
        place = _model_folder.locate(wanted.directory, wanted.repository, wanted.revision, wanted.folder)
    except _model_folder.NotFound as problem:
        return Outcome("", None, faults=[problem.fault])
    faults, size = _judge(wanted, place.path)
    for repository in _code_of(wanted, place.path):
        name = _weights.cache_name(repository)
        if not os.path.isdir(os.path.join(wanted.directory, name)):
            faults.append(Fault("missing", os.path.join(wanted.directory, name), "is not there; the model's code is"))
    return Outcome(place.path, place.commit, faults=faults, size=size)


def provide(wanted: Wanted, hub: Callable[[], Source], write: bool = True) -> Outcome:
    """Bring what is missing. The hub is only asked when something is; ``write`` False says what would be fetched."""
    outcome = _bring(wanted, hub, write)
    if outcome.faults or (outcome.fetched and not write):
        return outcome
    # a repository that has no pooling is as its author made it
    outcome.faults = [fault for fault in _judge(wanted, outcome.path)[0] if fault.kind != "pooling"]
    for repository in _code_of(wanted, outcome.path):
        values = {**dataclasses.asdict(wanted), "repository": repository, "revision": None}
        code = _bring(_Code(**values), hub, write)
        outcome.fetched += code.fetched
        outcome.faults += code.faults
    return outcome


def _judge(wanted: Wanted, folder: str) -> tuple[list[Fault], int]:
    entries = _model_folder.scan(folder, wanted.directory)
    documents = _model_folder.documents(folder, [name for name in entries if name.endswith(".json")])
    faults = _weights.judge(entries, documents, wanted.task, wanted.engine, wanted.device, wanted.code)
    return list(faults), sum(entry.size for entry in entries.values())


def _code_of(wanted: Wanted, folder: str) -> list[str]:
    """The other repositories whose code the engine runs."""
    if not wanted.code:
        return []
    return _weights.code_repositories(_model_folder.documents(folder, ["config.json"]).get("config.json"))


def _bring(wanted: Wanted, hub: Callable[[], Source], write: bool) -> Outcome:
    """Fetch and check one repository. The record is written last: without it a file counts as not checked."""
    commit = _model_folder.recorded(wanted.cache, wanted.revision)
    record = Record.read(_record_path(wanted, commit)) if commit else None
    source = None
    if record is None:
        source = hub()
        commit, files = source.describe(wanted.repository, wanted.revision)
        record = Record.read(_record_path(wanted, commit)) or Record(wanted.repository, commit, files, {})
    snapshot = os.path.join(wanted.cache, "snapshots", record.commit)
    chosen = {name: record.files[name] for name in wanted.files(record.files)}
    bad = {fault.file for fault in _check(chosen, snapshot, wanted, record)}
    missing = sorted((chosen[name] for name in bad), key=lambda file: (file.size or 0, file.name))
    outcome = Outcome(snapshot, record.commit, missing, size=sum(file.size or 0 for file in chosen.values()))
    lacking = _space(wanted, missing) if missing else None
    if lacking is not None:
        outcome.faults = [lacking]
    if lacking is not None or not write:
        return outcome
    for file in missing:
        _discard(snapshot, file)
        source = source or hub()
        source.fetch(wanted.repository, record.commit, file)
    outcome.faults = _check(chosen, snapshot, wanted, record) if missing else []
    for fault in outcome.faults:
        _discard(snapshot, chosen[fault.file])
    if not outcome.faults:
        _keep(wanted, record, chosen, snapshot)
    return outcome


def _record_path(wanted: Wanted, commit: str) -> str:
    return os.path.join(wanted.cache, "checked", f"{commit}.json")


def _check(chosen: Mapping[str, File], snapshot: str, wanted: Wanted, record: Record) -> list[Fault]:
    """Faults of the chosen files; only those that changed since they were checked are read."""
    entries = _model_folder.scan(snapshot, wanted.directory)
    sized = {fault.file for fault in _weights.compare(chosen, entries, {})}
    doubtful = [name for name in _model_folder.changed_since(snapshot, record, chosen) if name not in sized]
    return list(_weights.compare(chosen, entries, _model_folder.digests(snapshot, chosen, doubtful)))


def _keep(wanted: Wanted, record: Record, chosen: Mapping[str, File], snapshot: str) -> None:
    """Write down what was checked, and which commit a name stands for."""
    times = {name: _model_folder.modified(os.path.join(snapshot, name)) for name in chosen}
    checked = {**record.checked, **{name: time for name, time in times.items() if time is not None}}
    path = _record_path(wanted, record.commit)
    if checked != record.checked or not os.path.exists(path):
        dataclasses.replace(record, checked=checked).write(path)
    if _model_folder.recorded(wanted.cache, wanted.revision) != record.commit:
        name = wanted.revision or _model_folder.MAIN
        _model_folder.replace(os.path.join(wanted.cache, "refs", name), record.commit)


def _discard(snapshot: str, file: File) -> None:
    """Take a damaged file away, with what its link leads to; a part of it that an interrupted run has left stays."""
    link = os.path.join(snapshot, file.name)
    blob = os.path.realpath(link)
    for path in {link, blob} if os.path.lexists(link) else ():
        if os.path.lexists(path):
            os.unlink(path)


def _space(wanted: Wanted, missing: list[File]) -> Fault | None:
    partial = [os.path.join(wanted.cache, "blobs", f"{file.digest.rpartition(':')[2]}.incomplete") for file in missing]
    have = sum(os.path.getsize(path) for path in partial if os.path.exists(path))
    need = sum(file.size or 0 for file in missing) - have
    free = _model_folder.free_bytes(wanted.directory)
    if need + RESERVE <= free:
        return None
    detail = f"has {free / 2**30:.1f} GiB free; {need / 2**30:.1f} GiB are to be fetched and {RESERVE >> 30} GiB is kept free"
    return Fault("space", wanted.directory, detail)
