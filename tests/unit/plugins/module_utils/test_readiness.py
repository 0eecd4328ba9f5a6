# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a container counts as ready, when waiting is in vain, and what of its log is shown."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _readiness


def inspected(status: str, health: str = "starting", restarts: int = 0, code: int = 0) -> dict[str, Any]:
    state = {"Status": status, "Running": status == "running", "Restarting": status == "restarting", "ExitCode": code}
    return {
        "Id": "c1",
        "State": {**state, "Health": {"Status": health}},
        "RestartCount": restarts,
        "Config": {"Healthcheck": {"Test": ["CMD", "check", "me"]}},
    }


class Api:
    """The Docker client: one inspection and one exit code of the health check for each look."""

    def __init__(
        self,
        looks: list[dict[str, Any]],
        codes: list[int] | None = None,
        log: bytes = b"a line\nthe password is s3cr/et or s3cr%2Fet\n",
    ) -> None:
        self.looks = looks
        self.codes = codes or []
        self.log = log
        self.commands: list[list[str]] = []

    def inspect_container(self, name: str) -> dict[str, Any]:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def exec_create(self, container: str, command: list[str]) -> dict[str, str]:
        self.commands.append(command)
        return {"Id": "e1"}

    def exec_start(self, identifier: str) -> bytes:
        return b""

    def exec_inspect(self, identifier: str) -> dict[str, int]:
        return {"ExitCode": self.codes.pop(0) if self.codes else 1}

    def logs(self, name: str, tail: int) -> bytes:
        return self.log


def test_healthy_needs_no_probe() -> None:
    api = Api([inspected("running", "healthy", restarts=9)])
    assert _readiness.wait(api, "web", 5, pause=0) < 1
    assert api.commands == []


def test_the_health_check_is_run_until_it_succeeds() -> None:
    api = Api(
        [inspected("created"), inspected("running"), inspected("restarting", restarts=1), inspected("running")], [1, 0]
    )
    _readiness.wait(api, "web", 5, pause=0)
    assert api.commands == [["check", "me"], ["check", "me"]]


def test_a_shell_check() -> None:
    look = inspected("running")
    look["Config"]["Healthcheck"]["Test"] = ["CMD-SHELL", "check me"]
    api = Api([look], [0])
    _readiness.wait(api, "web", 5, pause=0)
    assert api.commands == [["/bin/sh", "-c", "check me"]]


@pytest.mark.parametrize(
    ("look", "text"),
    [
        (inspected("restarting", restarts=3, code=126), "ended 4 times, last with exit code 126"),
        (inspected("exited", code=1), "ended with exit code 1"),
        (inspected("running", "unhealthy"), "does not succeed within 0 seconds"),
    ],
)
def test_in_vain(look: dict[str, Any], text: str) -> None:
    with pytest.raises(_readiness.NotReady, match=text):
        _readiness.wait(Api([look]), "web", 0, pause=0)


class Refusal(Exception):
    """What the Docker client raises for an answer that is an error."""

    def __init__(self, status_code: int) -> None:
        super().__init__(str(status_code))
        self.status_code = status_code


@pytest.mark.parametrize(("status", "raised"), [(409, _readiness.NotReady), (500, Refusal)])
def test_a_container_that_ends_while_it_is_probed(
    status: int, raised: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Api([inspected("running"), inspected("restarting", restarts=3, code=1)])

    def refuse(container: str, command: list[str]) -> dict[str, str]:
        raise Refusal(status)

    monkeypatch.setattr(api, "exec_create", refuse)
    with pytest.raises(raised):
        _readiness.wait(api, "web", 5, pause=0)


def test_the_log_is_masked() -> None:
    log = _readiness.log_end(Api([]), "web", ["", "s3cr/et", "s3cr"])
    assert log == "a line\nthe password is ******** or ********"


class Answering:
    """An engine whose request succeeds at the third time; ``state`` is what it is in meanwhile."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state
        self.commands: list[Any] = []

    def exec_create(self, name: str, command: list[str]) -> dict[str, str]:
        self.commands.append((name, command))
        return {"Id": "x"}

    def exec_start(self, identifier: str) -> None:
        assert identifier == "x"

    def exec_inspect(self, identifier: str) -> dict[str, int]:
        assert identifier == "x"
        return {"ExitCode": 0 if len(self.commands) > 2 else 1}

    def inspect_container(self, name: str) -> dict[str, Any]:
        return {"State": self.state, "RestartCount": 0}


def test_a_real_request_has_to_succeed_after_the_health_check():
    api = Answering({"Status": "running", "Health": {"Status": "healthy"}})
    _readiness.answers(api, "engine", ["ask"], 5, pause=0)
    assert api.commands == [("engine", ["ask"])] * 3


def test_a_request_that_never_succeeds_is_not_waited_for_longer():
    api = Answering({"Status": "running", "Health": {"Status": "healthy"}})
    with pytest.raises(_readiness.NotReady, match="a real request does not succeed within 0 seconds"):
        _readiness.answers(api, "engine", ["ask"], 0, pause=0, clock=iter([0.0, 1.0]).__next__)


def test_an_engine_that_ends_at_its_first_request():
    with pytest.raises(_readiness.NotReady, match="ended with exit code 137"):
        _readiness.answers(Answering({"Status": "exited", "ExitCode": 137}), "engine", ["ask"], 5, pause=0)


UNKNOWN = b"something new\n"
FULL = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB.\n"
FLAG = b"error: unexpected argument '--token=s3cr/et' found\n"


class Clock:
    """A clock that goes on by some seconds at each look."""

    def __init__(self, step: float) -> None:
        self.now = 0.0
        self.step = step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def loop(*restarts: int) -> list[dict[str, Any]]:
    return [inspected("restarting", restarts=number, code=1) for number in restarts]


@pytest.mark.parametrize(
    ("looks", "log", "engine", "text"),
    [
        # what a log tells for certain is not waited out
        (loop(0, 1), FLAG, True, "ended once, last with exit code 1"),
        # what may pass is given a second start
        (loop(0, 1, 2), FULL, True, "ended 2 times"),
        # another program's log is not read
        (loop(0, 1, 2, 3), FLAG, False, "ended 4 times"),
        (loop(0, 1, 2, 3), UNKNOWN, True, "ended 4 times"),
        # a loop that a former run has left behind
        (loop(17), UNKNOWN, True, "ended 18 times"),
    ],
)
def test_a_restart_loop(looks: list[dict[str, Any]], log: bytes, engine: bool, text: str) -> None:
    api = Api(looks, log=log)
    with pytest.raises(_readiness.NotReady, match=text):
        _readiness.wait(api, "web", 900, pause=0, clock=Clock(1), engine=engine)
    assert len(api.looks) == 1


def test_a_slow_loop_is_recognised_within_a_minute_of_its_first_end() -> None:
    clock = Clock(1)
    looks = [inspected("running", restarts=0)] * 20 + [inspected("running", restarts=1)] * 10
    with pytest.raises(_readiness.NotReady, match="ended 2 times"):
        _readiness.wait(Api([*looks, inspected("running", restarts=2)], log=UNKNOWN), "web", 900, 0, clock, True)
    assert clock.now < 20 * 2 + 70


def test_one_restart_is_no_loop() -> None:
    looks = [
        inspected("running", restarts=0),
        *[inspected("running", restarts=1)] * 80,
        inspected("running", "healthy"),
    ]
    assert _readiness.wait(Api(looks, log=UNKNOWN), "web", 900, 0, Clock(1), True) > 80


@pytest.mark.rule("PL304", fires=True)
def test_the_explanation_is_masked() -> None:
    error = _readiness.NotReady("it has ended once")
    finding = _readiness.explain(Api(loop(1), log=FLAG), "web", error, ["s3cr/et"], engine=True)
    assert finding.message == (
        "web: it has ended once, because it does not accept an argument: "
        "error: unexpected argument '--token=********' found"
    )


@pytest.mark.rule("PL304", fires=False)
@pytest.mark.rule("PL314", fires=True)
def test_another_programs_log_is_not_explained() -> None:
    error = _readiness.NotReady("it has ended once")
    assert _readiness.explain(Api(loop(1), log=FLAG), "web", error, []).id == "PL314"


@pytest.mark.rule("PL312", fires=True)
def test_how_it_ended_is_kept_while_it_runs_again() -> None:
    killed = inspected("restarting", restarts=1, code=137)
    looks = [inspected("running"), killed, *[inspected("running", restarts=2)] * 60]
    with pytest.raises(_readiness.NotReady, match="ended 2 times, last with exit code 137") as raised:
        _readiness.wait(Api(looks, log=UNKNOWN), "web", 900, 0, Clock(1), True)
    assert _readiness.explain(Api(looks, log=UNKNOWN), "web", raised.value, [], engine=True).id == "PL312"


def test_a_container_that_was_never_seen_ended_has_no_exit_code() -> None:
    looks = [inspected("running"), inspected("running", restarts=1)]
    with pytest.raises(_readiness.NotReady, match=r"^it has ended once$"):
        _readiness.wait(Api(looks, log=FLAG), "web", 900, 0, Clock(1), True)
