# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about a container that was given graphics cards: whether it sees them, and whether its engine uses them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _symptoms
from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, Finding, Rule, register

LOST = register(
    "PL315",
    ERROR,
    "A running container has lost its graphics cards",
    "A `systemctl daemon-reload` or a change of the driver takes cards from containers that run; they go on until they next need one.",
    "Restart the container; where Docker hands cards out by CDI (nvidia_device_form: cdi) a daemon-reload does not take them.",
    source="NVIDIA/nvidia-container-toolkit#48, NVIDIA/nvidia-container-toolkit#1227, NVIDIA/nvidia-container-toolkit#1397",
    acknowledgeable=False,
)
ON_PROCESSOR = register(
    "PL316",
    ERROR,
    "An engine that was given a card computes on the processor",
    "It answers every request, some fifty times slower.",
    "Look in its log for why it saw no card at its start, then restart the container.",
    source="text-embeddings-inference: without a visible card it falls back to the processor with a warning",
    acknowledgeable=False,
)

# The device's own name stands in the log at the start of the engine.
_PROCESSOR = {
    "tei": re.compile(r"Could not find a compatible CUDA device on host|Starting \w+ model on Cpu"),
    "vllm": re.compile(r"Automatically detected platform cpu|device_config=cpu"),
}
_MISSING_PROGRAM = (126, 127)


@dataclass(frozen=True)
class Subject:
    """A container that was given cards; without an engine it only tries them."""

    service: str
    host: str
    container: str
    cards: tuple[str, ...]
    engine: str | None = None
    dtype: str | None = None

    @property
    def rule(self) -> Rule:
        """What it means that the container has no cards: a service has had them at its start."""
        return LOST if self.engine else _symptoms.NO_CARDS

    def finding(self, rule: Rule, message: str) -> Finding:
        return rule.finding(message, host=self.host, hop=self.service)


def dtype(arguments: Sequence[str]) -> str | None:
    """The number format that an engine was told to use."""
    words = [word for argument in arguments for word in argument.split("=", 1)]
    return next((value for flag, value in zip(words, words[1:]) if flag == "--dtype"), None)


def no_listing(status: int) -> bool:
    """Whether nvidia-smi could not be run because the container has none."""
    return status in _MISSING_PROGRAM


def refused(subject: Subject, said: str) -> Finding:
    """The finding for a container that Docker did not start with cards."""
    found = _symptoms.recognise(said.splitlines())
    rule, line = (found[0].rule, found[1]) if found else (_symptoms.NO_CARDS, " ".join(said.split()))
    message = f"Docker on {subject.host} does not start a container with the cards of the {subject.service}: {line}"
    return subject.finding(rule, message)


def listing(subject: Subject, status: int, output: str) -> Iterator[Finding]:
    """What `nvidia-smi -L` in the container tells."""
    wanted = set(subject.cards)
    seen = set(re.findall(r"UUID: ((?:GPU|MIG)-[0-9A-Za-z/-]+)", output)) if status == 0 else set()
    if wanted <= seen:
        return
    if status != 0:
        reason = f"nvidia-smi in it says: {' '.join(output.split())}"
    else:
        reason = f"it sees {', '.join(sorted(seen)) or 'none'} and not {', '.join(sorted(wanted - seen))}"
    yield subject.finding(subject.rule, f"{_what(subject)} does not have its cards: {reason}.")


def device_file(subject: Subject, status: int, output: str) -> Iterator[Finding]:
    """The same from opening the driver's device, for images without nvidia-smi."""
    if status != 0:
        said = " ".join(output.split())
        yield subject.finding(subject.rule, f"{_what(subject)} cannot open the driver's device: {said}.")


def device(subject: Subject, info: Mapping[str, Any], log: Iterable[str]) -> Iterator[Finding]:
    """Whether the engine computes on the card: from the dtype that TEI reports, and from the log since its start."""
    pattern = _PROCESSOR.get(subject.engine or "")
    line = next((line for line in log if pattern is not None and pattern.search(line)), None)
    if line is not None:
        reason = f"its log says: {_symptoms.shown(line)}"
    elif subject.dtype == "float16" and info.get("model_dtype") == "float32":
        reason = "it reports float32, which it uses on the processor, and was told to use float16"
    else:
        return
    yield subject.finding(ON_PROCESSOR, f"The {subject.service} on {subject.host} computes on the processor: {reason}.")


def _what(subject: Subject) -> str:
    return f"The container {subject.container} of {subject.host}, for the {subject.service},"
