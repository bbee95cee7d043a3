"""Who wakes the dispatcher when the source has nothing more: a lane, and only while something is held back."""

from __future__ import annotations

import threading

import pytest

from dm.sourcelog.stream.reader import Rest


@pytest.fixture
def rest() -> Rest:
    return Rest(threading.Condition())


def test_a_lane_that_ends_while_something_is_held_back_has_the_lanes_asked_again(rest: Rest) -> None:
    rest.begin()
    rest.starve()
    assert not rest.again()
    rest.batch_ended()
    assert rest.again()
    rest.begin()
    assert not rest.again(), "what ended before the lanes are looked at is seen by the look"


def test_a_lane_that_ends_between_the_look_and_the_sleep_is_not_missed(rest: Rest) -> None:
    rest.begin()
    rest.starve()
    rest.batch_ended()
    assert rest.again()


def test_nobody_is_woken_when_nothing_is_held_back(rest: Rest) -> None:
    rest.begin()
    rest.batch_ended()
    rest.starve()
    assert not rest.again()
    rest.feed()
    rest.batch_ended()
    assert not rest.again()


def test_who_asks_is_answered_once() -> None:
    rest = Rest(threading.Condition())
    rest.begin()
    rest.ask()
    assert rest.again()
    rest.begin()
    assert not rest.again()
