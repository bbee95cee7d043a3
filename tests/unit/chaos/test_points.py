"""Each fault point that the crash loops do not draw is struck by a test."""

from __future__ import annotations

import pytest

from dm.faults import POINTS
from tests.chaos.run import strikers
from tests.testbed.crash_loop import RELAY_POINTS, SYNC_POINTS


@pytest.mark.parametrize("point", sorted(POINTS - {*SYNC_POINTS, *RELAY_POINTS}))
def test_a_test_strikes_at_each_point(point: str) -> None:
    assert strikers(point)
