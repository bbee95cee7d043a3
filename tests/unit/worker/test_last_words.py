"""What a unit said last is not passed for true of now, and not thrown away either."""

from __future__ import annotations

from collections.abc import Mapping

from dm.unit import JSON
from dm.worker.job import LastWords
from tests.testbed.fake_clock import FakeClock

SYNCED: dict[str, JSON] = {"synced": True, "secondsBehindMaster": 0.5, "syncerBinlog": "(b.1, 4)"}
BEGINS: Mapping[str, JSON] = {"synced": False, "starting": True, "waiting": "connecting to target"}
LOADING: Mapping[str, JSON] = {"progress": "40.00 %", "starting": False}


def words(unit: str) -> tuple[FakeClock, LastWords]:
    clock = FakeClock()
    said = LastWords(clock)
    said.begins("Sync" if unit == "Sync" else "Load")
    return clock, said


def test_lag_counts_on_while_nobody_speaks_and_nobody_is_synced_then() -> None:
    clock, said = words("Sync")
    said.hear(SYNCED)
    assert said.now(current=True) == SYNCED
    clock.now += 60
    assert said.now(current=False) == {**SYNCED, "synced": False, "secondsBehindMaster": 60.5}


def test_a_run_that_begins_is_as_far_behind_as_the_one_before_and_says_what_it_waits_for() -> None:
    clock, said = words("Sync")
    said.hear(SYNCED)
    clock.now += 60
    said.begins("Sync")
    said.hear(BEGINS)
    clock.now += 30
    now = said.now(current=True)
    assert (now["synced"], now["secondsBehindMaster"], now["waiting"]) == (False, 90.5, "connecting to target")
    assert now["syncerBinlog"] == "(b.1, 4)"
    said.hear(SYNCED)
    assert said.now(current=True) == SYNCED


def test_a_ddl_of_a_run_that_rests_runs_no_more_as_far_as_anybody_knows() -> None:
    _, said = words("Sync")
    said.hear({**SYNCED, "blockingDDLs": ["ALTER TABLE t ADD c INT"], "blockingDDLSeconds": 9})
    now = said.now(current=False)
    assert (now["blockingDDLs"], now["blockingDDLSeconds"]) == ([], None)


def test_a_lag_that_was_never_known_stays_unknown() -> None:
    clock, said = words("Sync")
    said.hear(BEGINS)
    clock.now += 5
    assert said.now(current=False)["secondsBehindMaster"] is None


def test_an_outage_keeps_the_progress_of_a_load_until_the_next_run_has_taken_stock() -> None:
    _, said = words("Load")
    said.hear(LOADING)
    for _ in range(2):
        said.begins("Load")
        said.hear({"progress": "0.00 %", "starting": True, "waiting": ""})
        assert said.now(current=True)["progress"] == "40.00 %"
    said.hear({"progress": "35.00 %", "starting": False})
    assert said.now(current=True)["progress"] == "35.00 %"


def test_the_words_of_another_unit_and_of_an_earlier_relay_are_over() -> None:
    _, said = words("Load")
    said.hear(LOADING)
    said.begins("Sync")
    assert said.status == {}
    relay = LastWords(FakeClock())
    relay.begins("Relay")
    relay.hear({"relayBinlog": "(b.1, 4)"})
    relay.begins("Relay")
    assert relay.status == {}
