"""What `dmctl flashback` refuses before anything is read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.worker.home import TestHome, home, until


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHome]:
    with home(tmp_path_factory.mktemp("flashback") / "home") as running:
        running.start()
        running.ok("operate-source", "create", running.source("one"), running.source("two"))
        yield running


def refused(daemon: TestHome, *words: str) -> str:
    said = daemon.said("flashback", *words)
    assert said.status == 1, said.out
    return said.err


def test_a_place_is_one_of_one_source(daemon: TestHome) -> None:
    daemon.tried("start-task", daemon.task("both", sources=("one", "two")))
    assert "Error 48960" in refused(daemon, "both", "--from", "b.000001:4")
    assert "Error 48960" in refused(daemon, "both", "--from", "2026-11-26 10:00:00", "--to", "b.000001:4")
    assert "three" in refused(daemon, "both", "--from", "b.000001:4", "-s", "three")
    daemon.ok("stop-task", "both")


def test_a_task_that_only_loads_has_applied_no_binlog(daemon: TestHome) -> None:
    daemon.script("load", Dump="run")
    daemon.tried("start-task", daemon.task("load", "full"))
    until(lambda: daemon.stage("load")[1] == "Dump")
    assert "Error 48961" in refused(daemon, "load", "--from", "b.000001:4")
    daemon.ok("stop-task", "load")


def test_an_unknown_task(daemon: TestHome) -> None:
    assert "nobody" in refused(daemon, "nobody", "--from", "b.000001:4")
