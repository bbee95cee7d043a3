"""Safe mode lasts by position: from the checkpoint until what is processed covers the bound."""

from __future__ import annotations

from collections.abc import Callable

from dm.position import Position
from dm.syncer.apply.safe_mode_window import SafeModeWindow
from tests.testbed.fake_clock import FakeClock


def at(offset: int) -> Position:
    return Position("a", "bin.000001", offset)


def test_without_a_bound_nothing_is_idempotent() -> None:
    assert not SafeModeWindow(None, always=False, seconds=0, clock=FakeClock()).covers_change(at(4))


def test_a_transaction_that_begins_before_the_bound_is_in_it() -> None:
    mode = SafeModeWindow(at(200), always=False, seconds=0, clock=FakeClock())
    assert mode.covers_change(at(199))
    assert not mode.covers_change(at(200))


def test_the_bound_may_be_dropped_while_it_is_asked_for() -> None:
    mode = SafeModeWindow(at(200), always=False, seconds=0, clock=FakeClock())

    class Asked(Position):
        @property
        def covers(self) -> Callable[[Position], bool]:
            mode.bound_after(at(200))  # the progress writer comes in between
            return super().covers

    assert mode.covers_change(Asked("a", "bin.000001", 100))


def test_the_bound_is_stored_until_the_checkpoint_covers_it() -> None:
    mode = SafeModeWindow(at(200), always=False, seconds=0, clock=FakeClock())
    assert mode.bound_after(at(199)) == at(200)
    assert mode.bound_after(at(200)) is None
    assert mode.reasons == []


def test_the_users_timer_works_on_top() -> None:
    clock = FakeClock()
    mode = SafeModeWindow(None, always=False, seconds=60, clock=clock)
    assert mode.covers_change(at(4))
    clock.now += 60
    assert not mode.covers_change(at(4))


def test_the_users_switch_is_permanent() -> None:
    mode = SafeModeWindow(at(200), always=True, seconds=0, clock=FakeClock())
    assert mode.covers_change(at(900))
