# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a host is read: against real files, sockets and processes, and a missing engine."""

from __future__ import annotations

import http.server
import os
import socket
import socketserver
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _host


@pytest.fixture
def engine_paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A host without Docker: its socket, programs and configuration would be below the returned folder."""
    monkeypatch.setattr(_host, "DOCKER_SOCKET", str(tmp_path / "docker.sock"))
    monkeypatch.setattr(_host, "DOCKER_CONFIG", str(tmp_path / "daemon.json"))
    monkeypatch.setattr(_host, "DOCKER_PIDFILE", str(tmp_path / "docker.pid"))
    monkeypatch.setattr(_host, "_SEARCH_PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    return tmp_path


def install(paths: Path, status: int = 0) -> None:
    dockerd = paths / "bin" / "dockerd"
    dockerd.write_text(f"#!/bin/sh\nexit {status}\n")
    dockerd.chmod(dockerd.stat().st_mode | stat.S_IXUSR)


def state() -> tuple[str, str]:
    docker, containers, images = _host._docker()
    assert docker["state"] == "running" or (containers, images) == ([], [])
    return docker["state"], docker["reason"]


def test_absent(engine_paths: Path) -> None:
    assert state()[0] == "absent"


def test_stopped(engine_paths: Path) -> None:
    install(engine_paths)
    assert state()[0] == "stopped"


def test_dead_socket_is_stopped(engine_paths: Path) -> None:
    install(engine_paths)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(_host.DOCKER_SOCKET)
    assert state()[0] == "stopped"


def test_broken_program(engine_paths: Path) -> None:
    install(engine_paths, status=1)
    assert state()[0] == "broken"


def test_broken_configuration(engine_paths: Path) -> None:
    install(engine_paths)
    (engine_paths / "daemon.json").write_text("{oops")
    assert state() == ("broken", f"{_host.DOCKER_CONFIG} is not valid JSON: " + state()[1].partition("JSON: ")[2])


def test_socket_is_a_file(engine_paths: Path) -> None:
    (engine_paths / "docker.sock").write_text("")
    assert state() == ("broken", f"{_host.DOCKER_SOCKET} is not a socket")


CONTAINERS = b"""[
  {"Names": ["/web"], "Image": "web:1", "Labels": {"org.plumbline.installation": "blue"},
   "Ports": [{"IP": "0.0.0.0", "PublicPort": 80, "PrivatePort": 8080}, {"PrivatePort": 9000}]},
  {"Names": ["/db"], "Image": "db:1", "Labels": null, "Ports": null}
]"""


class _Engine(http.server.BaseHTTPRequestHandler):
    answers: ClassVar[dict[str, tuple[int, bytes]]] = {}

    def do_GET(self) -> None:
        status, body = self.answers[self.path]
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def engine(engine_paths: Path) -> Iterator[type[_Engine]]:
    with socketserver.UnixStreamServer(_host.DOCKER_SOCKET, _Engine) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield _Engine
        server.shutdown()
        thread.join()


def test_running(engine: type[_Engine]) -> None:
    engine.answers = {
        "/_ping": (200, b'"OK"'),
        "/version": (200, b'{"Version": "20.10.24"}'),
        "/info": (200, b'{"DockerRootDir": "/data/docker"}'),
        "/containers/json?all=1": (200, CONTAINERS),
        "/images/json": (200, b'[{"RepoTags": ["b:1", "a:1"]}, {"RepoTags": null}]'),
    }
    docker, containers, images = _host._docker()
    assert docker == {"state": "running", "reason": "", "version": "20.10.24", "root": "/data/docker"}
    assert containers == [
        {"name": "web", "image": "web:1", "installation": "blue", "published": [{"address": "0.0.0.0", "port": 80}]},
        {"name": "db", "image": "db:1", "installation": "", "published": []},
    ]
    assert images == ["a:1", "b:1"]


def test_failing_engine(engine: type[_Engine]) -> None:
    engine.answers = {"/_ping": (500, b"{}")}
    assert state() == ("broken", "the engine answers 500 on /_ping")


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("0100007F:0BB8", ("127.0.0.1", 3000)),
        ("00000000:0016", ("0.0.0.0", 22)),
        ("00000000000000000000000000000000:0050", ("::", 80)),
        ("00000000000000000000000001000000:0050", ("::1", 80)),
    ],
)
def test_decode_endpoint(endpoint: str, expected: tuple[str, int]) -> None:
    assert _host.decode_endpoint(endpoint) == expected


def test_listening_sees_a_real_socket() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address, port = server.getsockname()
        assert {"address": address, "port": port} in _host.listening()


def test_disk_of_a_folder_to_be_made() -> None:
    assert _host._disk("/no/such/folder") | {"path": "/"} == _host._disk("/") | {
        "free_mb": _host._disk("/no/such/folder")["free_mb"]
    }


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["WARNING: x", "ERROR: Could not find a version"], "ERROR: Could not find a version"),
        (
            ["ERROR: cannot reach https://me:secret@index.example/simple"],
            "ERROR: cannot reach https://index.example/simple",
        ),
        ([], "it failed without a message"),
    ],
)
def test_first_error(lines: list[str], expected: str) -> None:
    assert _host._first_error(lines) == expected


def test_gather_does_not_ask_the_index() -> None:
    facts = _host.gather()
    assert facts["package_index"] == {"asked": False, "answers": None, "reason": ""}
    assert facts["memory_mb"] > 0
    assert facts["python"]["executable"]
    assert os.path.isdir(facts["disk"]["root"]["path"])


def test_program_that_may_not_be_run(engine_paths: Path) -> None:
    install(engine_paths)
    (engine_paths / "bin" / "dockerd").chmod(0o644)
    assert state()[0] == "broken"
