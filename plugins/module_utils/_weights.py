# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The weights of a model: which files an engine needs of a repository, and what is wrong with a folder of them. Pure."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

POINTER = b"version https://git-lfs.github.com/spec/"
INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "sentencepiece.bpe.model", "spiece.model", "vocab.txt", "vocab.json")
COMMIT = re.compile("[0-9a-f]{40}")
_SMALL = (".json", ".txt", ".model", ".jinja")
# what sentence-transformers adds: 1_Pooling, 2_Dense, 2_Dense_1024
_MODULE = re.compile(r"\d+_[^/]+")


@dataclasses.dataclass(frozen=True)
class File:
    """A file as the hub describes it; ``digest`` is ``sha256:…`` of one in LFS, ``git:…`` (its blob id) of another."""

    name: str
    size: int | None
    digest: str


@dataclasses.dataclass(frozen=True)
class Entry:
    """A file as it lies in a folder; ``state`` is file, dangling (a link to nothing) or outside (a link out of the mount).

    ``head`` is its beginning, ``declared`` the size that its own header states.
    """

    size: int
    state: str = "file"
    head: bytes = b""
    declared: int | None = None


@dataclasses.dataclass(frozen=True)
class Fault:
    """What is wrong with the weights: a kind that a rule stands for, the file, and the rest of the sentence."""

    kind: str
    file: str
    detail: str


def needed(names: Iterable[str], engine: str, device: str, code: bool = False) -> list[str]:
    """The files of a repository that an engine loads, sorted by name.

    Safetensors where there are some, else PyTorch's format; ONNX for TEI on the processor, which falls back to the others;
    the repository's Python where the engine runs it. Weights for other programs (TensorFlow, Flax, GGUF, OpenVINO) stay away.
    """
    present = sorted(set(names))
    by_folder: dict[str, list[str]] = {}
    for name in present:
        folder, _slash, file = name.rpartition("/")
        by_folder.setdefault(folder, []).append(file)
    result = []
    for folder, files in by_folder.items():
        if folder and not _MODULE.fullmatch(folder):
            continue
        safe = [file for file in files if _safetensors(file)]
        weights = safe or [file for file in files if file.startswith("pytorch_model") and file.endswith(".bin")]
        unused = INDEXES[1] if safe else INDEXES[0]
        wanted = {file for file in files if file.endswith(_SMALL) and file != unused}
        wanted |= {file for file in files if code and file.endswith(".py")}
        prefix = f"{folder}/" if folder else ""
        result += [f"{prefix}{file}" for file in {*wanted, *weights}]
    if engine == "tei" and device == "cpu":
        # the same two places, in the same order, in which TEI looks
        first = next((prefix for prefix in ("onnx/model.onnx", "model.onnx") if prefix in present), None)
        result += [name for name in present if first and name in (first, f"{first}_data", f"{first}.data")]
    return sorted(set(result))


def code_repositories(config: Any) -> list[str]:
    """Other repositories that a config.json takes code from: its auto_map names them before two dashes."""
    values = (config.get("auto_map") or {}).values() if isinstance(config, dict) else ()
    texts = [text for value in values for text in (value if isinstance(value, list) else [value])]
    return sorted({str(text).partition("--")[0] for text in texts if "--" in str(text)})


def _safetensors(file: str) -> bool:
    """Whether it is one that engines load by itself; ``consolidated`` is the same weights in Mistral's own layout."""
    return file.endswith(".safetensors") and not file.startswith("consolidated")


def safetensors_size(header: bytes) -> int | None:
    """The size that a safetensors file must have by its header (eight bytes of length, then JSON); None when it is none."""
    length = int.from_bytes(header[:8], "little")
    try:
        tensors = json.loads(header[8 : 8 + length])
        ends = [entry["data_offsets"][1] for name, entry in tensors.items() if name != "__metadata__"]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        return None
    return 8 + length + max(ends, default=0)


def judge(
    entries: Mapping[str, Entry],
    documents: Mapping[str, Any],
    task: str,
    engine: str,
    device: str,
    code: bool = False,
) -> Iterator[Fault]:
    """What keeps an engine from loading a folder; ``documents`` are its parsed JSON files by name."""
    wanted = needed(entries, engine, device, code)
    for name in wanted:
        faults = list(_of_file(name, entries[name]))
        yield from faults
        if not faults and name in documents and documents[name] is None:
            yield Fault("damaged", name, "is not JSON")
    if "config.json" not in entries:
        yield Fault("missing", "config.json", "is not there")
    tokenizers = TOKENIZERS[:1] if engine == "tei" else TOKENIZERS
    if not any(name in entries for name in tokenizers):
        yield Fault("missing", tokenizers[0], "is not there")
    heavy = [name for name in wanted if "/" not in name and name.endswith((".safetensors", ".bin"))]
    if not heavy and not any(name.endswith(".onnx") for name in wanted):
        yield Fault("missing", "model.safetensors", "is not there, nor are weights in another format")
    yield from _shards(entries, documents, wanted)
    yield from _modules(entries, documents, task)


def _of_file(name: str, entry: Entry) -> Iterator[Fault]:
    if entry.state == "dangling":
        yield Fault("link", name, "is a link to a file that is not there")
    elif entry.state == "outside":
        yield Fault("link", name, "is a link out of the folder, which is not in the container")
    elif entry.head.startswith(POINTER):
        yield Fault("pointer", name, f"is a Git LFS pointer of {entry.size} bytes in place of the file")
    elif entry.declared is not None and entry.size != entry.declared:
        yield Fault("damaged", name, f"has {entry.size} bytes; by its header it has {entry.declared}")
    elif entry.size == 0:
        yield Fault("damaged", name, "is empty")
    elif name.endswith(".safetensors") and entry.declared is None:
        yield Fault("damaged", name, "does not begin as a safetensors file does")


def _shards(entries: Mapping[str, Entry], documents: Mapping[str, Any], wanted: Iterable[str]) -> Iterator[Fault]:
    for index in INDEXES:
        if index in wanted and index in documents:
            parts = (documents[index] or {}).get("weight_map") or {}
            for part in sorted(set(map(str, parts.values())) - set(entries)):
                yield Fault("missing", part, f"is not there, and {index} names it")


def _modules(entries: Mapping[str, Entry], documents: Mapping[str, Any], task: str) -> Iterator[Fault]:
    """The parts after the transformer: an engine that does not find one goes on without it."""
    modules = documents.get("modules.json")
    if modules is None:
        if task == "embed" and "1_Pooling/config.json" not in entries:
            yield Fault("pooling", "modules.json", "is not there, nor is 1_Pooling/config.json")
        return
    for module in modules if isinstance(modules, list) else []:
        kind, folder = str(module.get("type", "")).rpartition(".")[2], str(module.get("path", ""))
        parts = [f"{folder}/config.json"] if kind in ("Pooling", "Dense") and folder else []
        for part in parts:
            if part not in entries:
                yield Fault("missing", part, "is not there, and modules.json names its folder")
        layers = (f"{folder}/model.safetensors", f"{folder}/pytorch_model.bin")
        if kind == "Dense" and folder and not any(layer in entries for layer in layers):
            yield Fault("missing", layers[0], "is not there, and modules.json names its folder")


def compare(expected: Mapping[str, File], entries: Mapping[str, Entry], digests: Mapping[str, str]) -> Iterator[Fault]:
    """Files that differ from what the hub said of them; ``digests`` are those of the files that were read again."""
    for name, file in sorted(expected.items()):
        entry = entries.get(name)
        if entry is None:
            yield Fault("missing", name, "is not there")
        elif entry.state != "file":
            yield from _of_file(name, entry)
        elif file.size is not None and entry.size != file.size:
            yield Fault("damaged", name, f"has {entry.size} bytes; the repository's has {file.size}")
        elif name in digests and digests[name] != file.digest:
            yield Fault("damaged", name, f"has the digest {digests[name]}; the repository's has {file.digest}")


def cache_name(repository: str) -> str:
    """The folder of a repository in a hub cache."""
    return "models--" + repository.replace("/", "--")


def places(repository: str) -> list[tuple[str, str]]:
    """Where below a folder of models a repository may lie, as layout (cache or plain) and relative path."""
    flat = repository.replace("/", "--")
    last = repository.rpartition("/")[2]
    return [
        ("cache", cache_name(repository)),
        ("cache", f"hub/{cache_name(repository)}"),
        *(("plain", path) for path in dict.fromkeys([repository, flat, last])),
    ]


def same_commit(wanted: str | None, found: str | None) -> bool:
    """Whether a pinned revision is the one that was found; one that is not a commit, or was not recorded, is not compared."""
    if wanted is None or found is None or not COMMIT.fullmatch(wanted):
        return True
    return wanted == found
