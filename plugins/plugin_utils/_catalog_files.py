# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Catalog folders on the controller: every file is read, held to its schema, and a fault is a finding."""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.plumbline.rag.plugins.module_utils import _catalog, _findings

try:
    import jsonschema
    import referencing
except ImportError:
    jsonschema = None

COLLECTION = Path(__file__).resolve().parents[2]
SCHEMAS = {
    "embedders": {"$ref": "embedder.json"},
    "rerankers": {"$ref": "reranker.json"},
    "fixtures": {"$ref": "common.json#/$defs/text_sets"},
}
# An entry has a few kilobytes; whatever is larger is something else.
LARGEST = 1_000_000
_DEEPEST = 20
_SHOWN = 200
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read(folder: Path, top_level: Collection[str] = ()) -> tuple[dict[str, Any], list[_findings.Finding]]:
    """The valid documents of a folder by path without suffix, and findings for the others.

    ``top_level`` names the files that may lie beside the folders embedders and rerankers in an operator's folder; it is
    empty for the collection's own, whose entries are tested and may stay unchecked where the schema library is missing.
    """
    if not folder.is_dir():
        return {}, [_bad(f"{folder} is not a folder.", "rag_catalog_dirs")]
    if top_level and jsonschema is None:
        message = f"{folder} cannot be held to its schema: the controller lacks the Python package jsonschema."
        remedy = "Install the packages of requirements/controller.in on the controller."
        return {}, [_catalog.BAD_ENTRY.finding(message, remedy, variable="rag_catalog_dirs")]
    documents: dict[str, Any] = {}
    findings: list[_findings.Finding] = []
    for path in (p for part in (".", "embedders", "rerankers") for p in sorted(folder.joinpath(part).glob("*.y*ml"))):
        name = str(path.relative_to(folder).with_suffix(""))
        try:
            if top_level and path.parent == folder and name not in top_level:
                raise ValueError("is not read; models belong into the folders embedders and rerankers")
            document = _load(path)
        except (OSError, ValueError, TypeError, yaml.YAMLError) as problem:
            findings.append(_bad(f"catalog entry {path} {_first_line(problem)}.", name))
            continue
        problems = list(_violations(name.partition("/")[0], document))
        findings += [_bad(f"catalog entry {path}: {problem}.", name) for problem in problems]
        if not problems:
            documents[name] = document
    return documents, findings


def _bad(message: str, variable: str) -> _findings.Finding:
    return _catalog.BAD_ENTRY.finding(message, variable=variable)


def _first_line(problem: BaseException) -> str:
    if isinstance(problem, OSError):
        return f"cannot be read: {problem.strerror}"
    if isinstance(problem, yaml.MarkedYAMLError) and problem.problem_mark is not None:
        return f"cannot be read: line {problem.problem_mark.line + 1}: {problem.problem}"
    text = str(problem).splitlines()[0]
    return text if text.startswith(("is ", "holds ")) else f"cannot be read: {_cut(text)}"


def _load(path: Path) -> Any:
    """A YAML file as plain data: what JSON cannot hold is refused, and so is what would grow on being printed."""
    if path.stat().st_size > LARGEST:
        raise ValueError(f"is larger than {LARGEST} bytes")
    text = path.read_text(encoding="utf-8")
    depth = 0
    for event in yaml.parse(text, _LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise ValueError("is nested too deeply for a catalog entry")
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("holds a YAML alias, which a catalog entry must not")
    document = yaml.load(text, _LOADER)
    try:
        return json.loads(json.dumps(document, allow_nan=False, ensure_ascii=False).encode("utf-8"))
    except (ValueError, TypeError) as problem:
        raise ValueError(f"holds a value that JSON has not: {_cut(str(problem))}") from problem


def _violations(kind: str, document: Any) -> Iterator[str]:
    """What a document has against its schema, as field and problem."""
    if kind not in SCHEMAS or jsonschema is None:
        return
    for error in sorted(_validator(kind).iter_errors(document), key=lambda e: (e.json_path, str(e.validator))):
        # the description of a pattern or of a forbidden pair says more than the pattern does
        spoken = error.validator in ("pattern", "not") and error.schema.get("description")
        field = error.json_path.removeprefix("$").removeprefix(".")
        yield f"{field}: {_cut(spoken or error.message)}".removeprefix(": ").rstrip(".")


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


@functools.cache
def _validator(kind: str) -> Any:
    files = sorted((COLLECTION / "catalog" / "schema").glob("*.json"))
    schemas = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    registry = referencing.Registry().with_resources(
        (schema["$id"], referencing.Resource.from_contents(schema)) for schema in schemas
    )
    return jsonschema.Draft202012Validator(SCHEMAS[kind], registry=registry)
