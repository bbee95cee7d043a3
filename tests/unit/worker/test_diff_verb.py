"""What `dmctl diff` says before it looks at a row."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.worker.home import TestHome, home, until


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHome]:
    with home(tmp_path_factory.mktemp("diff") / "home") as running:
        running.start()
        running.ok("operate-source", "create", running.source("one"))
        yield running


def warned(daemon: TestHome, task: str) -> str:
    """No server knows the accounts of these files: the comparison itself ends at once, and 1 would say "different"."""
    said = daemon.said("diff", task)
    assert (said.status, "Error 10" in said.err) == (2, True), said.err
    return "".join(line for line in said.err.splitlines() if line.startswith("warning"))


def test_a_task_that_rests_or_loads_is_behind(daemon: TestHome) -> None:
    daemon.tried("start-task", daemon.task("t"))
    until(lambda: daemon.stage("t") == ("Running", "Sync"))
    assert warned(daemon, "t") == ""
    daemon.ok("pause-task", "t")
    assert warned(daemon, "t") == (
        "warning: t on one is Paused Sync: what it has not applied yet counts as a difference"
    )
    daemon.script("load", Dump="run")
    daemon.tried("start-task", daemon.task("load", "full"))
    until(lambda: daemon.stage("load") == ("Running", "Dump"))
    assert "load on one is Running Dump" in warned(daemon, "load")
    daemon.ok("stop-task", "load")
    assert warned(daemon, daemon.task("load", "full")) == "", "nobody is to bring it on"
