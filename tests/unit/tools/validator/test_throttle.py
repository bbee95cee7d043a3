"""Looks of a validator take a share of the time while the syncer is behind."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pytest

from dm.clock import SystemClock
from dm.errors import DMError
from dm.position import Position
from dm.tools.validator.throttle import LONGEST_REST, PATIENCE, SHARE, Throttle
from tests.testbed.fake_clock import FakeClock

INTERVAL = 5.0  # from one look at the syncer to the next


def at(offset: int, server: str = "one") -> Position:
    return Position(server, "binlog.000001", offset)


@dataclass
class World:
    """A source that writes, a syncer's checkpoint that moves, and what a look does."""

    clock: FakeClock = field(default_factory=FakeClock)
    end: Position | None = field(default_factory=lambda: at(1000))
    asked: int = 0
    pace: Throttle = field(init=False)

    def __post_init__(self) -> None:
        self.pace = Throttle(self._ask, self.clock)

    def _ask(self) -> Position:
        self.asked += 1
        if self.end is None:
            raise DMError("connection-failed", role="source", host="h", port=1, cause="gone")
        return self.end

    def after(self, seconds: float, applied: Position) -> bool:
        """The syncer is here by then; whether looks give way."""
        self.clock.now += seconds
        assert self.pace.due()
        self.pace.follow(applied)
        assert not self.pace.due()
        return self.pace.gives_way

    def rested(self, seconds: float) -> float:
        """How long a look that takes so long lets the others rest."""

        def act() -> None:
            self.clock.now += seconds

        began = self.clock.now
        self.pace.look(act)
        return self.clock.now - began - seconds


def test_a_syncer_is_taken_for_behind_until_it_has_passed_a_mark() -> None:
    world = World()
    assert world.pace.gives_way
    assert world.after(0, at(10))
    assert world.after(INTERVAL, at(500))
    world.end = at(9000)
    assert not world.after(INTERVAL, at(1000))  # it passes the mark, not the source's end by now


def test_a_syncer_is_behind_when_it_has_not_passed_a_mark_for_long() -> None:
    world = World()
    world.after(0, at(10))
    world.end = at(2000)
    assert not world.after(INTERVAL, at(1000))  # the next mark is 2000
    assert not world.after(PATIENCE, at(1500))
    assert world.after(INTERVAL, at(1600))
    assert not world.after(INTERVAL, at(2000))


def test_nobody_gives_way_to_a_checkpoint_that_does_not_move() -> None:
    world = World()
    assert world.after(0, at(10))
    assert world.after(PATIENCE, at(10))
    assert not world.after(INTERVAL, at(10))
    assert world.after(INTERVAL, at(11))  # it runs again


def test_nobody_gives_way_where_there_is_no_checkpoint() -> None:
    world = World()
    world.after(0, at(10))
    world.pace.follow(None)
    assert not world.pace.gives_way


def test_a_look_is_the_share_of_the_time() -> None:
    world = World()
    world.after(0, at(10))
    assert world.rested(0.1) == pytest.approx(0.1 / SHARE - 0.1)
    assert world.rested(100.0) == pytest.approx(LONGEST_REST)
    world.after(0, at(1000))
    assert world.rested(1.0) == 0.0


def test_a_reader_rests_for_what_it_has_worked() -> None:
    world = World()
    world.after(0, at(10))
    began = world.clock.now
    world.pace.rest(0.02)
    assert world.clock.now - began == pytest.approx(0.02 / SHARE - 0.02)
    world.pace.follow(None)
    before = world.clock.now
    world.pace.rest(0.02)
    assert world.clock.now == before


def test_one_looks_at_a_time_and_the_end_lets_all_go() -> None:
    world = World()
    world.after(0, at(10))
    inside, together = [0], [0]
    lock = threading.Lock()

    def act() -> None:
        with lock:
            inside[0] += 1
            together[0] = max(together[0], inside[0])
        ready.wait(0.01)
        with lock:
            inside[0] -= 1

    ready = threading.Event()
    threads = [threading.Thread(target=world.pace.look, args=(act,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == [1]
    world.pace.end()
    world.after(INTERVAL, at(11))
    assert not world.pace.gives_way


def test_a_look_that_fails_rests_all_the_same() -> None:
    world = World()
    world.after(0, at(10))

    def act() -> None:
        world.clock.now += 0.1
        raise ValueError("no")

    before = world.clock.now
    with pytest.raises(ValueError, match=r"^no$"):
        world.pace.look(act)
    assert world.clock.now - before == pytest.approx(0.1 / SHARE)


@pytest.mark.parametrize("ends", [True, False])
def test_a_rest_is_over_when_nobody_has_to_give_way_any_more(ends: bool) -> None:
    class Slow(SystemClock):
        """Each look takes 1,000 seconds, and a rest would."""

        looks = 0

        def monotonic(self) -> float:
            self.looks += 1
            return self.looks * 1000.0

        def wait(self, signal: threading.Event, seconds: float) -> bool:
            resting.set()
            return super().wait(signal, seconds * 1000)

    resting = threading.Event()
    pace = Throttle(lambda: at(1000), Slow())
    thread = threading.Thread(target=pace.look, args=(lambda: None,), daemon=True)
    thread.start()
    assert resting.wait(60)
    if ends:
        pace.end()
    else:
        pace.follow(None)
    thread.join(60)
    assert not thread.is_alive()


def test_nobody_gives_way_where_the_source_cannot_be_asked() -> None:
    world = World(end=None)
    assert not world.after(0, at(10))
    assert not world.after(INTERVAL, at(20))
    world.end = at(30)
    assert not world.after(INTERVAL, at(25))
    assert world.after(PATIENCE + 1, at(26))
    assert world.asked == 3


def test_a_mark_of_another_server_is_passed() -> None:
    world = World()
    world.after(0, at(10))
    assert not world.after(INTERVAL, at(4, "another"))
