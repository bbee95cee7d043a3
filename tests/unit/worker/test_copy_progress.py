"""One time for dump and load together, by a clock that moves when the test says so."""

from __future__ import annotations

from collections.abc import Mapping

from dm.unit import JSON
from dm.worker.job import LOAD_PER_DUMP, CopyProgress
from tests.testbed.fake_clock import FakeClock


def dump(eta: int | None, done: int, total: int = 1000, **more: JSON) -> Mapping[str, JSON]:
    said = None if eta is None else str(eta)
    return {"etaSeconds": said, "finishedRows": str(done), "estimateTotalRows": str(total), **more}


def test_elapsed_time_goes_on_through_units_and_outages_and_ends_with_the_load() -> None:
    clock = FakeClock()
    copy = CopyProgress(clock, load_follows=True)
    copy.begins("Dump")
    clock.now += 30
    copy.begins("Dump")  # again, after an outage
    clock.now += 10
    copy.begins("Load")
    clock.now += 60
    assert copy.report("Load", {"etaSeconds": "5"})["totalElapsedSeconds"] == "100"
    copy.begins("Sync")
    clock.now += 500
    assert copy.report("Sync", {}) == {}
    assert copy.report("Load", {"etaSeconds": None})["totalElapsedSeconds"] == "100"


def test_while_rows_are_dumped_the_load_is_assumed_and_that_is_said() -> None:
    copy = CopyProgress(FakeClock(), load_follows=True)
    copy.begins("Dump")
    assert copy.report("Dump", dump(None, 0, 0))["totalEtaSeconds"] is None
    said = copy.report("Dump", dump(30, 250))  # the dump of everything takes 40 s
    assert said["totalEtaSeconds"] == str(30 + int(LOAD_PER_DUMP * 40))
    assert said["totalEtaAssumed"] is True


def test_the_load_s_own_rate_replaces_what_was_assumed() -> None:
    clock = FakeClock()
    copy = CopyProgress(clock, load_follows=True)
    copy.begins("Dump")
    copy.report("Dump", dump(30, 250))
    copy.begins("Load")
    clock.now += 20
    said = copy.report("Load", {"etaSeconds": None})
    assert (said["totalEtaSeconds"], said["totalEtaAssumed"]) == (str(int(LOAD_PER_DUMP * 40) - 20), True)
    said = copy.report("Load", {"etaSeconds": "33"})
    assert (said["totalEtaSeconds"], said["totalEtaAssumed"]) == ("33", False)
    clock.now += 1000
    assert copy.report("Load", {"etaSeconds": None})["totalEtaSeconds"] is None, "it is not over when it should be"


def test_where_no_load_follows_the_dump_s_time_is_the_whole() -> None:
    copy = CopyProgress(FakeClock(), load_follows=False)
    copy.begins("Dump")
    assert copy.report("Dump", dump(30, 250))["totalEtaSeconds"] == "30"
    streamed = CopyProgress(FakeClock(), load_follows=True)
    streamed.begins("Dump")
    assert streamed.report("Dump", dump(30, 250, streamed=True))["totalEtaSeconds"] == "30"
