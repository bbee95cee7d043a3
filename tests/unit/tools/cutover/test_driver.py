"""When the driver of a cut-over waits, and when it rests."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
import structlog.testing

from dm.errors import DMError
from dm.tools.cutover.driver import Driver
from dm.tools.cutover.machine import CutOverState, NotYet, State, advance
from dm.unit import JSON
from tests.testbed.fake_clock import FakeClock


class _Row:
    """The row, of one driver."""

    def __init__(self, first: CutOverState) -> None:
        self.state = first

    def take_over(self) -> int:
        return 1

    def owned(self, epoch: int) -> CutOverState:
        return self.state

    def write(self, epoch: int, state: CutOverState) -> None:
        self.state = state


class _Servers:
    """Servers that do at once what they are asked, but for the drain: it takes so many looks, or fails."""

    def __init__(self, looks: int, error: DMError | None, fails: str = "") -> None:
        self.looks = looks
        self._error = error
        self.fails = fails  # at which word the hook does
        self.raises: Exception | None = None  # instead of the word's usual error
        self.called = Counter[str]()

    def _hook(self, word: str) -> bool:
        self.called[word] += 1
        if word == self.fails:
            raise self.raises or DMError("cut-over-hook", hook="hook", word=word, how="it ended with 7")
        return False

    def get_ready(self, found: CutOverState) -> None:
        pass

    def stop_writes(self) -> bool:
        return self._hook("stop-writes")

    def close(self, *, by_hook: bool) -> None:
        pass

    def closed(self, *, strictly: bool) -> bool:
        return True

    def ends(self) -> Mapping[str, JSON]:
        return {"one": "1"}

    def written(self, since: Mapping[str, JSON]) -> list[str]:
        return []

    def pause(self) -> None:
        pass

    def demand_applied(self) -> None:
        self.looks -= 1
        if self.looks >= 0:
            raise self._error or NotYet("behind")

    def compare_ahead(self) -> None:
        self.called["compare"] += 1

    def prove(self, how: str) -> Mapping[str, JSON]:
        return {}

    def working(self) -> Sequence[str]:
        return ["one"]

    def rest(self) -> None:
        pass

    def target_end(self) -> tuple[str, JSON]:
        self.called["end"] += 1  # the target's binlog moves with each look
        return f"R{self.called['end']}", self.called["end"]

    def begin_way_back(self, found: CutOverState) -> int:
        return 0

    def demand_untouched(self, found: CutOverState) -> None:
        pass

    def end_way_back(self, found: CutOverState) -> None:
        pass

    def create_acting(self, found: CutOverState) -> None:
        self._acts("create")

    def enable_events(self, found: CutOverState) -> None:
        self._acts("enable")

    def _acts(self, word: str) -> None:
        self.called[word] += 1
        if word == self.fails:
            raise self.raises or DMError("cut-over-objects", task="t", objects="trigger s.t: refused")

    def open_target(self, found: CutOverState) -> None:
        pass

    def switch(self) -> None:
        self._hook("switch")

    def reopen(self, before: Mapping[str, Mapping[str, str]]) -> None:
        pass

    def go_on(self, paused: Sequence[str]) -> None:
        pass

    def start_writes(self) -> None:
        self._hook("start-writes")


BEFORE = {"one": {"read_only": "OFF"}}
RETRYABLE = DMError("connection-lost", role="source", address="there")
REFUSED = DMError("cut-over-none", task="t", what="this", wanted="one", found="none")


@pytest.mark.parametrize(("error", "looks", "state", "seconds"), [
    (None, 0, "switched", 0), (None, 3, "switched", 0.35), (None, 99, "aborted", 10),
    (RETRYABLE, 3, "switched", 1.5), (RETRYABLE, 99, "aborted", 10),
])  # fmt: skip
def test_it_waits_once_for_each_look_and_never_between_steps(
    error: DMError | None, looks: int, state: str, seconds: float
) -> None:
    clock = FakeClock()
    row = _Row(CutOverState("fencing", "full", "", clock.now + 10, BEFORE))
    Driver("t", lambda: row, _Servers(looks, error), clock).run()
    assert row.state.state == state
    assert seconds <= clock.now - 1000 <= seconds + (0.5 if state == "aborted" else 0.01)
    assert row.state.why == ("" if state == "switched" else f"the time is over: {error.message if error else 'behind'}")


@pytest.mark.parametrize(("state", "word", "end"), [
    ("fencing", "switch", "switched"), ("switching", "switch", "switched"), ("aborting", "start-writes", "aborted"),
])  # fmt: skip
def test_a_hook_that_fails_where_there_is_no_way_back_is_called_once_until_a_person_asks(
    state: State, word: str, end: str
) -> None:
    """Else a daemon that starts anew would call it again, and one that fails at an abort would be called for ever."""
    clock = FakeClock()
    row, on = _Row(CutOverState(state, "full", "hook", clock.now + 10, BEFORE)), _Servers(0, None, fails=word)
    for _ in range(3):  # daemons
        driver = Driver("t", lambda: row, on, clock)
        driver.run()
        assert "failed at" in driver.problem
        assert row.state.rests
        assert row.state.state == ("aborting" if end == "aborted" else "switching")
    assert on.called[word] == 1
    on.fails = ""
    row.state = replace(row.state, failed="")  # as a person has it go on
    Driver("t", lambda: row, on, clock).run()
    assert (row.state.state, on.called[word], on.called["stop-writes"]) == (end, 2, 1 if state == "fencing" else 0)


@pytest.mark.parametrize(("fails", "moved"), [("create", 0), ("enable", 1)])
def test_refused_triggers_or_events_rest_until_a_person_asks(fails: str, moved: int) -> None:
    """Triggers are there before an application writes, and events run only after that."""
    clock = FakeClock()
    row = _Row(CutOverState("fencing", "full", "hook", clock.now + 10, BEFORE, acts=True))
    on = _Servers(0, None, fails=fails)
    for _ in range(2):  # daemons
        Driver("t", lambda: row, on, clock).run()
        assert (row.state.state, on.called[fails], on.called["switch"]) == ("switching", 1, moved)
        assert "trigger s.t: refused" in row.state.failed
    on.fails = ""
    row.state = row.state.again(hook="", waive=(), definers=())
    Driver("t", lambda: row, on, clock).run()
    assert (row.state.state, on.called["switch"]) == ("switched", 1), "a hook that has succeeded is not called again"
    plain = _Row(CutOverState("fencing", "full", "", clock.now + 10, BEFORE))
    without = _Servers(0, None)
    Driver("t", lambda: plain, without, clock).run()
    assert (plain.state.state, without.called["create"]) == ("switched", 0), "applications wait for no look at objects"


def test_a_hook_that_fails_to_stop_the_writes_is_an_abort() -> None:
    clock = FakeClock()
    row, on = _Row(CutOverState("fencing", "full", "hook", clock.now + 10, BEFORE)), _Servers(0, None, "stop-writes")
    Driver("t", lambda: row, on, clock).run()
    assert (row.state.state, dict(on.called)) == ("aborted", {"stop-writes": 1, "start-writes": 1})
    assert "it ended with 7" in row.state.why


def test_one_whose_row_was_taken_over_does_nothing_more() -> None:
    """Whatever it was at: no abort is stored or done in the name of the other one."""
    clock = FakeClock()
    row = _Row(CutOverState("fenced", "full", "hook", clock.now + 10, BEFORE))
    on = _Servers(1, DMError("cut-over-taken", task="t"))
    driver = Driver("t", lambda: row, on, clock)
    driver.run()
    assert (driver.taken, row.state.state, on.called) == (True, "fenced", Counter())


def test_the_time_without_writes_begins_with_the_fence() -> None:
    clock = FakeClock()
    row = _Row(CutOverState("comparing", "recent", "", clock.now + 10, BEFORE, patience=10.0))
    on = _Servers(0, None)
    clock.now += 1000  # a comparison of all rows
    Driver("t", lambda: row, on, clock).run()
    assert (row.state.state, row.state.deadline, on.called["compare"]) == ("switched", clock.now + 10, 1)
    assert row.state.times["fencing"] == clock.now


def test_an_abort_before_the_fence_calls_no_hook_and_opens_nothing() -> None:
    clock = FakeClock()
    row, on = _Row(CutOverState("comparing", "recent", "hook", clock.now + 10, BEFORE)), _Servers(0, None)
    driver = Driver("t", lambda: row, on, clock)
    driver.abort()
    driver.run()
    assert (row.state.state, row.state.why, on.called) == ("aborted", "asked for", Counter())


@pytest.mark.parametrize(("error", "tries"), [(RETRYABLE, 10), (REFUSED, 1), (OSError(12, "no memory"), 1)])
@pytest.mark.parametrize("fails", ["create", "switch", "enable"])
def test_whatever_fails_at_the_switch_rests_after_few_tries(fails: str, error: Exception, tries: int) -> None:
    """Nothing is undone there, so a person has to get a way out, also when a server is dead for good."""
    clock = FakeClock()
    row = _Row(CutOverState("fencing", "full", "hook", clock.now + 10, BEFORE, acts=True))
    on = _Servers(0, None, fails=fails)
    on.raises = error
    Driver("t", lambda: row, on, clock).run()
    assert (row.state.state, on.called[fails]) == ("switching", tries)
    assert (error.message if isinstance(error, DMError) else "OSError: [Errno 12] no memory") in row.state.failed
    assert on.called["switch"] == {"create": 0, "switch": tries, "enable": 1}[fails]


@pytest.mark.parametrize(("word", "end"), [("stop-writes", "aborted"), ("start-writes", "aborting")])
@pytest.mark.parametrize("defect", [OSError(28, "disk full"), AssertionError("no"), ValueError("no")])
def test_what_is_no_error_of_dm_ends_no_thread_after_the_fence(word: str, end: str, defect: Exception) -> None:
    clock = FakeClock()
    begins: State = "fencing" if word == "stop-writes" else "aborting"
    row, on = _Row(CutOverState(begins, "full", "hook", clock.now + 10, BEFORE)), _Servers(0, None, fails=word)
    on.raises = defect
    Driver("t", lambda: row, on, clock).run()
    assert (row.state.state, on.called["start-writes"]) == (end, 1)
    assert type(defect).__name__ in (row.state.why or row.state.failed)


@pytest.mark.parametrize("defect", [RETRYABLE, ValueError("no state")])
def test_what_a_hook_has_done_is_kept_until_it_is_stored(defect: Exception) -> None:
    class _Away(_Row):
        away = 3

        def write(self, epoch: int, state: CutOverState) -> None:
            if state.moved and self.away:
                self.away -= 1
                raise defect
            super().write(epoch, state)

    clock = FakeClock()
    row, on = _Away(CutOverState("fencing", "full", "hook", clock.now + 10, BEFORE)), _Servers(0, None)
    Driver("t", lambda: row, on, clock).run()
    assert (row.state.state, row.away, on.called["switch"]) == ("switched", 0, 1)


def test_what_a_person_gives_takes_the_place_of_what_was() -> None:
    rested = CutOverState(
        "switching",
        "full",
        "hook",
        0.0,
        BEFORE,
        failed="no",
        moved=True,
        waived=("view s.v",),
        definers=("keep",),
        acts_twice=("trigger s.t",),
    )
    same = rested.again(hook="", waive=(), definers=())
    assert same == replace(rested, failed="")
    other = rested.again(hook="new", waive=("event s.e",), definers=("a@%=b@%",), acts_twice=("event s.e",))
    assert (other.hook, other.waived, other.definers) == ("new", ("view s.v", "event s.e"), ("a@%=b@%",))
    assert other.acts_twice == ("trigger s.t", "event s.e")
    older = {name: value for name, value in json.loads(rested.to_json()).items() if name != "acts_twice"}
    assert [*CutOverState.from_json(json.dumps(older)).acts_twice] == ["view s.v"], "one word meant both"
    assert other.moved, "the applications are at the target"
    assert not replace(rested, hook="").again(hook="new", waive=(), definers=()).moved, "nothing was called"


class _Unreadable(DMError):
    """An error that can't be handled: what it says raises another one."""

    @property
    def message(self) -> str:
        raise KeyError("detail")


@pytest.mark.parametrize(("word", "begins", "end", "failed"), [
    ("stop-writes", "fencing", "aborted", False),
    ("switch", "switching", "switching", True),
    ("start-writes", "aborting", "aborting", True),
])  # fmt: skip
def test_what_is_raised_while_an_error_is_handled_repeats_no_hook(
    word: str, begins: State, end: str, failed: bool
) -> None:
    clock = FakeClock()
    row, on = _Row(CutOverState(begins, "full", "hook", clock.now + 10, BEFORE)), _Servers(0, None, fails=word)
    on.raises = _Unreadable("cut-over-hook", hook="hook", word=word, how="it ended with 7")
    Driver("t", lambda: row, on, clock).run()
    assert (row.state.state, on.called[word]) == (end, 1)
    assert "KeyError" in (row.state.failed if failed else row.state.why)


class _Broken(_Row):
    """One that refuses a state of some kind so often, with an exception that is no DMError."""

    def __init__(self, first: CutOverState, times: int) -> None:
        super().__init__(first)
        self.times = times

    def write(self, epoch: int, state: CutOverState) -> None:
        if self.times:
            self.times -= 1
            raise ValueError("no state")
        super().write(epoch, state)


@pytest.mark.parametrize(("begins", "times", "end", "moves"), [
    ("switching", 10, "switching", 0), ("switching", 9, "switched", 1), ("fencing", 30, "aborted", 0),
    ("comparing", 10, "aborted", 0), ("aborting", 30, "aborted", 0),
])  # fmt: skip
def test_a_row_that_takes_no_state_is_tried_a_few_times_and_told_of_once(
    begins: State, times: int, end: str, moves: int
) -> None:
    clock = FakeClock()
    row, on = _Broken(CutOverState(begins, "full", "hook", clock.now + 1000, BEFORE), times), _Servers(0, None)
    driver = Driver("t", lambda: row, on, clock)
    with structlog.testing.capture_logs() as logs:
        driver.run()
    assert (row.state.state, on.called["switch"], row.times) == (end, moves, 0)
    assert bool(row.state.failed) == (times >= 10 and begins == "switching")
    assert ("ValueError: no state" in row.state.why) == (times >= 10 and begins in ("fencing", "comparing"))
    assert all(on.called[word] <= 1 for word in ("stop-writes", "switch", "start-writes")), "no hook is called again"
    assert [entry["exc_info"] is not None for entry in logs if "exc_info" in entry] == [True]


def test_a_hook_that_has_moved_the_applications_is_not_called_again_where_that_is_hard_to_store() -> None:
    class _Full(_Broken):
        def write(self, epoch: int, state: CutOverState) -> None:
            super().write(epoch, state) if state.moved else _Row.write(self, epoch, state)

    clock = FakeClock()
    row, on = _Full(CutOverState("fencing", "full", "hook", clock.now + 1000, BEFORE), 25), _Servers(0, None)
    Driver("t", lambda: row, on, clock).run()
    assert (row.state.state, row.state.moved, on.called["switch"]) == ("switching", True, 1)
    assert "ValueError: no state" in row.state.failed


def test_what_was_stored_in_spite_of_an_exception_stands() -> None:
    """No step leads from `switching` to an abort, also where nobody has heard that it was stored."""

    class _Deaf(_Row):
        silent = 0

        def owned(self, epoch: int) -> CutOverState:
            if self.silent:
                self.silent -= 1
                raise ValueError("away")
            return super().owned(epoch)

        def write(self, epoch: int, state: CutOverState) -> None:
            begins = state.state == "switching" and self.state.state != "switching"
            super().write(epoch, state)
            if begins:
                self.silent = 20
                raise ValueError("away")

    clock = FakeClock()
    row, on = _Deaf(CutOverState("fencing", "full", "hook", clock.now + 1000, BEFORE)), _Servers(0, None)
    Driver("t", lambda: row, on, clock).run()
    assert (row.state.state, on.called["switch"], on.called["start-writes"]) == ("switched", 1, 0)


def test_the_target_s_end_is_one_place_in_words_and_for_the_way_back() -> None:
    found = advance(CutOverState("proved", "none", "", 0.0, {}), _Servers(0, None))
    assert (found.target_end, found.start) == ("R1", 1)
