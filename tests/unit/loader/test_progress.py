"""Progress counts what is done, and guesses the rest from it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.dumper.chunk_reader import read_report, report_file
from dm.dumper.dump_run import DumpProgress
from dm.ident import TableName
from dm.loader.progress import LoadProgress
from dm.position import Position
from dm.unit import JSON
from tests.testbed.fake_clock import FakeClock

ONE, TWO = TableName("a", "one"), TableName("a", "two")


def test_a_dump_counts_tables_rows_and_bytes_and_writes_them_as_dm_does() -> None:
    clock = FakeClock()
    progress = DumpProgress(clock)
    progress.plan(ONE, 2, 100)
    progress.plan(TWO, 1, 300)
    progress.chunk(ONE, 50, 500)  # of an earlier run
    progress.reading()
    clock.now += 10
    progress.chunk(ONE, 50, 500)
    status = progress.status()
    assert status["etaSeconds"] is None, "the first piece tells how long a start takes"
    assert status["totalTables"] == "2"
    assert status["completedTables"] == 1
    assert status["finishedRows"] == 100
    assert status["finishedBytes"] == 1000
    assert status["estimateTotalRows"] == 400
    assert status["bps"] == "50"
    assert status["rps"] == "5"
    assert status["progress"] == "25.00 %"
    clock.now += 10
    progress.chunk(TWO, 200, 2000)
    assert progress.status()["etaSeconds"] == "0", "200 rows in 10 s, and the table is done"


def test_a_unit_that_has_not_taken_stock_says_so() -> None:
    dump, load = DumpProgress(FakeClock()), LoadProgress(FakeClock())
    assert (dump.status()["starting"], load.status()["starting"]) == (True, True)
    dump.plan(ONE, 1, 10)
    load.expect(ONE, 1, 10)
    assert (dump.status()["starting"], load.status()["starting"]) == (False, True), "what is done is counted first"
    load.loading()
    assert load.status()["starting"] is False


def test_an_estimate_that_was_too_low_never_says_more_than_everything() -> None:
    progress = DumpProgress(FakeClock())
    progress.plan(ONE, 2, 10)
    progress.chunk(ONE, 500, 1)
    assert progress.status()["progress"] == "99.99 %"
    progress.finished = True
    assert progress.status()["progress"] == "100.00 %"


def test_a_table_that_starts_anew_counts_from_zero_and_one_that_is_gone_not_at_all() -> None:
    progress = DumpProgress(FakeClock())
    progress.plan(ONE, 1, 10)
    progress.chunk(ONE, 10, 1)
    progress.plan(ONE, 2, 10)
    assert progress.status()["finishedRows"] == 0
    progress.forget(ONE)
    assert progress.status()["totalTables"] == "0"


def test_a_load_tells_rate_rest_and_the_position_of_the_dump() -> None:
    clock = FakeClock()
    progress = LoadProgress(clock)
    progress.begin(Position("uuid", "binlog.000003", 4))
    progress.expect(ONE, 10, 1000)
    progress.expect(ONE, 10, 1000)
    progress.loaded(ONE, 10, 500)
    progress.loading()
    clock.now += 5
    progress.loaded(ONE, 5, 500)
    status = progress.status()
    assert status["finishedBytes"] == "1000"
    assert status["totalBytes"] == "2000"
    assert status["bps"] == "100"
    assert status["etaSeconds"] is None
    assert status["metaBinlog"] == "(binlog.000003, 4)"
    assert status["progress"] == "50.00 %"
    assert (status["completedTables"], status["totalTables"]) == ("1", "1")
    progress.finish()
    assert progress.status()["progress"] == "100.00 %"


def test_chunks_under_way_count_until_they_are_done() -> None:
    progress = DumpProgress(FakeClock())
    progress.plan(ONE, 2, 100)
    progress.under_way({ONE: (30, 300)})
    assert progress.status()["finishedRows"] == 30
    assert progress.status()["progress"] == "30.00 %"
    progress.under_way({})
    progress.chunk(ONE, 50, 500)
    assert progress.status()["finishedBytes"] == 500


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["plan", "chunk", "under way", "forget", "time"]),
        st.sampled_from([ONE, TWO]),
        st.integers(0, 50),
    ),
    max_size=60,
)


@given(steps=STEPS)
def test_a_share_never_falls_nor_says_everything_and_no_time_is_told_without_a_rate(
    steps: list[tuple[str, TableName, int]],
) -> None:
    clock = FakeClock()
    progress = DumpProgress(clock)
    known: set[TableName] = set()
    progress.reading()
    highest = 0.0
    for what, table, number in steps:
        if what == "plan":
            progress.plan(table, 5, number)
            known.add(table)
        elif what == "time":
            clock.now += number
        elif what == "under way":
            progress.under_way({table: (number, 3 * number)} if table in known else {})
        elif table in known:
            progress.forget(table) if what == "forget" else progress.chunk(table, number, 3 * number)
            known -= {table} if what == "forget" else set()
        status = progress.status()
        share = float(str(status["progress"]).split()[0])
        assert highest <= share <= 99.99
        highest = share
        assert int(str(status["finishedRows"])) <= int(str(status["estimateTotalRows"]))
        tables = status["tables"]
        assert isinstance(tables, list)
        for entry in (status, *tables):
            assert isinstance(entry, Mapping)
            if entry["etaSeconds"] is not None:
                assert clock.now > 1000
                assert int(str(entry["finishedRows"])) > 0
                assert int(str(entry["etaSeconds"])) >= 0


def test_a_table_that_is_read_tells_its_own_pace() -> None:
    clock = FakeClock()
    progress = DumpProgress(clock)
    progress.plan(ONE, 4, 100)
    progress.plan(TWO, 1, 10)
    progress.reading()
    progress.chunk(ONE, 25, 250)
    assert told(progress)["a.one"]["etaSeconds"] is None
    clock.now += 5
    progress.under_way({ONE: (25, 250)})
    one = told(progress)["a.one"]
    assert (one["finishedRows"], one["rps"], one["bps"], one["etaSeconds"]) == ("50", "5", "50", None)
    assert one["progress"] == "50.00 %"
    clock.now += 5
    progress.under_way({ONE: (50, 500)})
    assert told(progress)["a.one"]["etaSeconds"] == "5"
    assert "a.two" not in told(progress), "nobody reads it"


@pytest.mark.parametrize("start", [2, 8, 30], ids="begins after {} s".format)
@pytest.mark.parametrize("writers", [1, 2, 4])
def test_the_time_that_remains_is_true_within_a_factor_of_two_from_the_first_time_it_is_told(
    start: int, writers: int
) -> None:
    """Workers start, and each then loads parts one after the other; nothing is counted before a part is whole."""
    clock, parts, seconds = FakeClock(), 40, 4.0
    progress = LoadProgress(clock)
    for _ in range(parts):
        progress.expect(ONE, 10, 1 << 24)
    began = clock.now
    progress.loading()
    ends = sorted(began + start + 0.3 * (part % writers) + seconds * (1 + part // writers) for part in range(parts))
    told_at: list[float] = []
    while clock.now < ends[-1]:
        clock.now += 0.5
        while ends and ends[0] <= clock.now and len(ends) > 1:
            ends.pop(0)
            progress.loaded(ONE, 10, 1 << 24)
        said = progress.status()["etaSeconds"]
        truth = ends[-1] - clock.now
        if said is not None and truth > 2 * seconds:
            told_at.append(clock.now - began)
            assert truth / 2 <= int(str(said)) <= 2 * truth, f"{said} s were told, {truth:.0f} s remained"
    assert told_at[0] <= start + 4 * seconds, "and it is told soon"


def test_while_indexes_are_added_nobody_knows_how_long_it_takes() -> None:
    clock = FakeClock()
    progress = LoadProgress(clock)
    for _ in range(3):
        progress.expect(ONE, 1, 10)
    progress.loading()
    for _ in range(3):
        clock.now += 10
        progress.loaded(ONE, 1, 10)
    assert progress.status()["etaSeconds"] == "0"
    progress.completing(1)
    assert progress.status()["etaSeconds"] is None


def told(progress: DumpProgress) -> dict[str, Mapping[str, JSON]]:
    tables = progress.status()["tables"]
    assert isinstance(tables, list)
    return {str(entry["table"]): entry for entry in tables if isinstance(entry, Mapping)}


def test_reports_of_workers_may_be_missing_or_half_written(tmp_path: Path) -> None:
    assert read_report(tmp_path, "chunk") == (0, 0)
    report_file(tmp_path, "chunk").write_text("")
    assert read_report(tmp_path, "chunk") == (0, 0)
    report_file(tmp_path, "chunk").write_text("65536 1048576\n")
    assert read_report(tmp_path, "chunk") == (65536, 1048576)
