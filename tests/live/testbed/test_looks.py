"""The rest between two looks grows with the wait, and a wait has an end."""

from __future__ import annotations

import pytest

from tests.testbed import looks as module
from tests.testbed.looks import looks


class Time:
    """Moves on only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.rests: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.rests.append(seconds)
        self.now += seconds


def test_a_rest_is_a_tenth_of_the_wait_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    time = Time()
    monkeypatch.setattr(module, "time", time)
    number = sum(1 for _ in looks(5))
    assert number == len(time.rests)
    assert 105 <= time.now < 105.1
    assert (time.rests[0], time.rests[-1]) == (0.02, 0.1)
    assert time.rests == sorted(time.rests)
    waited = 0.0
    for rest in time.rests:
        assert rest == pytest.approx(min(max(waited / 10, 0.02), 0.1))
        waited += rest


def test_none_where_there_is_no_time() -> None:
    assert list(looks(0)) == []
