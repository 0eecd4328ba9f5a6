"""Tests on the real software, in the order of their file names: each leaves the stack as the next one expects it."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "inventories" / "quickstart"
SERVICES = ("rag-postgres", "rag-embedder", "rag-reranker", "rag-litellm", "rag-open-webui")


@dataclasses.dataclass
class Run:
    """A finished command: its exit status, output and duration in seconds."""

    status: int
    output: str
    seconds: float

    def recap(self) -> dict[str, int]:
        """Sums of the play recap's counters."""
        counters = re.findall(r"(ok|changed|unreachable|failed|skipped|rescued|ignored)=(\d+)", self.output)
        return {name: sum(int(n) for key, n in counters if key == name) for name in {key for key, _n in counters}}


def run(*command: str, cwd: Path = ROOT, env: dict[str, str] | None = None) -> Run:
    """Run a command as a user would, with its output shown as it comes."""
    print(f"\n$ {' '.join(command)}", flush=True)
    start = time.monotonic()
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", **(env or {})}
    lines: list[str] = []
    with subprocess.Popen(
        command,
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    return Run(process.returncode, "".join(lines), time.monotonic() - start)


def site(*arguments: str, inventory: Path = QUICKSTART) -> Run:
    return run("ansible-playbook", "site.yml", "-i", str(inventory), *arguments)


def docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], check=True, capture_output=True, text=True).stdout.strip()


def container_ids(prefix: str = "rag-") -> dict[str, str]:
    """Container name -> id and start time, of the containers of the stack or of one installation."""
    names = docker("ps", "--format", "{{.Names}}").split()
    return {
        name: docker("inspect", "--format", "{{.Id}} {{.State.StartedAt}}", name)
        for name in names
        if name.startswith(prefix)
    }


def secrets_of(inventory: Path, installation: str) -> dict[str, str]:
    """The secrets that were generated for an installation."""
    return yaml.safe_load((inventory / ".secrets" / f"{installation}.yml").read_text(encoding="utf-8"))


def ask(container: str, port: int, path: str, body: dict[str, Any], key: str) -> tuple[int, str]:
    """Status and body of a request to a container of this machine."""
    address = docker("inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", container)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://{address}:{port}{path}", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def assert_nothing_changes(installation: str, inventory: Path, *arguments: str) -> None:
    """Another run of the same changes nothing and leaves every container of the installation as it is."""
    before = container_ids(f"rag-{installation}-")
    assert before
    again = site(*arguments, inventory=inventory)
    assert again.status == 0
    assert again.recap()["changed"] == 0
    assert container_ids(f"rag-{installation}-") == before


def assert_it_goes(installation: str, inventory: Path) -> None:
    """Removal takes the installation away with its volumes, and leaves the others alone."""
    own = f"rag-{installation}-"
    others = {name: identity for name, identity in container_ids().items() if not name.startswith(own)}
    down = run("ansible-playbook", "plumbline.rag.uninstall", "-i", str(inventory), "-e", '{"uninstall_volumes": true}')
    assert down.status == 0
    assert container_ids() == others
    assert docker("volume", "ls", "--quiet", "--filter", f"name=^{own}") == ""


def findings(verb: str, installation: str = "default") -> list[dict]:
    report = ROOT / "reports" / installation / f"{verb}.json"
    return json.loads(report.read_text(encoding="utf-8"))["findings"]


def open_errors(verb: str = "verify", installation: str = "default") -> set[str]:
    return {f["id"] for f in findings(verb, installation) if f["severity"] == "error" and "accepted" not in f}


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT
