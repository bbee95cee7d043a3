"""What a daemon tells of its tasks afterwards: each start, pause, error, kill, DDL and verb, once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from dm.errors import CATALOGUE, DMError
from dm.task.subtask import Subtask
from dm.verbs.history import ShowCurves, ShowTimeline
from dm.worker.history.history import History
from dm.worker.job import Job
from tests.testbed.fake_clock import FakeClock
from tests.unit.worker.home import TestHome, home, until
from tests.unit.worker.test_api import port


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHome]:
    """A daemon for several tests, each with a task of its own."""
    with home(tmp_path_factory.mktemp("history") / "home") as running:
        running.start("--listen", "127.0.0.1:0")
        running.ok("operate-source", "create", running.source())
        yield running


def told(one: TestHome, **asked: Any) -> list[dict[str, Any]]:
    answer = one.ask(ShowTimeline(**asked))["happenings"]
    assert isinstance(answer, list)
    return answer


def texts(one: TestHome, task: str = "t") -> list[str]:
    return [each["text"] for each in told(one, task=task)]


def test_the_life_of_a_task(shared: TestHome) -> None:
    one = shared
    one.ok("start-task", one.task())
    one.ok("pause-task", "t")
    one.ok("resume-task", "t")
    os.kill(one.pid_of("t"), signal.SIGKILL)
    until(lambda: any(each["kind"] == "kill" for each in told(one)))
    one.ok("stop-task", "t")
    found = [(each["kind"], each["text"].partition(":")[0], each["who"]) for each in told(one, task="t")]
    assert found[:4] == [
        ("start", "Sync starts", ""),
        ("pause", "Sync rests", ""),
        ("verb", "pause-task", "local socket"),
        ("start", "Sync starts", ""),
    ]
    assert ("kill", "Sync rests", "") in found
    assert found[-1] == ("verb", "stop-task", "local socket")
    assert {each["source"] for each in told(one, task="t") if not each["who"]} == {"one"}
    assert "start-task" in [each["text"] for each in told(one)]
    shown = one.said("timeline", "t", "-n", "1").out
    assert "stop-task" in shown
    assert "local socket" in shown


def test_an_error_that_comes_again_and_again_is_told_once(shared: TestHome) -> None:
    one = shared
    one.task("again")
    one.script("again", Sync={"error": "connection-lost", "role": "downstream", "address": "10.0.0.1:4000"})
    one.tried("start-task", "again.yaml")
    until(lambda: len(one.trace("again")) >= 3)
    errors = [each for each in told(one, task="again") if each["kind"] == "error"]
    assert [each["code"] for each in errors] == [CATALOGUE["connection-lost"].code]
    assert len([text for text in texts(one, "again") if "starts" in text]) == 1
    one.ok("stop-task", "again")


def test_ddl_is_told_with_its_time_and_what_was_not_heard_is_counted(shared: TestHome) -> None:
    one = shared
    recent = [{"number": 4 + n, "text": f"ALTER TABLE a.t ADD c{n} INT", "ended": 1.0, "seconds": 2.5} for n in (0, 1)]
    one.task("altered")
    one.script("altered", Sync={"says": {"recentDDLs": recent}})
    one.ok("start-task", "altered.yaml")
    found = until(lambda: [each["text"] for each in told(one, task="altered") if each["kind"] == "ddl"])
    assert found == [
        "3 more DDL statements",
        "ALTER TABLE a.t ADD c0 INT (2.5 s)",
        "ALTER TABLE a.t ADD c1 INT (2.5 s)",
    ]
    assert one.ask(ShowCurves(task="altered"))["curves"] == [{"source": "one", "points": []}]
    assert one.ask(ShowCurves(task="altered", source=("one",)))["curves"] == [{"source": "one", "points": []}]


def test_a_daemon_that_was_killed_says_so_when_it_is_back(one: TestHome) -> None:
    one.ok("start-task", one.task())
    one.kill()
    one.start()
    daemon = [(each["kind"], each["text"].partition(",")[0]) for each in told(one) if not each["source"] + each["who"]]
    assert daemon == [
        ("daemon", "dm-worker started"),
        ("kill", "dm-worker had ended without a word: it was killed"),
        ("daemon", "dm-worker started"),
    ]
    assert one.stop() == 0
    one.start()
    assert [each["text"].partition(",")[0] for each in told(one) if each["kind"] == "daemon"][-2:] == [
        "dm-worker ended",
        "dm-worker started",
    ]


def test_its_bound_is_a_setting(shared: TestHome) -> None:
    one = shared
    assert one.ok("config", "worker")["worker"]["history-max-size"] == "16M"
    assert one.ok("config", "worker", "--history-max-size", "2M")["worker"]["history-max-size"] == "2M"
    refused = one.said("config", "worker", "--history-max-size", "9K")
    assert refused.status == 2
    assert "--history-max-size: '9K' is not possible" in refused.err
    assert one.ok("config", "worker")["worker"]["history-max-size"] == "2M"


def test_who_asked_through_a_port_is_in_the_timeline(shared: TestHome) -> None:
    token = shared.ok("token", "create", "anna", "-p", "operate")["token"]
    where = f"http://{port(shared, 'listen')}/api/v2/tasks/none/pause"
    httpx.post(where, headers={"authorization": f"Bearer {token}"}, json={})
    last = told(shared)[-1]
    assert (last["who"], last["text"], last["task"], last["code"]) == ("anna", "pause-task: refused", "none", 46018)


class _Owner:
    """Of jobs that run by themselves."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock


def _job(clock: FakeClock, source: str) -> Job:
    job = Job(cast(Any, _Owner(clock)), source, "t", host_run=1)
    job.subtask = Subtask("t", ("Sync",), job, clock, stage="Running", unit="Sync")
    job.words.begins("Sync")
    return job


def test_rates_are_of_the_rows_between_two_points_of_a_run(tmp_path: Path) -> None:
    clock = FakeClock()
    history = History(tmp_path, clock)
    job = _job(clock, "one")

    def values(rows: int, lag: float | None) -> object:
        clock.now += 100
        job.unit_status({"totalRows": rows, "secondsBehindMaster": lag}, last=False)
        return history.values({("t", "one"): job})["t", "one"]

    assert values(500, 1.5) == (1.5, None)
    assert values(1500, 2.0) == (2.0, 10.0)
    job.host_run = 2
    assert values(300, None) == (None, None)
    assert values(400, 0.0) == (0.0, 1.0)
    job.host_run = None
    clock.now += 50
    assert history.values({("t", "one"): job})["t", "one"] == (50.0, 0.0)


def test_it_knows_when_a_subtask_had_caught_up_last(tmp_path: Path) -> None:
    clock = FakeClock()
    history = History(tmp_path, clock)
    job = _job(clock, "one")
    job.told = history.heard
    job.unit_status({"synced": True}, last=False)
    clock.now += 40
    job.unit_status({"synced": False}, last=False)
    assert history.caught_up("t", "one") == 1000.0
    history.values({})
    assert history.caught_up("t", "one") is None


def test_work_after_an_error_is_told_when_it_has_lasted(tmp_path: Path) -> None:
    clock = FakeClock()
    history = History(tmp_path, clock)
    job = _job(clock, "one")
    job.told, job.subtask.changed = history.heard, lambda: history.stage(job)
    job.began = clock.now
    job.subtask.failed(0, DMError("connection-lost", role="downstream", address="10.0.0.1:4000"))
    job.subtask.stage, job.subtask.errors = "Running", []
    for _ in range(4):
        job.unit_status({}, last=False)
        clock.now += 20
    assert [each.kind for each in reversed(history.timeline.newest(9))] == ["error", "start"]
    assert history.timeline.newest(1)[0].text == "works again"
