"""A disk with no room for a byte: what is recorded and what runs agree again once there is room.

The kernel refuses the daemon every write to a file (RLIMIT_FSIZE), as it does on a full disk.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dm.verbs.sources import ShowSources
from tests.unit.worker.home import TestHome, home, until


@pytest.fixture
def one(tmp_path: Path) -> Iterator[TestHome]:
    """A running daemon with a task that runs."""
    with home(tmp_path / "home") as running:
        running.start()
        running.ok("operate-source", "create", running.source())
        running.ok("start-task", running.task())
        until(lambda: running.trace("t"))
        yield running


@contextmanager
def full_disk(one: TestHome) -> Iterator[None]:
    assert one.daemon is not None
    before = resource.prlimit(one.daemon.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(one.daemon.pid, resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.prlimit(one.daemon.pid, resource.RLIMIT_FSIZE, before)


def codes(one: TestHome) -> list[int]:
    return [error["ErrCode"] for error in (one.subtask()["result"] or {"errors": []})["errors"]]


def test_a_process_that_died_meanwhile_is_there_again(one: TestHome) -> None:
    with full_disk(one):
        os.kill(one.pid_of("t"), signal.SIGKILL)
        until(lambda: 40912 in codes(one))
    until(lambda: len(one.trace("t")) == 2)
    until(lambda: one.stage() == ("Running", "Sync") and 40912 not in codes(one))
    one.ok("pause-task", "t")
    one.kill()
    one.start()
    assert one.stage() == ("Paused", "Sync")


@pytest.mark.parametrize("verb", ["pause-task", "stop-task"])
def test_a_verb_that_cant_be_recorded_changes_nothing(one: TestHome, verb: str) -> None:
    with full_disk(one):
        refused = one.said(verb, "t")
        assert refused.status == 1
        assert "Error 40912" in refused.err
        assert one.stage() == ("Running", "Sync")
        assert one.subtask()["sync"]["synced"], "its process goes on"
        assert codes(one) == []
    one.ok(verb, "t")
    assert len(one.trace("t")) == 1


def test_a_verb_for_a_relay_that_cant_be_recorded_changes_nothing(one: TestHome) -> None:
    one.ok("start-relay", "-s", "one")

    def stage() -> str:
        status = one.ask(ShowSources(source=("one",)))["sources"][0]["relayStatus"]
        return "" if status is None else str(status["stage"])

    until(lambda: stage() == "Running")
    with full_disk(one):
        for verb in ("pause-relay", "stop-relay"):
            refused = one.said(verb, "-s", "one")
            assert "Error 40912" in refused.err
            assert stage() == "Running"
    one.ok("pause-relay", "-s", "one")
    one.kill()
    one.start()
    assert stage() == "Paused"
