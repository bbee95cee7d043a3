"""What `dmctl replay` refuses before anything is read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.worker.home import TestHome, home, until


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHome]:
    with home(tmp_path_factory.mktemp("replay") / "home") as running:
        running.start()
        running.ok("operate-source", "create", running.source("one"), running.source("two"))
        yield running


def refused(daemon: TestHome, *words: str) -> str:
    said = daemon.said("replay", *words)
    assert said.status == 1, said.out
    return said.err


def test_a_task_that_runs_is_not_replayed(daemon: TestHome) -> None:
    daemon.script("runs", Sync="run")
    daemon.tried("start-task", daemon.task("runs", "incremental"))
    until(lambda: daemon.stage("runs") == ("Running", "Sync"))
    assert "Error 44050" in refused(daemon, "runs")
    daemon.ok("stop-task", "runs")


def test_a_task_of_several_sources_is_not_replayed(daemon: TestHome) -> None:
    daemon.tried("start-task", daemon.task("both", sources=("one", "two")))
    assert "Error 44051" in refused(daemon, "both")
    daemon.ok("stop-task", "both")


def test_words_that_contradict_each_other(daemon: TestHome) -> None:
    assert "--until means nothing" in daemon.said("replay", "runs", "--cancel", "--until", "b.000001:4").err
    assert "nobody" in refused(daemon, "nobody")
