# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the driver's tools print, in the format that they document, read as data."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _gpu

L4 = "0, GPU-11111111-2222-3333-4444-555555555555, NVIDIA L4, 8.9, 23034, 22561, 550.54.15, [N/A], [N/A]\n"
A100 = "1, GPU-aaaaaaaa-2222-3333-4444-555555555555, NVIDIA A100-SXM4-40GB, 8.0, 40960, 40337, 550.54.15, Enabled, Enabled\n"
H200 = "0, GPU-99999999-2222-3333-4444-555555555555, NVIDIA H200, 9.0, 143771, 143155, 570.86.15, Disabled, Disabled\n"
V100 = "0, GPU-77777777-2222-3333-4444-555555555555, Tesla V100-PCIE-16GB, 7.0, 16384, 16151, 535.183.01, [Not Supported], [Not Supported]\n"
SPARK = "0, GPU-55555555-2222-3333-4444-555555555555, NVIDIA GB10, 12.1, [N/A], [N/A], 580.95.05, [N/A], [N/A]\n"
PROCESSES = (
    "GPU-11111111-2222-3333-4444-555555555555, 4211, /usr/local/bin/text-embeddings-router, 1210\n"
    'GPU-11111111-2222-3333-4444-555555555555, 977, "python3, with a comma", [N/A]\n'
)
LIST = """GPU 0: NVIDIA L4 (UUID: GPU-11111111-2222-3333-4444-555555555555)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-aaaaaaaa-2222-3333-4444-555555555555)
  MIG 3g.20gb     Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)
  MIG 1g.5gb      Device  1: (UUID: MIG-0c757cd7-e942-5726-a0b8-0e8fb7067135)
"""
KERNEL = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version:  gcc version 12.2.0\n"
OPEN_KERNEL = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (dvs-builder@U16)\n"
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n"
)
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.90\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (L4, ("NVIDIA L4", "8.9", 23034, 22561, False)),
        (A100, ("NVIDIA A100-SXM4-40GB", "8.0", 40960, 40337, True)),
        (H200, ("NVIDIA H200", "9.0", 143771, 143155, False)),
        (V100, ("Tesla V100-PCIE-16GB", "7.0", 16384, 16151, False)),
        (SPARK, ("NVIDIA GB10", "12.1", None, None, False)),
    ],
)
def test_a_card(text: str, expected: tuple[Any, ...]) -> None:
    (card,) = _gpu.cards(text)
    assert tuple(card[name] for name in ("name", "compute_capability", "memory_mb", "free_mb", "mig")) == expected


@pytest.mark.parametrize(
    "text", ["", "No devices were found\n", NO_DRIVER, MISMATCH, 'Field "compute_cap" is not a valid field\n']
)
def test_no_card(text: str) -> None:
    assert _gpu.cards(text) == []


def test_processes_and_instances_belong_to_their_card() -> None:
    cards = _gpu.attach(_gpu.cards(L4 + A100), _gpu.processes(PROCESSES), _gpu.instances(LIST))
    assert cards[0]["processes"] == [
        {"pid": 4211, "name": "/usr/local/bin/text-embeddings-router", "memory_mb": 1210},
        {"pid": 977, "name": "python3, with a comma", "memory_mb": None},
    ]
    assert cards[0]["instances"] == []
    assert [instance["profile"] for instance in cards[1]["instances"]] == ["3g.20gb", "1g.5gb"]
    assert cards[1]["instances"][0]["uuid"] == "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f"


@pytest.mark.parametrize(("text", "version"), [(KERNEL, "550.54.15"), (OPEN_KERNEL, "570.86.15"), ("", None)])
def test_kernel_version(text: str, version: str | None) -> None:
    assert _gpu.kernel_version(text) == version


def test_library_version_is_the_newest_file() -> None:
    names = ["libnvidia-ml.so.1", "libnvidia-ml.so.550.54.15", "libnvidia-ml.so.550.120", "libnvidia-ml.so"]
    assert _gpu.library_version(names) == "550.120"
    assert _gpu.library_version([]) is None


@pytest.mark.parametrize(
    ("status", "output", "kernel", "library", "state"),
    [
        (None, "", None, None, "absent"),
        (None, "", "550.54.15", "550.54.15", "broken"),
        (0, L4, "550.54.15", "550.54.15", "works"),
        (0, L4, "550.54.15", None, "works"),
        (0, L4, "550.54.15", "550.54", "works"),
        (0, L4, "550.54.15", "550.90.07", "mismatch"),
        (18, MISMATCH, "550.54.15", None, "mismatch"),
        (9, NO_DRIVER, None, "550.54.15", "broken"),
        (6, "No devices were found\n", "550.54.15", "550.54.15", "works"),
        (255, "Failed to initialize NVML: Unknown Error\n", "550.54.15", "550.54.15", "broken"),
        (15, "Unable to determine the device handle for GPU0000:01:00.0: GPU is lost.\n", "550.1", "550.1", "broken"),
    ],
)
def test_driver(status: int | None, output: str, kernel: str | None, library: str | None, state: str) -> None:
    found = _gpu.driver(status, output, kernel, library)
    assert found["state"] == state
    assert bool(found["reason"]) is (state in ("absent", "broken") or "mismatch" in output or state == "mismatch")


def test_the_error_names_the_library() -> None:
    assert _gpu.driver(18, MISMATCH, "550.54.15", None)["library"] == "550.90"


CDI = {"/etc/cdi/nvidia.yaml": "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\n"}
RUNTIMES = {"Runtimes": {"runc": {}, "nvidia": {"path": "nvidia-container-runtime"}}}


@pytest.mark.parametrize(
    ("info", "files", "runtime", "cdi", "form"),
    [
        ({}, {}, False, False, "runtime"),
        ({"ServerVersion": "20.10.24+dfsg1"}, CDI, False, False, "runtime"),
        ({"ServerVersion": "25.0.5"}, {}, False, False, "cdi"),
        ({"ServerVersion": "24.0.9"}, {}, False, False, "runtime"),
        ({"ServerVersion": "27.5.1", **RUNTIMES}, CDI, True, False, "runtime"),
        ({"ServerVersion": "29.0.0", "CDISpecDirs": ["/etc/cdi"], **RUNTIMES}, {}, True, False, "cdi"),
        ({"CDISpecDirs": ["/etc/cdi"]}, CDI, False, True, "cdi"),
        ({"CDISpecDirs": ["/etc/cdi"]}, {"/etc/cdi/nvidia.json": '{"kind":"nvidia.com/gpu"}'}, False, True, "cdi"),
        ({"CDISpecDirs": ["/etc/cdi"]}, {"/etc/cdi/other.yaml": "kind: vendor.com/net\n"}, False, False, "cdi"),
        ({"CDISpecDirs": None}, CDI, False, False, "runtime"),
    ],
)
def test_docker_support(info: dict[str, Any], files: dict[str, str], runtime: bool, cdi: bool, form: str) -> None:
    found = _gpu.docker_support(info, files)
    assert (found["runtime"], found["cdi"], found["form"], found["snap"]) == (runtime, cdi, form, False)


def test_docker_of_a_snap() -> None:
    assert _gpu.docker_support({"DockerRootDir": "/var/snap/docker/common/var-lib-docker"}, {})["snap"] is True


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVIDIA Container Toolkit CLI version 1.20.0\ncommit: d34b3046\n", "1.20.0"),
        ("NVIDIA Container Toolkit CLI version 1.17.8\n", "1.17.8"),
        ("", None),
    ],
)
def test_toolkit_version(text: str, version: str | None) -> None:
    assert _gpu.toolkit_version(text) == version


def both() -> list[dict[str, Any]]:
    return _gpu.attach(_gpu.cards(L4 + A100), [], _gpu.instances(LIST))


def test_a_specification_says_what_it_was_made_for() -> None:
    wanted = (
        "driver 550.54.15, toolkit 1.20.0, devices GPU-11111111-2222-3333-4444-555555555555 "
        "GPU-aaaaaaaa-2222-3333-4444-555555555555 MIG-0c757cd7-e942-5726-a0b8-0e8fb7067135 "
        "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f"
    )
    files = {"/etc/cdi/nvidia.yaml": f"# made for {wanted}\nkind: nvidia.com/gpu\n"}
    found = _gpu.specification("550.54.15", "1.20.0", both(), files)
    assert found == {"path": "/etc/cdi/nvidia.yaml", "recorded": wanted, "wanted": wanted, "foreign": []}
    assert _gpu.specification("550.90.07", "1.20.0", both(), files)["wanted"] != wanted


def test_the_specifications_of_others() -> None:
    files = {
        "/etc/cdi/nvidia.yaml": "kind: nvidia.com/gpu\n",
        "/etc/cdi/cards.yaml": "kind: nvidia.com/gpu\n",
        "/etc/cdi/net.yaml": "kind: vendor.com/net\n",
        "/var/run/cdi/nvidia.yaml": "kind: nvidia.com/gpu\n",
    }
    found = _gpu.specification("550.54.15", "1.20.0", [], files)
    assert (found["recorded"], found["foreign"]) == (None, ["/etc/cdi/cards.yaml"])


@pytest.mark.parametrize(
    ("form", "driver", "ids"),
    [
        ("runtime", "nvidia", ["GPU-11111111-2222-3333-4444-555555555555", "MIG-0c757cd7-e942-5726-a0b8-0e8fb7067135"]),
        (
            "cdi",
            "cdi",
            [
                "nvidia.com/gpu=GPU-11111111-2222-3333-4444-555555555555",
                "nvidia.com/gpu=MIG-0c757cd7-e942-5726-a0b8-0e8fb7067135",
            ],
        ),
    ],
)
def test_device_requests_state_every_field(form: str, driver: str, ids: list[str]) -> None:
    assert _gpu.device_requests([0, "MIG-0c757cd7"], both(), form) == [
        {"driver": driver, "count": 0, "device_ids": ids, "capabilities": [["gpu"]], "options": {}}
    ]


def test_a_card_that_is_not_there_is_not_asked_for() -> None:
    with pytest.raises(ValueError, match="card 7 is not there"):
        _gpu.device_requests([7], both(), "cdi")


def test_the_services_that_compute_on_cards() -> None:
    services = {
        "images": [],
        "embedder": {"gpus": [0], "device": "gpu"},
        "reranker": {"gpus": [0], "device": "cpu"},
        "other": {"gpus": [], "device": "gpu"},
    }
    assert list(_gpu.users(services)) == ["embedder"]
