"""The running quickstart with a fault proxy in front of each service, under the service's own name."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import http.client
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from ansible_collections.plumbline.rag.plugins.module_utils._checks import _run
from ansible_collections.plumbline.rag.plugins.module_utils._http import Http
from ansible_collections.plumbline.rag.plugins.module_utils._open_webui import OpenWebUI

from .conftest import QUICKSTART, ROOT, docker
from .fault_matrix import Cell

PROGRAM = ROOT / "tests" / "stack" / "doubles" / "fault_proxy.py"
NETWORK = "rag"
# The services that requests go to, by hop, with their ports; each is asked by the ones after it.
SERVICES = {
    "engine": ("rag-embedder", 8000),
    "reranker": ("rag-reranker", 8000),
    "proxy": ("rag-litellm", 4000),
    "open_webui": ("rag-open-webui", 8080),
}
STORE = "rag-postgres"
REAL = "-real"
_HEALTHY_SECONDS = 120


def inspected(name: str) -> dict[str, Any]:
    return json.loads(docker("inspect", name))[0]


def exists(name: str) -> bool:
    return name in docker("ps", "--all", "--format", "{{.Names}}").split()


def wait_until_healthy(*names: str) -> None:
    deadline = time.monotonic() + _HEALTHY_SECONDS
    waiting = set(names)
    while waiting:
        waiting = {name for name in waiting if inspected(name)["State"]["Health"]["Status"] != "healthy"}
        assert time.monotonic() < deadline, f"not healthy: {', '.join(sorted(waiting))}"
        time.sleep(0.5)


def address(name: str) -> str:
    return inspected(name)["NetworkSettings"]["Networks"][NETWORK]["IPAddress"]


def start_proxy(name: str, service: str, port: int, environment: Mapping[str, str] | None = None) -> None:
    """A fault proxy in front of a service, in a container of the same image and environment."""
    config = inspected(service)["Config"]
    entries = {**dict(entry.split("=", 1) for entry in config["Env"]), **(environment or {})}
    docker(
        "run", "--detach", "--name", name, "--network", NETWORK, "--read-only", "--cap-drop", "ALL",
        "--volume", f"{PROGRAM}:/fault_proxy.py:ro", "--entrypoint", "python3",
        *(part for entry in entries.items() for part in ("--env", "=".join(entry))),
        config["Image"], "/fault_proxy.py", f"{service}:{port}", str(port),
    )  # fmt: skip
    wait_for_proxy(name, port)


def control(name: str, port: int, method: str, fault: Mapping[str, Any] | None = None) -> dict[str, Any]:
    connection = http.client.HTTPConnection(address(name), port, timeout=10)
    try:
        connection.request(method, "/_fault", json.dumps(fault) if fault else None)
        reply = connection.getresponse()
        assert reply.status == 200, reply.read()
        return json.loads(reply.read())
    finally:
        connection.close()


def wait_for_proxy(name: str, port: int) -> None:
    for _attempt in range(100):
        with contextlib.suppress(OSError):
            control(name, port, "GET")
            return
        time.sleep(0.1)
    raise AssertionError(f"the proxy {name} does not answer")


class Stack:
    """What the matrix does to the installation, and how it verifies it."""

    def __init__(self) -> None:
        plan = json.loads((ROOT / "reports" / "default" / "plan.json").read_text(encoding="utf-8"))["plan"]
        self.plan: dict[str, Any] = plan["verify"]
        self.secrets: dict[str, str] = yaml.safe_load((QUICKSTART / ".secrets" / "default.yml").read_text())
        self.labelled = yaml.safe_load((ROOT / "catalog" / "eval" / "languages.yml").read_text(encoding="utf-8"))

    # -- standing in ---------------------------------------------------------------------------------------------

    def interpose(self) -> None:
        """Each service keeps running under another name, and a proxy of the same image and environment stands in."""
        self.withdraw()
        for hop, (name, _port) in SERVICES.items():
            docker("rename", name, name + REAL)
            self.stand_in(hop)
        # They resolved the old addresses.
        docker("restart", *(SERVICES[hop][0] + REAL for hop in ("proxy", "open_webui")))
        wait_until_healthy(*(name + REAL for name, _port in SERVICES.values()))

    def stand_in(self, hop: str, environment: Mapping[str, str] | None = None) -> None:
        name, port = SERVICES[hop]
        start_proxy(name, name + REAL, port, environment)

    def withdraw(self) -> None:
        """The services under their own names again; also after a run that did not end."""
        moved = [name for name, _port in SERVICES.values() if exists(name + REAL)]
        for name in moved:
            if exists(name):
                docker("rm", "--force", name)
            docker("rename", name + REAL, name)
        if moved:
            docker("start", STORE)
            docker("restart", "rag-litellm", "rag-open-webui")
            wait_until_healthy("rag-litellm", "rag-open-webui")

    # -- faults --------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def fault(self, hop: str, given: Mapping[str, Any]) -> Iterator[None]:
        """A proxy with a fault; whoever uses this proves that the fault was met."""
        wanted = dict(given)
        if wanted.get("source"):
            wanted["source"] = address(wanted["source"] + REAL)
        service = SERVICES[hop]
        control(*service, "PUT", wanted)
        try:
            yield
            assert control(*service, "GET")["acted"], f"no request met the fault {given}"
        finally:
            control(*service, "DELETE")

    @contextlib.contextmanager
    def stopped(self, hops: Sequence[str]) -> Iterator[None]:
        """Nothing answers at these hops."""
        names = [STORE if hop == "vector_store" else SERVICES[hop][0] for hop in hops]
        docker("kill", *names)
        try:
            yield
        finally:
            docker("start", *names)
            for hop in hops:
                if hop in SERVICES:
                    wait_for_proxy(*SERVICES[hop])
                else:
                    wait_until_healthy(STORE)

    @contextlib.contextmanager
    def environment(self, changed: Mapping[str, str]) -> Iterator[None]:
        """Open WebUI's container with other variables."""
        docker("rm", "--force", SERVICES["open_webui"][0])
        self.stand_in("open_webui", changed)
        try:
            yield
        finally:
            docker("rm", "--force", SERVICES["open_webui"][0])
            self.stand_in("open_webui")

    @contextlib.contextmanager
    def stored(self, changed: Mapping[str, Any]) -> Iterator[None]:
        """Other retrieval settings in Open WebUI's database, as its administration page writes them."""
        settings = self.plan["open_webui"]["settings"]["retrieval"]
        self.write(changed)
        try:
            yield
        finally:
            self.write({name: settings[name] for name in changed})

    def write(self, form: Mapping[str, Any]) -> None:
        async def written() -> None:
            webui = self.plan["open_webui"]
            name, port = SERVICES["open_webui"]
            url = f"http://{address(name)}:{port}"
            async with Http() as http:
                client = OpenWebUI(http, url, webui["admin_email"], self.secrets[webui["admin_password_secret"]])
                await client.update_retrieval(dict(form))

        asyncio.run(written())

    @contextlib.contextmanager
    def cell(self, cell: Cell) -> Iterator[None]:
        """Everything that a cell of the matrix makes wrong."""
        with contextlib.ExitStack() as stack:
            if cell.stored:
                stack.enter_context(self.stored(cell.stored))
            if cell.environment:
                stack.enter_context(self.environment(cell.environment))
            if cell.stopped:
                stack.enter_context(self.stopped(cell.stopped))
            if cell.plant:
                stack.enter_context(self.fault(cell.hop, cell.plant))
            yield

    # -- proof ---------------------------------------------------------------------------------------------------

    def verify(
        self,
        depth: str = "standard",
        plan: Mapping[str, Any] | None = None,
        secrets: Mapping[str, str] | None = None,
        timeout: float = 30.0,
    ) -> dict[str, Any]:
        """One verification, as the module makes it; keys of ``plan`` are paths."""
        wanted = {**copy.deepcopy(self.plan), "depth": depth}
        for path, value in (plan or {}).items():
            *parents, last = path.split(".")
            target = wanted
            for parent in parents:
                target = target[parent]
            target[last] = value
        return asyncio.run(
            _run.verify(
                wanted,
                {**self.secrets, **(secrets or {})},
                NETWORK,
                probes=self.labelled,
                evaluation=self.labelled,
                since=time.time(),
                timeout=timeout,
            )
        )

    def left_behind(self) -> int:
        """Files, knowledge bases, memories and users of ours in the database."""
        columns = {"file": "filename", "knowledge": "name", "memory": "content", '"user"': "name"}
        counts = [f"SELECT 1 FROM {table} WHERE {column} LIKE 'plumbline-verify%'" for table, column in columns.items()]
        statement = f"SELECT count(*) FROM ({' UNION ALL '.join(counts)}) AS ours"
        command = (
            "psql",
            "--username",
            "open_webui",
            "--dbname",
            "open_webui",
            "--tuples-only",
            "--command",
            statement,
        )
        return int(docker("exec", STORE, *command))
