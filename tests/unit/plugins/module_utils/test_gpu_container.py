# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a container with cards tells of them: whether it sees them, and whether its engine uses them."""

from __future__ import annotations

import dataclasses

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _gpu_container

CARD = "GPU-1c3b5a79-1f3f-4c0b-9d6a-0a2b4c6d8e0f"
PART = "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f"
SERVICE = _gpu_container.Subject("embedder", "box", "rag-embedder", (CARD,), "tei", "float16")
TRIAL = dataclasses.replace(SERVICE, container="rag-embedder-trial", engine=None)
LISTED = f"GPU 0: NVIDIA L4 (UUID: {CARD})\n"
DIVIDED = f"GPU 0: NVIDIA A100-SXM4-40GB (UUID: {CARD})\n  MIG 3g.20gb     Device  0: (UUID: {PART})\n"
LOST = "Failed to initialize NVML: Unknown Error\n"


@pytest.mark.rule("PL301", "PL315", fires=False)
@pytest.mark.parametrize("subject", [SERVICE, TRIAL])
def test_a_container_with_its_cards(subject: _gpu_container.Subject) -> None:
    assert list(_gpu_container.listing(subject, 0, LISTED)) == []
    assert list(_gpu_container.listing(dataclasses.replace(subject, cards=(PART,)), 0, DIVIDED)) == []
    assert list(_gpu_container.device_file(subject, 0, "")) == []


@pytest.mark.rule("PL315", fires=True)
@pytest.mark.rule("PL301", fires=False)
@pytest.mark.parametrize(
    ("status", "output", "text"),
    [
        (255, LOST, "nvidia-smi in it says: Failed to initialize NVML: Unknown Error."),
        (0, "", f"it sees none and not {CARD}."),
        (0, LISTED.replace("1c3b", "2d4c"), f"it sees {CARD.replace('1c3b', '2d4c')} and not {CARD}."),
    ],
)
def test_a_running_container_without_its_cards(status: int, output: str, text: str) -> None:
    (finding,) = _gpu_container.listing(SERVICE, status, output)
    assert finding.message == f"The container rag-embedder of box, for the embedder, does not have its cards: {text}"
    assert finding.where == {"host": "box", "hop": "embedder"}


@pytest.mark.rule("PL301", fires=True)
@pytest.mark.rule("PL315", fires=False)
def test_a_trial_without_its_cards() -> None:
    assert [finding.id for finding in _gpu_container.listing(TRIAL, 255, LOST)] == ["PL301"]


@pytest.mark.rule("PL315", fires=True)
def test_a_container_without_nvidia_smi() -> None:
    assert [_gpu_container.no_listing(status) for status in (0, 1, 126, 127, 255)] == [False, False, True, True, False]
    said = "sh: 1: cannot open /dev/nvidiactl: Operation not permitted\n"
    (finding,) = _gpu_container.device_file(SERVICE, 2, said)
    assert finding.message.endswith(
        "cannot open the driver's device: sh: 1: cannot open /dev/nvidiactl: Operation not permitted."
    )


@pytest.mark.parametrize(
    ("said", "rule", "text"),
    [
        pytest.param(
            'Error starting container: could not select device driver "nvidia" with capabilities: [[gpu]]',
            "PL301",
            "could not select device driver",
            marks=pytest.mark.rule("PL301", fires=True),
        ),
        pytest.param(
            "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.9, please update your driver",
            "PL308",
            "unsatisfied condition: cuda>=12.9",
            marks=pytest.mark.rule("PL308", fires=True),
        ),
        pytest.param("something\n new", "PL301", ": something new", marks=pytest.mark.rule("PL301", fires=True)),
    ],
)
def test_a_container_that_docker_does_not_start(said: str, rule: str, text: str) -> None:
    finding = _gpu_container.refused(TRIAL, said)
    assert finding.id == rule
    assert finding.message.startswith("Docker on box does not start a container with the cards of the embedder: ")
    assert text in finding.message


CPU_LINES = {
    "tei": [
        '{"level":"WARN","message":"Could not find a compatible CUDA device on host: CUDA is not available"}',
        '{"level":"INFO","message":"Starting Bert model on Cpu"}',
    ],
    "vllm": [
        "INFO 05-04 10:00:01 [__init__.py:287] Automatically detected platform cpu.",
        "INFO 05-04 10:00:09 [core.py:98] Initializing a V1 LLM engine (v0.33.0) with config: model='m', device_config=cpu, ",
    ],
}
CARD_LINES = {
    "tei": ['{"level":"INFO","message":"Starting FlashBert model on Cuda(CudaDevice(DeviceId(1)))"}'],
    "vllm": ["INFO 05-04 10:00:01 [__init__.py:287] Automatically detected platform cuda.", "device_config=cuda, "],
}


@pytest.mark.rule("PL316", fires=True)
@pytest.mark.parametrize(("engine", "line"), [(engine, line) for engine, lines in CPU_LINES.items() for line in lines])
def test_a_log_that_names_the_processor(engine: str, line: str) -> None:
    (finding,) = _gpu_container.device(dataclasses.replace(SERVICE, engine=engine), {}, ["something", line])
    assert finding.message.startswith("The embedder on box computes on the processor: its log says: ")


@pytest.mark.rule("PL316", fires=True)
def test_the_dtype_of_the_processor() -> None:
    (finding,) = _gpu_container.device(SERVICE, {"model_dtype": "float32"}, [])
    assert finding.message == (
        "The embedder on box computes on the processor: it reports float32, which it uses on the processor, and was told "
        "to use float16."
    )


@pytest.mark.rule("PL316", fires=False)
@pytest.mark.parametrize(
    ("dtype", "info"),
    [
        ("float16", {"model_dtype": "float16"}),
        ("float16", {}),
        # what the model needs is no sign
        ("float32", {"model_dtype": "float32"}),
        (None, {"model_dtype": "float32"}),
    ],
)
@pytest.mark.parametrize("engine", CARD_LINES)
def test_an_engine_on_its_card(engine: str, dtype: str | None, info: dict[str, str]) -> None:
    subject = dataclasses.replace(SERVICE, engine=engine, dtype=dtype)
    assert list(_gpu_container.device(subject, info, CARD_LINES[engine])) == []


@pytest.mark.parametrize(
    ("arguments", "dtype"),
    [
        (["--auto-truncate", "true", "--dtype", "float16"], "float16"),
        (["--dtype=float32"], "float32"),
        (["--port", "80"], None),
        ([], None),
    ],
)
def test_dtype(arguments: list[str], dtype: str | None) -> None:
    assert _gpu_container.dtype(arguments) == dtype
