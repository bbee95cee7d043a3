"""The life of a subtask: order of units, auto-resume, and a person's pause, which always wins."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dm.errors import DMError
from dm.task.backoff import Backoff
from dm.task.subtask import UNITS_OF_MODE, Subtask
from dm.unit import UnitName
from tests.testbed.fake_clock import FakeClock

RETRYABLE = DMError("connection-lost", role="upstream", address="127.0.0.1:3306")
FATAL = DMError("access-denied", role="upstream", address="127.0.0.1:3306", user="dm")


@dataclass
class Recorder:
    """A runner that only remembers what it was asked."""

    asked: list[tuple[str, int, str]] = field(default_factory=list)

    def locate(self, run: int) -> None:
        self.asked.append(("locate", run, ""))

    def launch(self, run: int, unit: UnitName) -> None:
        self.asked.append(("launch", run, unit))

    def halt(self, run: int) -> None:
        self.asked.append(("halt", run, ""))

    @property
    def verbs(self) -> list[str]:
        return [f"{verb} {unit}".strip() for verb, _, unit in self.asked]


def subtask(mode: str = "all", *, auto_resume: bool = True) -> tuple[Subtask, Recorder, FakeClock]:
    runner, clock = Recorder(), FakeClock()
    backoff = Backoff(minimum=1, maximum=8, rollback=300, jitter=0)
    return (
        Subtask("task t on source s", UNITS_OF_MODE[mode], runner, clock, backoff, auto_resume),
        runner,
        clock,
    )


def stage(one: Subtask) -> str:
    """For a type checker that takes an attribute for constant over a call."""
    return one.stage


def running(mode: str = "incremental", unit: UnitName = "Sync") -> tuple[Subtask, Recorder, FakeClock]:
    one, runner, clock = subtask(mode)
    one.start()
    one.located(one.run, unit)
    assert stage(one) == "Running"
    return one, runner, clock


def test_units_run_in_the_order_of_the_mode() -> None:
    one, runner, _ = subtask("all")
    one.start()
    one.located(one.run, "Dump")
    one.finished(one.run)
    one.finished(one.run)
    assert runner.verbs == ["locate", "launch Dump", "launch Load", "launch Sync"]
    assert (one.stage, one.unit) == ("Running", "Sync")


def test_a_full_task_ends_finished() -> None:
    one, _, _ = running("full", "Load")
    one.finished(one.run)
    assert (one.stage, one.unit) == ("Finished", "Load")


def test_it_begins_where_stored_progress_says() -> None:
    one, runner, _ = running("all", "Sync")
    assert runner.verbs == ["locate", "launch Sync"]
    assert one.unit == "Sync"


def test_nothing_left_to_do_is_finished() -> None:
    one, _, _ = subtask("full")
    one.start()
    one.located(one.run, None)
    assert (one.stage, one.unit) == ("Finished", "Load")


def test_pause_and_resume() -> None:
    one, runner, _ = running()
    one.pause()
    assert stage(one) == "Pausing"
    one.stopped(one.run)
    assert stage(one) == "Paused"
    assert one.result() == {"isCanceled": True, "errors": [], "detail": ""}
    one.resume()
    assert runner.verbs[-2:] == ["halt", "launch Sync"]
    assert stage(one) == "Running"
    assert one.result() is None


def test_a_retryable_error_is_tried_again_when_its_time_has_come() -> None:
    one, runner, clock = running()
    one.failed(one.run, RETRYABLE)
    assert stage(one) == "Paused"
    result = one.result()
    assert result is not None
    assert result["isCanceled"] is False
    assert result["errors"] == [RETRYABLE.report()]
    one.tick()
    assert stage(one) == "Paused", "too early"
    clock.now += 1
    one.tick()
    assert stage(one) == "Running"
    assert runner.verbs[-1] == "launch Sync"


def test_why_it_failed_is_still_said_while_it_tries_again() -> None:
    one, _, clock = running()
    one.failed(one.run, RETRYABLE)
    clock.now += 1
    one.tick()
    result = one.result()
    assert result is not None
    assert "auto-resume began it again (attempt 1) after: the connection to upstream 127.0.0.1:3306 broke" in str(
        result["detail"]
    )
    one.settled(one.run)
    assert one.result() is None, "once it has worked well for a while the error is history"


FENCED = DMError("fenced", task="t", source="s", lane="control", epoch=1, owner="dm-worker on host b has it")
TAKEN = DMError("replica-id-taken", server_id=7)


@pytest.mark.parametrize("error", [FENCED, TAKEN], ids=["at the target", "at the source"])
def test_what_another_run_has_ended_rests_on_a_single_host(error: DMError) -> None:
    one, runner, clock = running()
    one.failed(one.run, error)
    clock.now += 10_000
    one.tick()
    assert (stage(one), runner.verbs[-1]) == ("Paused", "launch Sync")
    assert one.next_attempt is None
    assert one.result() == {"isCanceled": False, "errors": [error.report()], "detail": ""}


@pytest.mark.parametrize("error", [FENCED, TAKEN], ids=["at the target", "at the source"])
def test_in_a_cluster_it_comes_back_once_the_source_is_this_members_and_silence_is_no(error: DMError) -> None:
    one, runner, clock = running()
    answers: list[bool | None] = [False, None, True]
    one.mine = lambda: answers.pop(0)
    one.failed(one.run, error)
    result = one.result()
    assert result is not None
    assert "once the cluster says" in str(result["detail"])
    for left in (2, 1):
        clock.now += 100
        one.tick()
        assert (stage(one), len(answers)) == ("Paused", left)
    clock.now += 100
    one.tick()
    assert (stage(one), runner.verbs[-1]) == ("Running", "launch Sync")
    one.located(one.run, "Sync")
    one.failed(one.run, RETRYABLE)
    one.mine = lambda: None
    clock.now += 100
    one.tick()
    assert stage(one) == "Running", "what ended otherwise needs no answer: etcd may be gone"
    one.failed(one.run, RETRYABLE)
    one.mine = lambda: False
    clock.now += 100
    one.tick()
    assert stage(one) == "Paused", "another member has the source"


def test_a_person_resumes_what_another_run_has_ended() -> None:
    one, runner, _ = running()
    one.mine = lambda: False
    one.failed(one.run, FENCED)
    one.resume()
    assert (stage(one), runner.verbs[-1], one.fenced) == ("Running", "launch Sync", False)


def test_attempts_get_rarer() -> None:
    one, _, clock = running()
    waits = []
    for _ in range(5):
        one.failed(one.run, RETRYABLE)
        assert one.next_attempt is not None
        waits.append(one.next_attempt - clock.now)
        clock.now = one.next_attempt
        one.tick()
    assert waits == [1, 2, 4, 8, 8]


def test_an_error_that_needs_a_person_is_not_tried_again() -> None:
    one, runner, clock = running()
    one.failed(one.run, FATAL)
    clock.now += 1e6
    one.tick()
    assert stage(one) == "Paused"
    assert runner.verbs == ["locate", "launch Sync"]


def test_check_enable_false_turns_auto_resume_off() -> None:
    one, _, clock = subtask("incremental", auto_resume=False)
    one.start()
    one.failed(one.run, RETRYABLE)
    clock.now += 1e6
    one.tick()
    assert stage(one) == "Paused"


def test_a_pause_of_a_task_that_rests_on_an_error_ends_auto_resume() -> None:
    one, runner, clock = running()
    one.failed(one.run, RETRYABLE)
    one.pause()
    clock.now += 1e6
    one.tick()
    assert one.is_canceled
    assert runner.verbs == ["locate", "launch Sync"]
    result = one.result()
    assert result is not None
    assert result["errors"] == [RETRYABLE.report()], "what was wrong can still be read"


def test_a_pause_wins_over_an_error_that_comes_while_it_is_under_way() -> None:
    one, runner, clock = running()
    one.pause()
    one.failed(one.run, RETRYABLE)
    clock.now += 1e6
    one.tick()
    assert one.is_canceled
    assert runner.verbs == ["locate", "launch Sync", "halt"]


def test_a_pause_between_two_units_rests_before_the_next() -> None:
    one, runner, _ = running("all", "Dump")
    one.pause()
    one.finished(one.run)
    assert (one.stage, one.unit) == ("Paused", "Load")
    one.resume()
    assert runner.verbs[-1] == "launch Load"


def test_a_pause_while_progress_is_being_looked_up() -> None:
    one, runner, _ = subtask("all")
    one.start()
    one.pause()
    one.located(one.run, "Sync")
    assert stage(one) == "Paused"
    one.resume()
    assert runner.verbs == ["locate", "halt", "locate"]


def test_late_news_of_an_earlier_run_changes_nothing() -> None:
    one, _, _ = running("all", "Dump")
    earlier = one.run
    one.finished(earlier)
    one.failed(earlier, FATAL)
    one.stopped(earlier)
    one.finished(earlier)
    assert (one.stage, one.unit) == ("Running", "Load")


def test_a_running_task_cannot_be_resumed_nor_a_resting_one_paused_again() -> None:
    one, _, _ = running()
    with pytest.raises(DMError, match="can't be resumed") as refused:
        one.resume()
    assert refused.value.message == "task t on source s can't be resumed: its stage is Running"
    one.pause()
    one.stopped(one.run)
    with pytest.raises(DMError, match="can't be paused"):
        one.pause()


@pytest.mark.parametrize("failing", [False, True])
def test_stop(failing: bool) -> None:
    one, _, _ = running()
    one.stop()
    assert stage(one) == "Stopping"
    one.failed(one.run, RETRYABLE) if failing else one.stopped(one.run)
    assert stage(one) == "Stopped"


def test_a_restart_begins_the_same_unit_anew() -> None:
    one, runner, _ = running()
    one.restart()
    assert stage(one) == "Running"
    one.stopped(one.run)
    assert stage(one) == "Running"
    assert runner.verbs == ["locate", "launch Sync", "halt", "launch Sync"]


def test_a_pause_wins_over_a_restart() -> None:
    one, runner, _ = running()
    one.restart()
    one.pause()
    one.stopped(one.run)
    assert stage(one) == "Paused"
    one.restart()
    assert runner.verbs == ["locate", "launch Sync", "halt", "halt"]


def test_stop_of_a_resting_task_is_immediate() -> None:
    one, _, _ = running()
    one.failed(one.run, FATAL)
    one.stop()
    assert stage(one) == "Stopped"


@dataclass
class Book:
    """Keeps what it is told, as the registry does, while there is room."""

    one: Subtask
    full: bool = False
    intent: str = "running"
    stage: str = "New"

    def wish(self, intent: str) -> None:
        self._demand_room()
        self.intent = intent

    def changed(self) -> None:
        self._demand_room()
        self.intent, self.stage = self.one.intent, self.one.stage

    def _demand_room(self) -> None:
        if self.full:
            raise DMError("registry-unusable", path="registry.sqlite")


def kept(one: Subtask) -> Book:
    book = Book(one, intent=one.intent, stage=one.stage)
    one.wish, one.changed = book.wish, book.changed
    return book


def test_what_happened_is_acted_on_though_it_cant_be_kept_and_is_kept_once_there_is_room() -> None:
    one, runner, clock = running()
    book = kept(one)
    book.full = True
    one.failed(one.run, RETRYABLE)
    result = one.result()
    assert result is not None
    assert [error["ErrCode"] for error in one.errors] == [RETRYABLE.code]
    assert "40912" in str(result["errors"]), "it is said that it could not be kept"
    clock.now += 1
    one.tick()
    assert runner.verbs == ["locate", "launch Sync", "launch Sync"]
    assert stage(one) == "Running"
    assert "40912" in str(one.result())
    assert (book.intent, book.stage) == ("running", "Running"), "as it was before"
    one.failed(one.run, FATAL)
    assert book.stage == "Running"
    book.full = False
    one.tick()
    assert book.stage == "Paused"
    assert "40912" not in str(one.result())


@pytest.mark.parametrize("verb", ["pause", "resume", "pause of what rests on an error"])
def test_a_verb_that_cant_be_kept_fails_and_changes_nothing(verb: str) -> None:
    one, runner, _ = running()
    if verb != "pause":
        one.failed(one.run, RETRYABLE)
    book = kept(one)
    book.full = True
    before = (one.intent, one.stage, one.run, one.next_attempt, one.result(), runner.verbs)
    with pytest.raises(DMError, match="can't be used"):
        one.resume() if verb == "resume" else one.pause()
    assert (one.intent, one.stage, one.run, one.next_attempt, one.result(), runner.verbs) == before
    book.full = False
    one.resume() if verb == "resume" else one.pause()
    assert (book.intent, book.stage) == (one.intent, one.stage)


class AnyHistory(RuleBasedStateMachine):
    """Whatever a person and the world do, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.subtask, self.runner, self.clock = subtask("all")
        self.wanted = "running"
        self.book = kept(self.subtask)
        self.subtask.start()

    @rule(full=st.booleans())
    def disk_fills_or_has_room(self, full: bool) -> None:
        self.book.full = full

    @rule()
    def pause(self) -> None:
        with suppress(DMError):  # refused in some stages; then nothing changes
            self.subtask.pause()
            self.wanted = "paused"

    @rule()
    def resume(self) -> None:
        with suppress(DMError):
            self.subtask.resume()
            self.wanted = "running"

    @rule(seconds=st.floats(0, 20))
    def time_passes(self, seconds: float) -> None:
        self.clock.now += seconds
        self.subtask.tick()

    @rule(error=st.sampled_from([RETRYABLE, FATAL]), late=st.integers(0, 2))
    def run_fails(self, error: DMError, late: int) -> None:
        if self._in_flight(late):
            self.subtask.failed(self.subtask.run - late, error)

    @rule(late=st.integers(0, 2))
    def run_finishes(self, late: int) -> None:
        if self._in_flight(late):
            self.subtask.finished(self.subtask.run - late)

    @precondition(lambda self: self.runner.asked[-1][0] == "locate")
    @rule(unit=st.sampled_from(["Dump", "Load", "Sync"]))
    def located(self, unit: UnitName) -> None:
        self.subtask.located(self.subtask.run, unit)

    @precondition(lambda self: self.subtask.stage in ("Pausing", "Stopping"))
    @rule()
    def run_stops(self) -> None:
        self.subtask.stopped(self.subtask.run)

    def _in_flight(self, late: int) -> bool:
        return late > 0 or self.subtask.stage in ("Running", "Pausing")

    @invariant()
    def a_wish_for_rest_is_never_overridden(self) -> None:
        if self.wanted == "paused":
            assert self.subtask.stage in ("Pausing", "Paused", "Finished")

    @invariant()
    def what_a_person_wants_is_kept(self) -> None:
        assert self.book.intent == self.wanted
        if self.subtask.unkept is None:
            assert self.book.stage == self.subtask.stage

    @invariant()
    def one_run_at_a_time(self) -> None:
        launched = [run for verb, run, _ in self.runner.asked if verb in ("launch", "locate")]
        assert launched == sorted(set(launched)), "every run has a number of its own"


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
