# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a target host is and has, before anything is changed on it. Reads only; stdlib only."""

from __future__ import annotations

import http.client
import json
import os
import platform
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Iterable
from typing import Any

INSTALLATION_LABEL = "org.plumbline.installation"
DOCKER_SOCKET = "/var/run/docker.sock"
DOCKER_CONFIG = "/etc/docker/daemon.json"
DOCKER_PIDFILE = "/var/run/docker.pid"
DOCKER_ROOT = "/var/lib/docker"
TOOLS = "/opt/plumbline/venv"
_SEARCH_PATH = os.pathsep.join(
    ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/snap/bin")
)
_TCP_LISTEN = "0A"
_COMPLETE = ".complete-"


class DockerUnavailable(Exception):
    """The engine does not answer; ``state`` is absent, stopped or broken."""

    def __init__(self, state: str, reason: str) -> None:
        super().__init__(reason)
        self.state = state
        self.reason = reason


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over the engine's Unix socket: the SDK may not be installed yet."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def gather(check_index: bool = False, index_timeout: int = 20) -> dict[str, Any]:
    """Everything the host rules look at; the package index is only asked when ``check_index`` is true."""
    docker, containers, images = _docker()
    return {
        "os": _os_release(),
        "arch": platform.machine(),
        "python": {"executable": sys.executable, "version": platform.python_version()},
        "memory_mb": _memory_mb(),
        "disk": {"docker": _disk(docker["root"]), "root": _disk("/")},
        "listening": listening(),
        "docker": docker,
        "containers": containers,
        "images": images,
        "tools": _tools(),
        "package_index": _ask_index(index_timeout) if check_index else {"asked": False, "answers": None, "reason": ""},
    }


def _tools() -> list[str]:
    """Digests of the lists of packages whose installation the role container_engine has completed."""
    names = os.listdir(TOOLS) if os.path.isdir(TOOLS) else []
    return sorted(name[len(_COMPLETE) :] for name in names if name.startswith(_COMPLETE))


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _os_release() -> dict[str, Any]:
    values: dict[str, str] = {}
    for line in _read("/etc/os-release").splitlines():
        key, separator, value = line.partition("=")
        if separator:
            values[key] = value.strip().strip("\"'")
    return {
        "id": values.get("ID", ""),
        "like": values.get("ID_LIKE", "").split(),
        "version": values.get("VERSION_ID", ""),
    }


def _memory_mb() -> int:
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) // 1024
    return 0


def _disk(path: str) -> dict[str, Any]:
    """Free space where ``path`` is, or will be once it is made."""
    existing = path
    while not os.path.exists(existing):
        existing = os.path.dirname(existing)
    usage = os.statvfs(existing)
    return {"path": path, "free_mb": usage.f_bavail * usage.f_frsize // 2**20, "device": os.stat(existing).st_dev}


def listening() -> list[dict[str, Any]]:
    """The TCP sockets that listen, as address and port."""
    found = {
        decode_endpoint(fields[1])
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for fields in (line.split() for line in _read(table).splitlines()[1:])
        if len(fields) > 3 and fields[3] == _TCP_LISTEN
    }
    return [{"address": address, "port": port} for address, port in sorted(found)]


def decode_endpoint(endpoint: str) -> tuple[str, int]:
    """Address and port of an entry of /proc/net/tcp, whose addresses are 32-bit words in host order."""
    words, port = endpoint.split(":")
    raw = b"".join(int(words[i : i + 8], 16).to_bytes(4, sys.byteorder) for i in range(0, len(words), 8))
    family = socket.AF_INET if len(raw) == 4 else socket.AF_INET6
    return socket.inet_ntop(family, raw), int(port, 16)


def _docker() -> tuple[dict[str, Any], list[dict[str, Any]], list[str]]:
    try:
        _ping()
        version = _get("/version")
        root = str(_get("/info").get("DockerRootDir") or DOCKER_ROOT)
        containers = [_container(entry) for entry in _get("/containers/json?all=1")]
        images = sorted({tag for entry in _get("/images/json") for tag in entry.get("RepoTags") or []})
    except DockerUnavailable as error:
        return {"state": error.state, "reason": error.reason, "version": "", "root": DOCKER_ROOT}, [], []
    return (
        {"state": "running", "reason": "", "version": str(version.get("Version", "")), "root": root},
        containers,
        images,
    )


def docker_info() -> dict[str, Any]:
    """What Docker says of itself; empty when it does not answer."""
    try:
        info: dict[str, Any] = _get("/info")
    except DockerUnavailable:
        return {}
    return info


def _container(entry: dict[str, Any]) -> dict[str, Any]:
    ports = {(port.get("IP", ""), port["PublicPort"]) for port in entry.get("Ports") or [] if port.get("PublicPort")}
    return {
        "name": entry["Names"][0].lstrip("/"),
        "image": entry["Image"],
        "installation": (entry.get("Labels") or {}).get(INSTALLATION_LABEL, ""),
        "published": [{"address": address, "port": port} for address, port in sorted(ports)],
    }


def _ping(patience: float = 10.0) -> None:
    """Return when the engine answers; an engine that is still starting gets ``patience`` seconds."""
    deadline = time.monotonic() + patience
    while True:
        try:
            _get("/_ping")
            return
        except DockerUnavailable as error:
            if error.state != "starting":
                raise
            if time.monotonic() > deadline:
                raise DockerUnavailable("broken", "dockerd runs but does not answer on " + DOCKER_SOCKET) from error
            time.sleep(0.5)


def _get(path: str) -> Any:
    connection = _UnixConnection(DOCKER_SOCKET, timeout=10)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
    except PermissionError as error:
        raise DockerUnavailable("broken", f"no permission to use {DOCKER_SOCKET}") from error
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError) as error:
        raise _why_silent() from error
    except (OSError, http.client.HTTPException) as error:
        raise DockerUnavailable("broken", f"the engine does not answer on {DOCKER_SOCKET}: {error}") from error
    finally:
        connection.close()
    if response.status != 200:
        raise DockerUnavailable("broken", f"the engine answers {response.status} on {path.partition('?')[0]}")
    return json.loads(body) if response.getheader("Content-Type", "").startswith("application/json") else body


def _why_silent() -> DockerUnavailable:
    """Tell an engine that is not installed or not started from one that cannot work."""
    dockerd = shutil.which("dockerd", mode=os.F_OK, path=_SEARCH_PATH)
    if os.path.exists(DOCKER_SOCKET) and not stat.S_ISSOCK(os.stat(DOCKER_SOCKET).st_mode):
        return DockerUnavailable("broken", f"{DOCKER_SOCKET} is not a socket")
    if dockerd is None:
        return DockerUnavailable("absent", "dockerd is not installed")
    if os.path.exists(DOCKER_CONFIG):
        try:
            json.loads(_read(DOCKER_CONFIG) or "{}")
        except ValueError as error:
            return DockerUnavailable("broken", f"{DOCKER_CONFIG} is not valid JSON: {error}")
    try:
        # run_command knows no timeout, and a broken binary may hang
        # pylint: disable-next=ansible-bad-function
        subprocess.run([dockerd, "--version"], check=True, capture_output=True, timeout=20)
    except (OSError, subprocess.SubprocessError) as error:
        return DockerUnavailable("broken", f"{dockerd} cannot be run: {error}")
    pid = _read(DOCKER_PIDFILE).strip()
    if pid and _read(f"/proc/{pid}/comm").strip() == "dockerd":
        return DockerUnavailable("starting", "dockerd is starting")
    if os.path.isdir("/run/systemd/system"):
        # pylint: disable-next=ansible-bad-function
        unit = subprocess.run(["systemctl", "is-failed", "docker.service"], check=False, capture_output=True, text=True)
        if unit.stdout.strip() == "failed":
            return DockerUnavailable("broken", "docker.service has failed; see journalctl -u docker.service")
    return DockerUnavailable("stopped", "dockerd is installed but does not run")


def _ask_index(timeout: int) -> dict[str, Any]:
    """Whether a small package can be fetched as this host is configured: by uv, which builds images, or else by pip."""
    uv = os.path.join(TOOLS, "bin", "uv")
    with tempfile.TemporaryDirectory() as folder:
        wanted = os.path.join(folder, "wanted.txt")
        with open(wanted, "w", encoding="utf-8") as file:
            file.write("docker\n")
        if os.path.exists(uv):
            command = [uv, "pip", "compile", "--quiet", "--no-cache", "--no-deps", "--python", sys.executable, wanted]
        else:
            command = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--no-cache-dir",
                "--retries",
                "0",
            ]
            command += [
                "--timeout",
                str(timeout),
                "--disable-pip-version-check",
                "--dest",
                folder,
                "--requirement",
                wanted,
            ]
        environment = {**os.environ, "UV_SYSTEM_CERTS": "1", "UV_HTTP_RETRIES": "0", "UV_HTTP_TIMEOUT": str(timeout)}
        try:
            # pylint: disable-next=ansible-bad-function
            result = subprocess.run(
                command, check=False, capture_output=True, text=True, timeout=3 * timeout, env=environment
            )
        except (OSError, subprocess.SubprocessError) as error:
            return {"asked": True, "answers": False, "reason": str(error)}
    if "No module named pip" in result.stderr:
        return {"asked": True, "answers": None, "reason": "pip is not installed yet"}
    if result.returncode == 0:
        return {"asked": True, "answers": True, "reason": ""}
    return {"asked": True, "answers": False, "reason": _first_error(result.stderr.splitlines())}


def _first_error(lines: Iterable[str]) -> str:
    """The tool's own reason, without user names and passwords of an index URL."""
    for line in lines:
        if "error" in line.lower():
            return " ".join(_without_credentials(word) for word in line.split())
    return "it failed without a message"


def _without_credentials(word: str) -> str:
    parts = urllib.parse.urlsplit(word.strip("'\"()")) if "://" in word else None
    return word.replace(f"{parts.netloc.rpartition('@')[0]}@", "") if parts and "@" in parts.netloc else word
