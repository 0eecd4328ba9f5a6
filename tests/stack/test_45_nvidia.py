"""The role nvidia on a host whose driver and toolkit are doubled by recorded output: real Docker, real CDI, real packages."""

from __future__ import annotations

import json
import subprocess

import pytest

from . import gpu_repository
from .conftest import ROOT, Run, docker, run

FOLDER = ROOT / "tests" / "stack" / "gpu_host"
IMAGE, HOST, VOLUME = "plumbline/gpu-host:debian13", "plumbline-gpu-host", "plumbline-gpu-host-docker"
CAPABILITIES = [
    *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP", "SETFCAP"),
    *("NET_BIND_SERVICE", "NET_ADMIN", "NET_RAW", "SYS_CHROOT", "SYS_PTRACE", "SYS_ADMIN", "MKNOD", "AUDIT_WRITE"),
]
CARD = "GPU-1c3b5a79-1f3f-4c0b-9d6a-0a2b4c6d8e0f"
OTHER = "GPU-2d4c6b8a-1f3f-4c0b-9d6a-0a2b4c6d8e0f"
SPECIFICATION = "/etc/cdi/nvidia.yaml"
SOURCES = "/etc/apt/sources.list.d/nvidia-container-toolkit.sources"


def shell(script: str, text: str = "") -> str:
    """What a shell on the host prints."""
    command = ["docker", "exec", "--interactive", HOST, "sh", "-euc", script]
    return subprocess.run(command, check=True, capture_output=True, text=True, input=text).stdout.strip()


def there(path: str) -> bool:
    return subprocess.run(["docker", "exec", HOST, "test", "-e", path], check=False).returncode == 0


def record(driver: str = "550.54.15", card: str = CARD) -> None:
    """Let nvidia-smi print this driver and, by -L, this card."""
    shell(
        "mkdir -p /etc/nvidia-smi; cat > /etc/nvidia-smi/query",
        f"0, {CARD}, NVIDIA L4, 8.9, 23034, 22561, {driver}, [N/A], [N/A]\n",
    )
    shell("cat > /etc/nvidia-smi/list", f"GPU 0: NVIDIA L4 (UUID: {card})\n")


@pytest.fixture(scope="module", autouse=True)
def fingerprint(tmp_path_factory):
    """The host, with the repository on it; yields the fingerprint of the repository's key."""
    folder = tmp_path_factory.mktemp("repository")
    key = gpu_repository.make(folder, FOLDER)
    assert run(str(FOLDER / "build")).status == 0
    capabilities = [word for name in CAPABILITIES for word in ("--cap-add", name)]
    options = ["--cgroupns", "private", "--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined"]
    mounts = ["--tmpfs", "/run", "--tmpfs", "/tmp:exec", "--volume", f"{VOLUME}:/var/lib/docker"]
    try:
        docker("run", "--detach", "--init", "--name", HOST, *options, *capabilities, *mounts, IMAGE)
        docker("cp", str(folder), f"{HOST}:/srv/repository")
        record()
        # what is missing comes from the repository under test alone
        shell("rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*")
        shell(
            "mkdir /srv/tiny; cd /srv/tiny; for f in /bin/sh /bin/sleep /bin/cat; do"
            ' for g in $f $(ldd $f | grep -o "/[^ ]*"); do mkdir -p .${g%/*}; cp -L $g .$g; done; done;'
            " mkdir -p usr/bin etc tmp; tar -c -f /etc/tiny.tar ."
        )
        yield key
    finally:
        subprocess.run(["docker", "rm", "--force", "--volumes", HOST], check=False, capture_output=True)
        subprocess.run(["docker", "volume", "rm", "--force", VOLUME], check=False, capture_output=True)


def role(key: str, *arguments: str, **variables: object) -> Run:
    """Run the plays of the host, or another part of the role."""
    settings = {
        "ansible_connection": "community.docker.docker",
        "ansible_host": HOST,
        "nvidia_toolkit_repository": "file:/srv/repository",
        "nvidia_toolkit_key": "file:///srv/repository/gpgkey",
        "nvidia_toolkit_key_fingerprint": key,
        **variables,
    }
    return run("ansible-playbook", str(FOLDER / "site.yml"), "-i", "gpu-host,", "-e", json.dumps(settings), *arguments)


WITHOUT_DOCKER = ("--skip-tags", "container_engine")
START = f"""/opt/plumbline/venv/bin/python -c '
import docker
card = docker.types.DeviceRequest(driver="cdi", device_ids=["nvidia.com/gpu={CARD}"])
docker.from_env().containers.run(
    "tiny:1", ["sleep", "600"], name="rag-gpu-embedder", network="rag-gpu", detach=True, device_requests=[card]
)
'"""


def dockerd() -> str:
    return shell("cat /var/run/docker.pid")


def test_another_key_is_refused_before_anything_trusts_it(fingerprint):
    result = role("0" * 40)
    assert result.status == 2
    assert f"has the fingerprint {fingerprint}, and nvidia_toolkit_key_fingerprint is {'0' * 40}" in " ".join(
        result.output.split()
    )
    assert not there(SOURCES)


def test_a_host_is_set_up_and_its_cards_are_tried(fingerprint):
    before = dockerd()
    result = role(fingerprint)
    assert result.status == 0
    assert result.output.count("TASK [plumbline.rag.container_engine : Stop the dockerd") == 1
    assert dockerd() != before
    assert json.loads(shell("cat /etc/docker/daemon.json")) == {"features": {"cdi": True}}
    assert shell("dpkg-query --show --showformat '${Version}' nvidia-container-toolkit") == "1.20.0-1"
    assert shell(f"head -n 1 {SPECIFICATION}") == f"# made for driver 550.54.15, toolkit 1.20.0, devices {CARD}"
    assert "trial" not in shell("ls /var/lib/docker/containers")


def test_a_second_run_changes_nothing(fingerprint):
    before = dockerd()
    result = role(fingerprint)
    assert result.status == 0
    assert result.recap()["changed"] == 0
    assert dockerd() == before


def test_another_driver_makes_another_specification_and_no_restart(fingerprint):
    before, old = dockerd(), shell(f"cat {SPECIFICATION}")
    record(driver="550.90.07")
    tried = role(fingerprint, *WITHOUT_DOCKER, "--check")
    assert (tried.status, tried.recap()["changed"], shell(f"cat {SPECIFICATION}")) == (0, 1, old)
    result = role(fingerprint, *WITHOUT_DOCKER)
    assert result.status == 0
    assert result.recap()["changed"] == 1
    assert shell(f"head -n 1 {SPECIFICATION}") == f"# made for driver 550.90.07, toolkit 1.20.0, devices {CARD}"
    assert dockerd() == before


def test_a_container_that_is_given_another_card_is_found(fingerprint):
    record(driver="550.90.07", card=OTHER)
    result = role(fingerprint, *WITHOUT_DOCKER)
    assert result.status == 2
    said = " ".join(result.output.split())
    assert (
        f"PL301: The container rag-gpu-embedder-trial of gpu-host, for the embedder, does not have its cards: it sees {OTHER}"
        in said
    )
    assert shell("ls /var/lib/docker/containers") == ""
    record(driver="550.90.07")


def test_a_running_container_that_loses_its_card_is_found(fingerprint):
    shell(START)
    assert role(fingerprint, *WITHOUT_DOCKER, part="recheck").status == 0
    shell("mv /etc/nvidia-smi/list /etc/nvidia-smi/lost")
    result = role(fingerprint, *WITHOUT_DOCKER, part="recheck")
    assert result.status == 2
    assert "PL315: The container rag-gpu-embedder of gpu-host" in " ".join(result.output.split())
    assert "Failed to initialize NVML: Unknown Error" in result.output


def test_the_runtime_hands_out_the_same_card(fingerprint):
    shell("mv /etc/nvidia-smi/lost /etc/nvidia-smi/list")
    result = role(fingerprint, *WITHOUT_DOCKER, nvidia_device_form="runtime")
    assert result.status == 0
    assert json.loads(shell("cat /etc/docker/daemon.json")) == {
        "features": {"cdi": True},
        "runtimes": {"nvidia": {"args": [], "path": "nvidia-container-runtime"}},
    }


def test_it_goes_and_leaves_the_packages(fingerprint):
    assert role(fingerprint, *WITHOUT_DOCKER, part="uninstall").status == 0
    left = [SPECIFICATION, SOURCES, "/etc/docker/daemon.json", "/var/lib/plumbline/nvidia.json"]
    assert [path for path in left if there(path)] == []
    assert shell("dpkg-query --show --showformat '${Version}' nvidia-container-toolkit") == "1.20.0-1"
