"""What `dmctl heal` refuses before anything is read, and what it begins with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dm.cli.client import RequestRefused
from dm.verbs.errands import Heal
from dm.verbs.status import QueryStatus
from tests.unit.worker.home import TestHome, home, until


@pytest.fixture
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHome]:
    """A task of two sources that runs on the first one alone, and rests there."""
    with home(tmp_path_factory.mktemp("heal") / "home") as running:
        running.start()
        running.ok("operate-source", "create", running.source("one"), running.source("two"))
        running.tried("start-task", running.task("t", sources=("one", "two")))
        running.ok("stop-task", "t", "-s", "two")
        until(lambda: len(running.ask(QueryStatus(task="t"))["sources"]) == 1)
        until(lambda: running.stage() == ("Running", "Sync"))
        running.ok("pause-task", "t")
        yield running


def test_a_source_on_which_the_task_was_stopped_is_not_healed(daemon: TestHome) -> None:
    assert int(daemon.ask(Heal(task="t"))["number"]) > 0, "it has begun"
    with pytest.raises(RequestRefused) as refused:
        daemon.ask(Heal(task="t", source="two"))
    report = refused.value.report
    assert (report["Message"], report["Workaround"]) == ("task t does not run on source two", "its sources are: one")
    daemon.ok("operate-source", "stop", "two")
    for words in (("heal", "t"), ("flashback", "t", "--from", "2026-11-26 10:00:00"), ("diff", "t")):
        said = daemon.said(*words)
        assert said.status != 0, words
        assert "there is no source" in said.err, said.err
        assert "two" in said.err, said.err
