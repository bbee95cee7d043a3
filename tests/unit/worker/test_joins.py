"""Which runs there are beside the tasks' streams: what the streams' status asks for, as long as a person wants it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from dm.clock import SystemClock
from dm.errors import DMError
from dm.task.subtask import JOIN_UNITS, UNITS_OF_MODE, Subtask
from dm.worker.job import Job
from dm.worker.side_runs import Joins

KEY = ("t", "one")
ASKED = {"number": "a", "kind": "reload", "phase": "asked", "tables": ["`s`.`t`"]}


class World:
    """What jobs need of the supervisor: nothing of it runs."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.hosts: Any = None
        self.launched: list[str] = []
        self.main = self.job("t on one", UNITS_OF_MODE["incremental"])
        self.main.subtask.stage, self.main.subtask.unit = "Running", "Sync"
        self.joins = Joins(self.made)

    def job(self, label: str, units: Any) -> Job:
        job = Job(cast(Any, self), "one", "t")
        job.subtask = Subtask(label, units, job, self.clock)
        return job

    def made(self, task: str, source: str, branch: str) -> Job:
        job = self.job(f"join {task} {source} {branch}".rstrip(), JOIN_UNITS)
        job.branch = branch
        return job

    def launch_if_ready(self, job: Job) -> None:
        self.launched.append(job.subtask.label)

    def says(self, joining: object, *branches: object) -> None:
        status: dict[str, Any] = {"syncerBinlog": "p", **({"joining": joining} if joining else {})}
        status |= {"branches": [*branches]} if branches else {}
        self.main.unit_status(status, last=False)
        self.tick()

    def tick(self) -> None:
        self.joins.tick({KEY: self.main})

    def join(self) -> Job:
        (found,) = self.joins.of(*KEY)
        return found

    def there(self) -> bool:
        return bool(self.joins.of(*KEY))

    def report(self) -> Any:
        return self.joins.report(self.main)

    def stage(self) -> str:
        return self.join().subtask.stage


def test_a_run_begins_when_the_stream_shows_it_and_goes_when_it_is_over() -> None:
    world = World()
    world.says(None)
    assert not world.there()
    world.says(ASKED)
    assert world.there()
    assert world.launched == ["join t one"]
    assert world.report()["joining"]["stage"] == "Running"
    world.join().unit_finished()
    world.tick()
    assert world.there(), "the stream still shows it: it is not begun again"
    world.says(None)
    assert not world.there()
    assert world.report() == {}
    world.says({**ASKED, "number": "b"})
    assert len(world.launched) == 2


def branch(number: str, phase: str) -> dict[str, Any]:
    return {"number": number, "phase": phase, "tables": ["`s`.`t`"], "since": "now", "error": None}


def test_each_branch_that_comes_back_has_a_run() -> None:
    world = World()
    world.says(None, branch("a", "aside"), branch("b", "undo"), branch("c", "near"), branch("d", "dropped"))
    assert sorted(world.launched) == ["join t one b", "join t one c"]
    assert [one["phase"] for one in world.report()["branches"]] == ["aside", "undo", "near", "dropped"]
    assert [one.get("stage") for one in world.report()["branches"]] == [None, "Running", "Running", None]
    for job in world.joins.of(*KEY):
        job.unit_finished()
    world.says(None, branch("b", "aside"))
    assert not world.there()
    world.says(None, branch("b", "undo"))
    assert world.there(), "released once more, it has its number"


def test_a_persons_pause_holds_for_it() -> None:
    world = World()
    world.says(ASKED)
    assert world.there()
    world.main.subtask.stage, world.main.subtask.intent = "Paused", "paused"
    world.tick()
    world.tick()
    assert not world.there()
    world.main.subtask.stage, world.main.subtask.intent = "Running", "running"
    world.tick()
    assert world.there()


def test_an_error_rests_until_a_person_resumes() -> None:
    world = World()
    world.says(ASKED)
    assert world.there()
    assert not world.joins.resume(*KEY), "it runs"
    world.join().unit_failed(DMError("joining-not-there", task="t").report(), retryable=False)
    world.tick()
    assert world.stage() == "Paused"
    assert world.report()["joining"]["result"]["errors"]
    assert world.joins.resume(*KEY)
    assert world.stage() == "Running"


def test_a_stream_that_is_told_to_look_again_is_not_asked_any_more() -> None:
    """`wait --synced` after `reload-table` must not be answered by the run that has not seen the table."""
    world = World()
    world.hosts = SimpleNamespace(refresh=lambda *_: None, halt=lambda *_: None)
    world.main.host_run = 1
    request = world.main.refresh()
    world.main.unit_refreshed(request)
    assert world.main.current(request)
    world.main.subtask.restart()
    assert not world.main.current(request)
