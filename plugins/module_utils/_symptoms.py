# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why an engine's container does not get ready, read from its log: what TEI and vLLM write, and what it means. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, Finding, Rule, register

NO_CARDS = register(
    "PL301",
    ERROR,
    "A container is not given its graphics cards",
    "The engine does not start, or computes on the processor without saying so.",
    "Look at `nvidia-smi` on the host and run again; where the driver, the toolkit or Docker was changed, reboot first.",
    source="NVIDIA/nvidia-docker#1034, NVIDIA/nvidia-docker#1637, NVIDIA/nvidia-container-toolkit#871",
    acknowledgeable=False,
)
WRONG_IMAGE = register(
    "PL302",
    ERROR,
    "The engine is not compiled for the card",
    "It ends at each start, for ever.",
    "Use another card or another engine; a tag or dtype that was set by hand has to suit the card's compute capability.",
    source="huggingface/text-embeddings-inference#15, huggingface/text-embeddings-inference#640, huggingface/text-embeddings-inference#806",
    acknowledgeable=False,
)
CARD_FULL = register(
    "PL303",
    ERROR,
    "The card has too little memory for the engine",
    "It ends at each start; which of two services on one card that is depends on who starts first.",
    "Free the card (`nvidia-smi` lists what is on it), or lower --gpu-memory-utilization (vLLM) or --max-batch-tokens (TEI) "
    "in rag_embedder_extra_args or rag_reranker_extra_args.",
    source="vllm-project/vllm#10533, vllm-project/vllm#12308, huggingface/text-embeddings-inference#670",
    acknowledgeable=False,
)
BAD_ARGUMENT = register(
    "PL304",
    ERROR,
    "The engine does not accept an argument",
    "It ends before it loads anything.",
    "Correct rag_embedder_extra_args or rag_reranker_extra_args for the version of the engine that is deployed.",
    source="vllm-project/vllm#21470, gpustack/gpustack#3991",
    acknowledgeable=False,
)
UNSUPPORTED_MODEL = register(
    "PL305",
    ERROR,
    "The engine cannot serve the model",
    "It has no code for the architecture, or not on this device.",
    "Use the other engine (tei or vllm), a newer version of it, or another model; `plumbline.rag.catalog` lists what is known to work.",
    source="huggingface/text-embeddings-inference#261, huggingface/text-embeddings-inference#514",
    acknowledgeable=False,
)
HUB_REFUSES = register(
    "PL306",
    ERROR,
    "The model hub refuses the weights",
    "The model is gated or private, or its name is misspelt: the hub answers 401 or 403 in all three cases.",
    "Accept the model's terms with the account of the token, give the token, and compare the model's name with the hub.",
    acknowledgeable=False,
)
HUB_UNREACHABLE = register(
    "PL307",
    ERROR,
    "The model hub cannot be reached from the host",
    "The weights cannot be downloaded, and the engine tries for ever.",
    "Open the way to the hub (name resolution, proxy, certificate authority), or bring the weights to the host.",
    acknowledgeable=False,
)
OLD_DRIVER = register(
    "PL308",
    ERROR,
    "The driver is too old for the CUDA of the image",
    "Docker does not start the container, or the engine ends when it first uses the card.",
    "Install a newer driver on the host and reboot.",
    acknowledgeable=False,
)
SHARED_MEMORY = register(
    "PL309",
    ERROR,
    "The container has too little shared memory",
    "The engine's processes exchange data in /dev/shm, of which Docker gives 64 MB.",
    "Raise vllm_shm_size.",
    acknowledgeable=False,
)
FOLDER_DENIED = register(
    "PL310",
    ERROR,
    "The engine may not write to its folder of weights",
    "It runs as an unprivileged user, and the folder belongs to another one.",
    "Give the folder or volume to the user 65534, with read and write access for it.",
    acknowledgeable=False,
)
PORT_TAKEN = register(
    "PL311",
    ERROR,
    "The port that the engine listens on is in use",
    "It ends at each start.",
    "Look for a second server in the container's arguments, or for --network host; another program may hold the port.",
    acknowledgeable=False,
)
MEMORY_LIMIT = register(
    "PL312",
    ERROR,
    "The kernel ends the container because it is over its memory limit",
    "Weights are read through the host's memory before they lie on the card.",
    "Use a host with more memory, a smaller model, or smaller batches.",
    acknowledgeable=False,
)
DISK_FULL = register(
    "PL313",
    ERROR,
    "There is no disk space left for the weights",
    "The download ends half-way and starts again.",
    "Free space where Docker keeps its volumes (`docker system df`), then run again.",
    acknowledgeable=False,
)
UNEXPLAINED = register(
    "PL314",
    ERROR,
    "A container does not get ready, for a reason that is not known here",
    "Waiting longer is in vain when it keeps ending.",
    "Read the end of its log, correct the cause, and run the same command again.",
    acknowledgeable=False,
)
BROKEN_WEIGHTS = register(
    "PL317",
    ERROR,
    "The weights are missing or incomplete",
    "A file is not there, or is a Git LFS pointer instead of the file itself.",
    "Remove the incomplete files from the folder or volume of the weights, or fetch them again with Git LFS.",
    acknowledgeable=False,
)


@dataclass(frozen=True)
class Symptom:
    """Lines of a log that mean one thing. What may be over at the next start is ``passing``: once is no proof."""

    rule: Rule
    meaning: str
    patterns: tuple[str, ...]
    passing: bool = False

    def line(self, lines: Iterable[str]) -> str | None:
        """The last line that shows it."""
        return next(
            (line for line in reversed(list(lines)) if any(re.search(pattern, line) for pattern in self.patterns)), None
        )


# Causes come before what they lead to: the first symptom of the table that a log shows is the explanation.
SYMPTOMS = (
    Symptom(
        WRONG_IMAGE,
        "it is not compiled for this kind of card",
        (
            r"Runtime compute cap \d+ is not compatible with compile time compute cap",
            r"cuda compute cap \d+ is not supported",
            r"no kernel image is available for execution on the device",
            r"Bfloat16 is only supported on GPUs",
        ),
    ),
    Symptom(
        OLD_DRIVER,
        "the driver of the host is too old for it",
        (
            r"unsatisfied condition: (?:cuda|driver)",
            r"The NVIDIA driver on your system is too old",
            r"CUDA driver version is insufficient for CUDA runtime version",
            r"CUDA_ERROR_(?:SYSTEM_DRIVER_MISMATCH|UNSUPPORTED_PTX_VERSION)",
            r"unsupported display driver / cuda driver combination",
        ),
    ),
    Symptom(
        BAD_ARGUMENT,
        "it does not accept an argument",
        (
            r"error: unexpected argument '",
            r"error: invalid value '.*' for '--",
            r"error: the argument '.*' cannot be used (?:with|multiple times)",
            r"error: a value is required for '--",
            r"error: unrecognized arguments:",
            r"error: argument --\S+: ",
            r"is only supported in fp32 precision",
            r"does not support float16\. Reason",
            r"max_model_len \(\S+\) is greater than the derived max_model_len",
        ),
    ),
    Symptom(
        SHARED_MEMORY,
        "its shared memory is too small",
        (r"Insufficient space in /dev/shm", r"No space left on device: '/?psm_", r"DataLoader worker .* Bus error"),
    ),
    Symptom(
        FOLDER_DENIED,
        "it may not write to its folder of weights",
        (
            r"Permission denied \(os error 13\)",
            r"PermissionError: \[Errno 13\] Permission denied",
            r"PermissionError at /\S+ when downloading",
        ),
    ),
    Symptom(DISK_FULL, "the disk is full", (r"No space left on device", r"Not enough free disk space")),
    Symptom(
        HUB_REFUSES,
        "the model hub refuses the weights",
        (
            r"HTTP status client error \((?:401|403) ",
            r"\b(?:401|403) Client Error",
            r"Cannot access gated repo",
            r"You are trying to access a gated repo",
            r"Repository Not Found for url",
        ),
    ),
    Symptom(
        HUB_UNREACHABLE,
        "the model hub cannot be reached",
        (
            r"error sending request for url",
            r"dns error: ",
            r"Failed to resolve '",
            r"Temporary failure in name resolution",
            r"Name or service not known",
            r"Network is unreachable",
            r"We couldn't connect to 'https?://",
            r"LocalEntryNotFoundError",
            r"certificate verify failed",
            r"invalid peer certificate",
        ),
        passing=True,
    ),
    Symptom(
        BROKEN_WEIGHTS,
        "its weights are missing or incomplete",
        (
            r"HeaderTooLarge|InvalidHeaderDeserialization|MetadataIncompleteBuffer|Error while deserializing header",
            r"`config\.json` not found",
            r"does not appear to have a file named",
            r"outgoing traffic has been disabled",
            r"Cannot find any model weights",
        ),
    ),
    Symptom(
        UNSUPPORTED_MODEL,
        "it cannot serve the model",
        (
            r"Model architectures \[.*\] are not supported for now",
            r"does not recognize this architecture",
            r"is only supported on Cuda devices in fp16",
            r"unknown variant `.*`, expected one of",
            r"we could not find a pooling configuration",
            r"Failed to parse `config\.json`",
            r"This model does not support `?--(?:runner|task) (?:pooling|embed|score)",
        ),
    ),
    Symptom(
        CARD_FULL,
        "its card has too little free memory",
        (
            r"CUDA_ERROR_OUT_OF_MEMORY",
            r"CUDA out of memory",
            r"CUDA error: out of memory",
            r"on startup is less than desired GPU memory utilization",
            r"No available memory for the cache blocks",
        ),
        passing=True,
    ),
    Symptom(
        NO_CARDS,
        "it sees no card",
        (
            r"could not select device driver",
            r"(?:unresolvable CDI devices|CDI device injection failed)",
            r"nvidia-container-cli: (?:initialization|device|mount|ldcache|detection|container) error",
            r"failed to fulfil mount request: .*nvidia",
            r"Failed to infer device type",
            r"No CUDA GPUs are available",
            r"no CUDA-capable device is detected",
            r"libcuda\.so\.1: cannot open shared object file",
            r"'nvidia-smi' command not found",
            r"Failed to initialize NVML",
        ),
    ),
    Symptom(
        PORT_TAKEN,
        "its port is in use",
        (r"Address already in use \(os error 98\)", r"\[Errno 98\]", r"Could not bind TCP Listener"),
    ),
)
_KILLED = 137
_LONGEST = 300


def recognise(lines: Iterable[str]) -> tuple[Symptom, str] | None:
    """What a log tells, and the line that tells it; None when nothing of it is known."""
    written = list(lines)
    for symptom in SYMPTOMS:
        line = symptom.line(written)
        if line is not None:
            return symptom, shown(line)
    return None


def explain(container: str, what: str, state: Mapping[str, Any], lines: Iterable[str]) -> Finding:
    """The finding for a container that does not get ready; ``what`` says how that shows, ``state`` is the engine's."""
    found = recognise(lines)
    where = {"hop": container}
    if found is not None:
        symptom, line = found
        return symptom.rule.finding(f"{container}: {what}, because {symptom.meaning}: {line}", **where)
    if state.get("OOMKilled") or state.get("ExitCode") == _KILLED:
        return MEMORY_LIMIT.finding(f"{container}: {what}, because the kernel ended it for its use of memory.", **where)
    return UNEXPLAINED.finding(f"{container}: {what}; its log does not say why in words that are known here.", **where)


def shown(line: str) -> str:
    """The message of a line, also of one that is JSON, shortened."""
    try:
        entry = json.loads(line)
    except ValueError:
        entry = None
    text = str(entry["message"]) if isinstance(entry, dict) and "message" in entry else line
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
