"""Shares are those of the last seconds, and nothing is claimed before anything was seen."""

from __future__ import annotations

import threading

from dm.clock import SystemClock
from dm.syncer.time_shares import SLICE_SAMPLES, SLICES, TimeShares


def test_shares_of_the_last_samples() -> None:
    now = {"works": 0.0, "busy": 0.25}
    shares = TimeShares(lambda: now, SystemClock(), threading.Event())
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
