"""TEI's command line: its flags by version, refused as clap refuses them, with exit status 2."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

PROGRAM = "text-embeddings-router"
_TRUTH = {"true": True, "false": False}


class UsageError(Exception):
    """The command line is not one that TEI takes."""

    def __str__(self) -> str:
        return f"error: {self.args[0]}\n\nUsage: {PROGRAM} [OPTIONS]\n\nFor more information, try '--help'."


@dataclasses.dataclass(frozen=True)
class Flag:
    """``kind`` is str, int, float, choice, switch (no value) or truth (a value that may be left out)."""

    kind: str = "str"
    default: Any = None
    choices: tuple[str, ...] = ()
    since: str = ""


FLAGS = {
    "--model-id": Flag(),
    "--revision": Flag(),
    "--served-model-name": Flag(since="1.9.0"),
    "--tokenization-workers": Flag("int"),
    "--dtype": Flag("choice", choices=("float16", "float32")),
    "--pooling": Flag("choice", choices=("cls", "mean", "splade", "last-token")),
    "--max-concurrent-requests": Flag("int", 512),
    "--max-batch-tokens": Flag("int", 16384),
    "--max-batch-requests": Flag("int"),
    "--max-client-batch-size": Flag("int", 32),
    "--auto-truncate": Flag("truth"),
    "--default-prompt-name": Flag(),
    "--default-prompt": Flag(),
    "--dense-path": Flag(),
    "--hf-token": Flag(),
    "--hostname": Flag(default="0.0.0.0"),
    "--port": Flag("int", 3000),
    "--uds-path": Flag(default="/tmp/text-embeddings-inference-server"),
    "--huggingface-hub-cache": Flag(),
    "--payload-limit": Flag("int", 2_000_000),
    "--api-key": Flag(),
    "--json-output": Flag("switch", False),
    "--disable-spans": Flag("switch", False),
    "--otlp-endpoint": Flag(),
    "--otlp-service-name": Flag(default="text-embeddings-inference.server"),
    "--prometheus-port": Flag("int", 9000),
    "--cors-allow-origin": Flag(),
}
CONFLICTS = (("--default-prompt-name", "--default-prompt"),)


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def since(version: str, first: str) -> bool:
    return numbers(version) >= numbers(first)


def name(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def placeholder(flag: str) -> str:
    return f"{flag} <{name(flag).upper()}>"


def parse(arguments: Sequence[str], environment: Mapping[str, str], version: str) -> dict[str, Any]:
    """The options by name. A flag wins over its variable, the variable over the default."""
    known = {flag: entry for flag, entry in FLAGS.items() if since(version, entry.since or "0")}
    given = _given(list(arguments), known, version)
    for one, other in CONFLICTS:
        if one in given and other in given:
            raise UsageError(f"the argument '{placeholder(one)}' cannot be used with '{placeholder(other)}'")
    options: dict[str, Any] = {}
    for flag, entry in known.items():
        text = given.get(flag, environment.get(name(flag).upper()))
        options[name(flag)] = entry.default if text is None else _value(flag, entry, text)
    if options["auto_truncate"] is None:
        options["auto_truncate"] = since(version, "1.9.0")
    if options["model_id"] is None and since(version, "1.9.0"):
        raise UsageError(f"the following required arguments were not provided:\n  {placeholder('--model-id')}")
    return options


def _given(arguments: list[str], known: Mapping[str, Flag], version: str) -> dict[str, str]:
    given: dict[str, str] = {}
    while arguments:
        argument = arguments.pop(0)
        flag, equals, text = argument.partition("=")
        entry = known.get(flag)
        if entry is None:
            raise UsageError(f"unexpected argument '{flag}' found")
        if flag in given:
            raise UsageError(f"the argument '{placeholder(flag)}' cannot be used multiple times")
        if entry.kind == "switch" or (entry.kind == "truth" and not since(version, "1.9.2")):
            if equals:
                raise UsageError(f"unexpected value '{text}' for '{flag}' found; no more were expected")
            given[flag] = "true"
        elif equals:
            given[flag] = text
        elif arguments and not arguments[0].startswith("-"):
            given[flag] = arguments.pop(0)
        elif entry.kind == "truth":
            given[flag] = "true"
        else:
            raise UsageError(f"a value is required for '{placeholder(flag)}' but none was supplied")
    return given


def _value(flag: str, entry: Flag, text: str) -> Any:
    if entry.kind == "int":
        if not (text.isascii() and text.isdecimal()):
            raise UsageError(f"invalid value '{text}' for '{placeholder(flag)}': invalid digit found in string")
        return int(text)
    choices = tuple(_TRUTH) if entry.kind in ("truth", "switch") else entry.choices
    if choices and text not in choices:
        raise UsageError(f"invalid value '{text}' for '{placeholder(flag)}'\n  [possible values: {', '.join(choices)}]")
    return _TRUTH[text] if entry.kind in ("truth", "switch") else text
