"""A demo waits while something new comes, and for nothing that only repeats itself."""

from __future__ import annotations

from dm.cli.demo import WaitLimit, sight_of
from tests.testbed.fake_clock import FakeClock


def _status(unit: str, **detail: object) -> dict[str, object]:
    subtask = {"unit": unit, unit.lower(): detail}
    return {"sources": [{"sourceStatus": {"source": "one"}, "subTaskStatus": [subtask]}]}


def test_a_slow_machine_has_as_long_as_it_takes() -> None:
    clock = FakeClock()
    patience = WaitLimit(300, clock)
    for rows in range(100):
        clock.now += 299
        patience.see(sight_of(_status("Load", totalRows=str(rows))))
        assert not patience.over
    clock.now += 301
    patience.see(sight_of(_status("Load", totalRows="99")))
    assert (patience.over, patience.idle) == (True, 301)
    patience.see(sight_of(_status("Sync", totalRows="99")))
    assert not patience.over, "the next unit"


def test_lag_that_grows_is_nothing_new() -> None:
    clock = FakeClock()
    patience = WaitLimit(300, clock)
    for lag in range(4):
        patience.see(sight_of(_status("Sync", syncerBinlog="(b.1, 4)", secondsBehindMaster=lag)))
        clock.now += 101
    assert patience.over


def test_a_task_that_begins_again_and_again_is_given_up() -> None:
    clock = FakeClock()
    patience = WaitLimit(300, clock)
    for _ in range(5):
        for rows in ("0", "7"):
            clock.now += 50
            patience.see(sight_of(_status("Sync", totalRows=rows)))
    assert patience.over
