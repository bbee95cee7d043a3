"""Hosts are forked from one process that has their imports: they begin and end like processes of their own."""

from __future__ import annotations

import os
import queue
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from dm.task import host_process
from dm.task.host_forks import HostForks
from dm.task.host_process import HostEnded, HostProcess
from dm.task.message import Event, PrepareUnit, UnitPrepared
from tests.testbed.looks import looks
from tests.unit.docs.document import ROOT

SECONDS = 120  # a limit for what hangs
KILLED = HostEnded(-signal.SIGKILL)


class Started:
    """A host as the daemon starts it, with its events."""

    def __init__(self, name: str, directory: Path) -> None:
        self.events: queue.Queue[Event | HostEnded] = queue.Queue()
        self.log = directory / "log"
        self.process = HostProcess(name, self.log, self.events.put)

    @property
    def words(self) -> list[str]:
        """Its arguments, as `ps` shows them."""
        return Path(f"/proc/{self.process.pid}/cmdline").read_bytes().decode().rstrip("\0").split("\0")

    @property
    def parent(self) -> int:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("PPid:"))

    def next(self) -> Event | HostEnded:
        return self.events.get(timeout=SECONDS)


@pytest.fixture(autouse=True)
def forks(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostForks]:
    one = HostForks()
    monkeypatch.setattr(host_process, "_FORKS", one)
    yield one
    one._end()


def test_a_host_is_called_by_its_name_does_its_work_and_ends(tmp_path: Path) -> None:
    names = ["sync:a task:one", "relay:one", "sync:" + "x" * 300]
    hosts = [Started(name, tmp_path) for name in names]
    assert len({one.parent for one in hosts}) == 1
    assert {one.parent for one in hosts}.isdisjoint({os.getpid(), *(one.process.pid for one in hosts)})
    for one, name in zip(hosts, names, strict=True):
        assert any(one.words[1:3] == ["-m", "dm.task.host"] for _ in looks(SECONDS)), one.words
        shown = one.words[3]
        assert shown == name[: len(shown)]
        assert len(shown) > 100 or one.words[3:] == [name, str(os.getpid())]
    one, other, _ = hosts
    one.process.send(PrepareUnit("Sync"))
    assert one.next() == UnitPrepared("Sync")
    one.process.close()
    assert one.next() == HostEnded(0)
    assert one.process.wait(SECONDS)
    other.process.kill()
    assert other.next() == KILLED
    other.process.kill()  # of one that is gone hits nobody
    assert '"ready"' in one.log.read_text()


def test_it_has_the_descriptors_of_a_new_process(tmp_path: Path) -> None:
    first, second = Started("sync:t:one", tmp_path), Started("sync:t:two", tmp_path)
    for one in (first, second):
        one.process.send(PrepareUnit("Sync"))
        assert one.next() == UnitPrepared("Sync")
        files = Path(f"/proc/{one.process.pid}/fd")
        assert len([*files.iterdir()]) == 4, "commands, the log twice, events"
    first.process.close()
    assert first.next() == HostEnded(0), "nobody else holds its commands open"


def test_a_server_that_was_started_ahead_outlives_the_thread_that_asks_it(tmp_path: Path, forks: HostForks) -> None:
    forks.start()
    assert forks._server is not None
    ahead = forks._server.pid
    forks.wait_for_imports()
    hosts: list[Started] = []
    asking = threading.Thread(target=lambda: hosts.append(Started("relay:one", tmp_path)))
    asking.start()
    asking.join(SECONDS)
    (one,) = hosts
    assert one.parent == ahead
    one.process.send(PrepareUnit("Sync"))
    assert one.next() == UnitPrepared("Sync")


def test_a_server_that_ends_before_its_imports_are_done_is_replaced(tmp_path: Path, forks: HostForks) -> None:
    forks.start()
    assert forks._server is not None
    ahead = forks._server.pid
    forks._server.kill()
    forks._server.wait()
    forks.wait_for_imports()
    assert Started("relay:one", tmp_path).parent != ahead


def test_a_forked_host_does_not_settle_again() -> None:
    """The collector would write to all pages that it shares with the server."""
    program = (
        "from dm.task import host; host.settle = lambda: print('again', flush=True); host.work('relay:one', {}, int)"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    )
    assert '"ready"' in told.stderr
    assert "again" not in told.stdout + told.stderr


def test_hosts_end_with_the_server_and_the_next_one_gets_a_new_server(tmp_path: Path) -> None:
    hosts = [Started(f"sync:t:{number}", tmp_path) for number in range(2)]
    before = hosts[0].parent
    os.kill(before, signal.SIGKILL)
    assert [one.next() for one in hosts] == [KILLED, KILLED]
    again = Started("sync:t:0", tmp_path)
    assert again.parent != before
    again.process.close()
    assert again.next() == HostEnded(0)


def test_server_and_hosts_end_with_the_daemon(tmp_path: Path) -> None:
    program = (
        "import os, sys, pathlib; from dm.task.host_process import HostProcess;"
        f"one = HostProcess('sync:t:one', pathlib.Path({str(tmp_path / 'log')!r}), print);"
        "print(one.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    told = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert told.returncode == -signal.SIGKILL, told.stderr
    assert any(not Path(f"/proc/{told.stdout.strip()}").exists() for _ in looks(SECONDS))


@pytest.mark.parametrize("room", [0, 2, 4], ids=["none of its pipes", "some", "all, not its pidfd"])
def test_a_host_that_cannot_be_forked_leaves_the_others_alone(tmp_path: Path, forks: HostForks, room: int) -> None:
    there = Started("relay:one", tmp_path)
    assert forks._server is not None
    server = forks._server.pid
    usual = resource.prlimit(server, resource.RLIMIT_NOFILE)
    used = {int(name) for name in os.listdir(f"/proc/{server}/fd")}
    free = (number for number in range(1000) if number not in used)
    resource.prlimit(server, resource.RLIMIT_NOFILE, (next(islice(free, room, None)), usual[1]))
    with pytest.raises(OSError, match="Too many open files"):
        Started("sync:t:0", tmp_path)
    resource.prlimit(server, resource.RLIMIT_NOFILE, usual)
    assert forks._server.pid == server, "no other server was needed"
    assert {int(name) for name in os.listdir(f"/proc/{server}/fd")} == used, "nothing of it is left"
    for began in (there, Started("sync:t:0", tmp_path)):
        began.process.send(PrepareUnit("Sync"))
        assert began.next() == UnitPrepared("Sync")
