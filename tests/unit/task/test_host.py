"""Real host processes: what they say, and how they end."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dm.task.host_process import HostEnded, HostProcess
from dm.task.message import (
    Event,
    StartUnit,
    StatusInterval,
    StopUnit,
    UnitFailed,
    UnitFinished,
    UnitStatus,
    UnitStopped,
)

ROOT = Path(__file__).resolve().parents[3]
FAKE_HOST = (sys.executable, str(Path(__file__).with_name("fake_host.py")))
SECONDS = 20


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


class Running:
    """A host with its events in a queue."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.events: queue.Queue[Event | HostEnded] = queue.Queue()
        self.process = HostProcess("sync:t:s", directory / "log", self.events.put, FAKE_HOST)

    def script(self, **actions: object) -> None:
        (self.directory / "script.json").write_text(json.dumps(actions))

    def start(self, run: int, unit: str = "Sync") -> None:
        self.process.send(StartUnit(run, unit, {"work_directory": str(self.directory)}))  # type: ignore[arg-type]

    def next(self, *kinds: type) -> Event | HostEnded:
        """The next event that is no status, unless statuses are asked for."""
        while True:
            event = self.events.get(timeout=SECONDS)
            if not isinstance(event, UnitStatus) or UnitStatus in kinds:
                return event


@contextmanager
def host(directory: Path) -> Iterator[Running]:
    running = Running(directory)
    try:
        yield running
    finally:
        running.process.kill()
        assert running.process.wait(SECONDS)


def test_a_unit_that_finishes_and_one_that_is_stopped(tmp_path: Path) -> None:
    with host(tmp_path) as one:
        one.start(1, "Dump")
        assert one.next() == UnitFinished(1)
        one.start(2, "Sync")
        one.process.send(StopUnit(2))
        assert one.next() == UnitStopped(2)


def test_status_comes_regularly(tmp_path: Path) -> None:
    with host(tmp_path) as one:
        one.process.send(StatusInterval(0.02))
        one.start(1)
        seen: list[int] = []
        while len(seen) < 3 or seen[-1] == 0:
            event = one.next(UnitStatus)
            assert isinstance(event, UnitStatus)
            seen.append(int(str(event.status["totalRows"])))
        assert seen == sorted(seen)


def test_errors_come_as_dm_reports_and_defects_as_internal_errors(tmp_path: Path) -> None:
    with host(tmp_path) as one:
        one.script(Sync={"error": "connection-lost", "role": "upstream", "address": "h:1"}, Load="break")
        one.start(1, "Sync")
        failed = one.next()
        assert isinstance(failed, UnitFailed)
        assert failed.retryable
        assert failed.report["ErrCode"] == 10003
        one.start(2, "Load")
        broken = one.next()
        assert isinstance(broken, UnitFailed)
        assert not broken.retryable
        assert "RuntimeError: a defect" in broken.report["Message"]
        one.script(Sync="break-silently")
        one.start(3)
        silent = one.next()
        assert isinstance(silent, UnitFailed)
        assert "SilentError, whose words are lost (ConnectionRefusedError)" in silent.report["Message"]


def test_a_unit_without_memory_says_so_and_is_tried_again(tmp_path: Path) -> None:
    with host(tmp_path) as one:
        one.script(Sync="take-all-memory")
        one.start(1)
        failed = one.next()
        assert isinstance(failed, UnitFailed)
        assert (failed.report["ErrCode"], failed.retryable) == (11901, True)
        assert "defect" not in failed.report["Workaround"]


def test_what_units_print_does_not_disturb_the_protocol(tmp_path: Path) -> None:
    with host(tmp_path) as one:
        one.script(Sync="print")
        one.start(1)
        one.process.send(StopUnit(1))
        assert one.next() == UnitStopped(1)
    assert "noise of a child process" in (tmp_path / "log").read_text()


def test_the_end_of_its_input_stops_the_units_and_the_process(tmp_path: Path) -> None:
    with host(tmp_path) as one:
        one.start(1)
        one.next(UnitStatus)
        one.process.close()
        assert one.next() == UnitStopped(1)
        assert one.next() == HostEnded(0)


def test_sigterm_does_the_same(tmp_path: Path) -> None:
    with host(tmp_path) as one:
        one.start(1)
        one.next(UnitStatus)
        os.kill(one.process.pid, signal.SIGTERM)
        assert one.next() == UnitStopped(1)
        assert one.next() == HostEnded(0)


def test_a_killed_host_is_reported(tmp_path: Path) -> None:
    with host(tmp_path) as one:
        one.start(1)
        one.next(UnitStatus)
        os.kill(one.process.pid, signal.SIGKILL)
        ended = one.next()
        assert isinstance(ended, HostEnded)
        assert ended.how == "killed by SIGKILL"


def test_a_host_dies_with_its_parent_even_when_it_cannot_stop(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(json.dumps({"Sync": "ignore-stop"}))
    code = f"""
import sys, threading
from pathlib import Path
from dm.task.host_process import HostProcess
from dm.task.log import configure
from dm.task.message import StartUnit, StatusInterval
configure()
seen = threading.Event()
host = HostProcess("h", Path({str(tmp_path / "log")!r}), lambda event: seen.set(), {FAKE_HOST!r})
host.send(StatusInterval(0.02))
host.send(StartUnit(1, "Sync", {{"work_directory": {str(tmp_path)!r}}}))
seen.wait()
print(host.pid, flush=True)
sys.stdin.read()
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    with parent:
        pid = int(parent.stdout.readline())
        descriptor = os.pidfd_open(pid)
        parent.kill()
        parent.wait(SECONDS)
    assert _ends(descriptor)


def test_no_password_reaches_argv_environment_or_log(tmp_path: Path) -> None:
    with host(tmp_path) as one:
        one.process.send(StartUnit(1, "Sync", {"work_directory": str(tmp_path), "config": {"password": "canary-7f3a"}}))
        one.next(UnitStatus)
        for name in ("cmdline", "environ"):
            assert b"canary-7f3a" not in Path(f"/proc/{one.process.pid}/{name}").read_bytes()
        one.process.send(StopUnit(1))
        one.next()
    assert "canary-7f3a" not in (tmp_path / "log").read_text()


def _ends(descriptor: int) -> bool:
    """Whether the process of a pidfd ends; the descriptor becomes readable then (pidfd_open(2))."""
    import select

    try:
        return bool(select.select([descriptor], [], [], SECONDS)[0])
    finally:
        os.close(descriptor)
