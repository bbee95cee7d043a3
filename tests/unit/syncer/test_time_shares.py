"""Shares are those of the last seconds, and nothing is claimed before anything was seen."""

from __future__ import annotations

import threading
from collections.abc import Callable

from dm.clock import SystemClock
from dm.syncer.sync_status import INTERVAL_SECONDS, SLICE_SAMPLES, SLICES, TimeShares


def test_shares_of_the_last_samples() -> None:
    now = {"works": 0.0, "busy": 0.25}
    shares = TimeShares(lambda: now, lambda: False, lambda needed: needed(), SystemClock(), threading.Event())
    assert shares.report() == {}
    for _ in range(SLICE_SAMPLES * SLICES):
        shares.sample()
    assert shares.report() == {"works": 0.0, "busy": 0.25}
    now["works"] = 1.0
    for _ in range(SLICE_SAMPLES * SLICES // 2):
        shares.sample()
    assert shares.report() == {"works": 0.5, "busy": 0.25}
    for _ in range(SLICE_SAMPLES * SLICES // 2):
        shares.sample()
    assert shares.report() == {"works": 1.0, "busy": 0.25}


class StoppedClock(SystemClock):
    """A clock that moves when it is told to."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_a_rest_counts_as_if_it_had_been_looked_at() -> None:
    clock = StoppedClock()
    now = {"works": 1.0}
    resting = False
    reported: list[object] = []

    def at_rest() -> bool:
        now["works"] = float(not resting)
        return resting

    def sleep(needed: Callable[[], bool]) -> bool:
        if not needed():
            return False
        clock.now += 3 * SLICE_SAMPLES * INTERVAL_SECONDS
        reported.append(shares.report())
        now["works"] = 1.0  # the event that ends the rest
        clock.now += 3 * SLICE_SAMPLES * INTERVAL_SECONDS
        return True

    shares = TimeShares(lambda: dict(now), at_rest, sleep, clock, threading.Event())
    for number in range(SLICES * SLICE_SAMPLES):
        resting = number == SLICES * SLICE_SAMPLES - 1
        shares.sample()
    assert reported == [{"works": 0.7}]
    assert shares.report() == {"works": 0.4}, "up to the event the parts rested, whatever they do after it"
    resting = False
    for _ in range(SLICES * SLICE_SAMPLES):
        shares.sample()
    assert shares.report() == {"works": 1.0}
