"""The daemon is killed in every unit of one task, MySQL to MariaDB; and nobody sees a password on the way."""

from __future__ import annotations

import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.live.hold.replica import PASSWORDS, Replica
from tests.live.hold.secret_watch import SecretWatch, files_with, processes_of
from tests.testbed.daemon import Daemon
from tests.testbed.fixtures import ServerFactory
from tests.testbed.proxy import FaultProxy

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.timeout(600)]

SECRETS = PASSWORDS.values()
# Slow enough to kill a daemon in the middle of copying 0.7 MB over a few connections, whatever the machine.
DUMP_RATE = 60_000
LOAD_RATE = 60_000
# The daemon has no password in its environment; only the user's own `dmctl` has.
WITHOUT_PASSWORDS = dict.fromkeys(PASSWORDS, "")


@pytest.mark.chaos
def test_killed_in_dump_load_and_sync(server: ServerFactory, tmp_path: Path) -> None:
    upstream, target = server("mysql"), server("mariadb")
    with FaultProxy(upstream.host, upstream.port) as to_source, FaultProxy(target.host, target.port) as to_target:
        replica = Replica(upstream, target, tmp_path, ways=(to_source, to_target))
        replica.prepare("all", rows=2048)
        daemon = replica.daemon
        with SecretWatch(daemon.home, SECRETS) as watch, killed_at_last(daemon):
            daemon.start(**WITHOUT_PASSWORDS)
            replica.start()
            to_source.slow(DUMP_RATE, "down")
            _await_middle(replica, "Dump")
            _kill(daemon)
            replica.write()

            to_source.heal()
            to_target.slow(LOAD_RATE, "up")
            daemon.start(**WITHOUT_PASSWORDS)
            _await_middle(replica, "Load")
            _kill(daemon)
            replica.write()

            to_target.heal()
            daemon.start(**WITHOUT_PASSWORDS)
            daemon.wait(replica.task, lambda status: status["one"]["unit"] == "Sync", "loaded")
            replica.write()
            _kill(daemon)
            replica.write()

            daemon.start(**WITHOUT_PASSWORDS)
            replica.write()
            replica.await_synced()
            _no_password_is_said_or_kept(daemon)
    assert not watch.seen
    for kind in ("dm.worker.daemon", "host spark:", "host relay:", "host sync:", "/java ", "dm.spark.worker_daemon"):
        assert any(kind in program for program in watch.programs), f"{kind} was never looked at: {watch.programs}"


@contextmanager
def killed_at_last(daemon: Daemon) -> Iterator[None]:
    """However the test ends."""
    try:
        yield
    finally:
        daemon.kill()


def _await_middle(replica: Replica, unit: str) -> None:
    def reached(status: dict[str, dict[str, Any]]) -> bool:
        one = status["one"]
        assert one["stage"] == "Running", one
        assert one["unit"] != "Sync", f"{unit} went by unseen"
        part = one.get(unit.lower())
        return part is not None and float(part["finishedBytes"]) > 0

    replica.daemon.wait(replica.task, reached, f"in the middle of {unit}")


def _kill(daemon: Daemon) -> None:
    """SIGKILL; everything that the daemon started goes with it."""
    daemon.kill()
    deadline = time.monotonic() + 60
    while left := processes_of(daemon.home):
        assert time.monotonic() < deadline, f"outlived the daemon: {left}"
        threading.Event().wait(0.05)


def _no_password_is_said_or_kept(daemon: Daemon) -> None:
    for status, *words in (
        (0, "query-status"),
        (0, "query-status", "hold"),
        (0, "operate-source", "show"),
        (0, "check-task", "task.yaml"),
        (1, "start-task", "task.yaml"),
        (1, "operate-source", "create", "source.yaml"),
    ):
        for form in ("table", "json"):
            answer = daemon.dmctl(*words, "--output", form)
            assert answer.status == status, str(answer)
            assert not any(secret in answer.out + answer.err for secret in SECRETS), str(answer)
    # The registry has to know them, to go on after a restart: it is for its owner alone, as its directory is.
    kept = files_with(daemon.directory, SECRETS)
    assert [file for file in kept if not file.startswith("home/registry.sqlite")] == []
    assert stat.S_IMODE(daemon.home.stat().st_mode) == 0o700
    for path in daemon.home.glob("registry.sqlite*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
