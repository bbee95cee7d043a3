"""Who is asked for a binlog verb while runs end and others begin: whoever is there then, until somebody knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import pytest

from dm.clock import SystemClock
from dm.config import SubtaskConfig
from dm.errors import DMError
from dm.syncer.operators import EventPlace, Request
from dm.task.binlog_verbs import StructureRequest
from dm.task.subtask import UNITS_OF_MODE, Subtask
from dm.unit import JSON
from dm.verbs.binlog import SkipEvent
from dm.worker.job import Job
from dm.worker.loop import Loop
from dm.worker.verb_work import Means, ProgressAtTarget
from dm.worker.verbs import binlog
from dm.worker.verbs.binlog import BinlogVerbs

PLACE: Mapping[str, str | int | bool] = {"server_uuid": "u", "file": "b.000001", "offset": 77, "statement": True}
Says = Callable[["Following", str, int], None]


class Following:
    """A task whose runs say what the test wants, question by question, with the daemon's own loop around it."""

    def __init__(self, *says: Says) -> None:
        self.clock = SystemClock()
        self.loop = Loop(self.clock)
        self.hosts = self.tasks = self
        self.config = self
        self.asked: list[tuple[int | None, str]] = []
        self._says = list(says)
        self.job = Job(cast(Any, self), "one", "t")
        self.job.subtask = Subtask("t on one", UNITS_OF_MODE["incremental"], self.job, self.clock)
        self.job.subtask.stage, self.job.subtask.unit = "Running", "Sync"
        self.job.host_run, self.job.resumed_at = 1, PLACE

    def skip(self) -> Any:
        self.progress = ProgressAtTarget(lambda _: None, self._by_the_daemon, self._structure)
        here = cast(Any, self)
        means = Means(self.loop, here, here, here, here, here, here, lambda: None)
        return BinlogVerbs(means).operate(SkipEvent(task="t", sources=("one",)))

    def ask(self, run: int, request: int, what: str, _arguments: Mapping[str, JSON]) -> None:
        self.asked.append((run, what))
        says = self._says.pop(0) if len(self._says) > 1 else self._says[0]
        self.loop.post(lambda: says(self, what, request))

    def _by_the_daemon(self, _config: SubtaskConfig, _request: Request, place: EventPlace | None) -> JSON:
        self.asked.append((None, f"failing at {place}"))
        return []

    def _structure(self, _config: SubtaskConfig, _request: StructureRequest) -> str:
        raise AssertionError("nobody asked for a structure")

    # what else a verb needs of the supervisor, its tasks and their files

    def jobs(self, _task: str, _sources: object) -> list[Job]:
        return [self.job]

    def __getitem__(self, _task: str) -> Following:
        return self

    def source_configs(self) -> Mapping[str, Any]:
        return {}

    def subtask(self, _source: str, _sources: object) -> None:
        return None


def answers(value: JSON) -> Says:
    """The run knows."""
    return lambda following, _, request: following.job.unit_answered(request, value, None)


def is_not_there(following: Following, what: str, request: int) -> None:
    """The run is just starting or ending."""
    following.job.unit_answered(request, None, DMError("unit-not-there", question=what).report())


def ends_first(following: Following, _what: str, _request: int) -> None:
    """The run ended before it answered, and the next one has begun."""
    following.job.host_run = (following.job.host_run or 0) + 1


def fails_first(following: Following, _what: str, _request: int) -> None:
    """The run failed at an event further on before it answered, and nothing follows."""
    following.job.host_run = None
    following.job.failing = {**PLACE, "offset": 99}
    following.job.subtask.stage = "Paused"


@pytest.fixture
def working(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Following]]:
    monkeypatch.setattr(binlog, "AGAIN_SECONDS", 0.01)
    made: list[Following] = []

    def make(*says: Says) -> Following:
        following = Following(*says)
        following.job.subtask.intent = "paused"  # so that nothing goes on by itself
        following.loop.start(lambda: True)
        made.append(following)
        return following

    yield make
    for following in made:
        following.loop.end()


def test_a_run_is_asked_that_began_while_two_others_ended(working: Callable[..., Following]) -> None:
    following = working(ends_first, ends_first, answers(True), answers([]))
    assert following.skip()["sources"][0]["result"]
    assert following.asked == [(1, "passed"), (2, "passed"), (3, "passed"), (3, "binlog")]
    assert following.job.resumed_at is None


def test_a_run_that_is_just_starting_is_asked_again(working: Callable[..., Following]) -> None:
    following = working(is_not_there, is_not_there, answers(True), is_not_there, answers([]))
    assert following.skip()["sources"][0]["result"]
    assert [what for _, what in following.asked] == ["passed"] * 3 + ["binlog"] * 2


def test_a_run_that_ends_while_it_is_asked_leaves_the_question_to_the_daemon(
    working: Callable[..., Following],
) -> None:
    following = working(ends_first, answers(True), fails_first)
    assert following.skip()["sources"][0]["result"]
    assert following.asked[-1] == (None, "failing at b.000001:99")


def test_a_run_that_never_knows_is_not_asked_for_ever(
    working: Callable[..., Following], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binlog, "ANSWER_SECONDS", 0.05)
    following = working(is_not_there)
    with pytest.raises(DMError, match="40916"):
        following.skip()


def test_an_event_that_is_still_being_applied_is_said(working: Callable[..., Following]) -> None:
    following = working(answers(False))
    with pytest.raises(DMError) as refused:
        following.skip()
    assert refused.value.name == "failing-event-under-way"
    assert following.job.resumed_at == PLACE
