"""A verb that looks and then acts is not overtaken by one that changes what it has seen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

import pytest

from dm.verbs.declaration import ConfigFile
from dm.verbs.errands import Diff, RunStatus, StopRun
from tests.unit.worker.home import Dmctl, TestHome, until


def answers(one: TestHome, **said: object) -> None:
    one.file("servers.json", json.dumps(said))


@contextmanager
def begun(one: TestHome, *arguments: str, at: str) -> Iterator[Future[Dmctl]]:
    """A verb that stands still once this file is there; it goes on at the end."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(one.dmctl, *arguments)
        try:
            until((one.directory / at).exists)
            yield running
        finally:
            (one.directory / "go").touch()


@pytest.mark.parametrize("verb", ["forgotten remove", "stop-task --remove-meta"])
def test_a_task_that_is_started_while_its_progress_is_removed_waits_for_that(one: TestHome, verb: str) -> None:
    """What it is checked by would go afterwards, and so might what it has written."""
    file = one.task("old")
    forgotten = verb == "forgotten remove"
    one.ok("start-task", file)
    if forgotten:
        one.ok("stop-task", "old")
    answers(one, stored=["old"], slow_removal=["old"])
    arguments = ("forgotten", "remove", "progress/old", "--file", file) if forgotten else (
        "stop-task", "old", "--remove-meta")  # fmt: skip
    with begun(one, *arguments, at="removing") as removal, ThreadPoolExecutor(1) as pool:
        start = pool.submit(one.dmctl, "start-task", file)
        wait([start], timeout=1)  # it would have been checked by now
        (one.directory / "go").touch()
        assert (removal.result().status, start.result().status) == (0, 0)
    said = (one.directory / ("removed" if forgotten else "forgotten")).read_text().splitlines()
    assert said == ["127.0.0.1:4000/dm_meta old" if forgotten else "old/one"]
    assert one.stage("old")[1] == "Sync"


@pytest.mark.parametrize("known", [False, True])
def test_what_a_comparison_needs_is_not_removed_under_it(one: TestHome, known: bool) -> None:
    file = one.task("old")
    one.ok("start-task", file)
    if not known:
        one.ok("stop-task", "old")
    answers(one, stored=["old"])
    one.script("old/.diff", Diff="run")
    given = ConfigFile(file, (one.directory / file).read_text(), str(one.directory))
    number = one.ask(Diff(task="old") if known else Diff(file=given))["number"]
    until(lambda: one.ask(RunStatus(number=number)).get("totalRows"))
    removals = (
        [("stop-task", "old", "--remove-meta")]
        if known
        else [
            ("forgotten", "remove", "progress/old", "--file", file),
            ("forgotten", "remove", "work/old"),
            ("start-task", file, "--remove-meta"),
        ]
    )
    for words in removals:
        refused = one.said(*words)
        assert (refused.status, "Error 48939" in refused.err) == (1, True), refused.err
        assert "a diff of old is under way" in refused.err
    assert not (one.directory / "removed").exists()
    assert not (one.directory / "forgotten").exists()
    one.ask(StopRun(number=number))
    until(lambda: one.ask(RunStatus(number=number))["ended"])
    one.ok("forgotten", "remove", "progress/old", "--file", file)
    assert (one.directory / "removed").read_text() == "127.0.0.1:4000/dm_meta old\n"


@pytest.mark.parametrize(("verb", "code"), [("stop", 46008), ("update", 46900)])
def test_a_source_that_is_another_when_the_checks_are_done_is_not_started_on(
    one: TestHome, verb: str, code: int
) -> None:
    answers(one, slow_check=True)
    file = one.task()
    with ThreadPoolExecutor(1) as pool:
        start = pool.submit(one.dmctl, "start-task", file)
        until((one.directory / "checked").exists)
        one.ok("operate-source", verb, one.source(enable_gtid=True) if verb == "update" else one.source())
        (one.directory / "ahead").touch()
        refused = start.result()
    assert refused.status == 1
    assert f"{code}" in refused.err
    answers(one)
    assert one.ok("query-status")["tasks"] == []
    holds = Path(one.directory, "relay", "one", "holds")
    assert not holds.exists() or not list(holds.glob("t*"))
