"""Nothing is claimed of a source that does not answer: neither that everything is applied, nor that there is no lag."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from dm.clock import SystemClock
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.position import Position
from dm.sourcelog.stream import source_monitor
from dm.sourcelog.stream.source_monitor import FRESH_SECONDS, RetentionWatch, SourceEnd, SourceMonitor
from dm.sourcelog.upstream.lineage import SourceAddresses
from tests.testbed.fake_clock import FakeClock

END = Position("u", "binlog.000001", 400)


class Later(SystemClock):
    """A clock that can be put forward."""

    ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


class Addresses:
    """Leads to a server that answers while it is up."""

    up = True

    def open(self) -> tuple[Any, Any]:
        return self, None

    def is_read(self, facts: object) -> bool:
        return True

    def close(self) -> None:
        pass


def test_an_answer_from_before_the_question_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses, clock = Addresses(), Later()

    def binlog_end(*_: object) -> Position:
        if not addresses.up:
            raise DMError("connection-lost", role="upstream", address="u")
        return END

    monkeypatch.setattr(source_monitor, "binlog_end", binlog_end)
    monkeypatch.setattr(source_monitor, "fetch", lambda *_: (("5000.0",),))
    monitor = SourceMonitor(cast(SourceAddresses, addresses), clock)

    def lag(applied: Position) -> float | None:
        return monitor.lag(applied, 4990, lambda position: position.covers(END))

    assert lag(END) is None
    monitor.start()
    try:
        monitor.refresh(10)
        answers = [monitor.answered]
        assert lag(END) == 0
        behind = lag(Position("u", "binlog.000001", 300))
        assert behind is not None
        assert 10 <= behind < 60
        addresses.up = False
        monitor.refresh(10)
        assert monitor.trouble is not None
        answers.append(monitor.answered)
        assert (lag(END), lag(Position("u", "binlog.000001", 300))) == (None, None), "nobody knows it"
        addresses.up = True
        monitor.refresh(10)
        assert lag(END) == 0
        clock.ahead = 5 * FRESH_SECONDS  # as of a server that is frozen: no error comes
        assert lag(END) is None
        monitor.refresh(10)
        assert [*answers, monitor.answered] == [True, False, True]
        assert lag(END) == 0
    finally:
        monitor.stop()


def test_an_end_before_what_was_applied_is_that_of_a_source_that_was_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    applied, resets = [END], list[DMError]()
    monkeypatch.setattr(source_monitor, "binlog_end", lambda *_: END)
    monkeypatch.setattr(source_monitor, "fetch", lambda *_: (("5000.0",),))
    monitor = SourceMonitor(
        cast(SourceAddresses, Addresses()), SystemClock(), applied=lambda: applied[0], reset=resets.append
    )

    def covered() -> bool:
        monitor.refresh(10)
        assert monitor.end is not None
        return monitor.end.is_covered_by(Position("u", "binlog.000001", 500))  # it has moved on since

    monitor.start()
    try:
        assert covered()
        applied[0] = Position("u", "binlog.000001", 500)
        assert not covered()
        assert not covered()
        assert [(error.name, error.retryable) for error in resets] == [("source-reset", False)]
        applied[0] = Position("v", "binlog.000001", 500)  # another server's places have no order with these
        assert covered()
    finally:
        monitor.stop()


@pytest.mark.parametrize(("ours", "covered"), [("0-11-30", True), ("0-11-29", False), ("0-12-30", False), ("", False)])
def test_an_equal_set_of_mariadb_counts_where_only_the_place_is_behind(ours: str, covered: bool) -> None:
    end = SourceEnd(Position("0-12", "binlog.000002", 700, GtidSet.parse("0-11-30", "mariadb")), 5000.0, 0.0)
    assert end.is_covered_by(Position("0-12", "binlog.000002", 600, GtidSet.parse(ours, "mariadb"))) is covered


def test_what_is_read_next_may_be_purged_when_it_is_as_old_as_the_source_keeps_its_binlog() -> None:
    clock = FakeClock()
    watch = RetentionWatch(clock)
    assert watch.purged_at(5.0) is None, "the source was not asked yet"
    watch.age = 0
    assert watch.purged_at(5.0) is None, "it purges nothing by age"
    watch.age = 3600
    assert watch.purged_at(None) is None, "nobody knows how far behind the task is"
    assert watch.purged_at(600.0) == clock.time() + 3000


def test_what_is_read_next_may_be_purged_when_the_files_have_their_size() -> None:
    clock = FakeClock()
    watch = RetentionWatch(clock)
    watch.age, watch.most = 0, 10_000
    watch.seen((("binlog.000001", 1000), ("binlog.000002", 500)))
    assert watch.purged_at(5.0, "binlog.000001") is None, "nobody knows how fast they grow"
    clock.wait(threading.Event(), 60)
    watch.seen((("binlog.000001", 1000), ("binlog.000002", 1000), ("binlog.000003", 100)))
    assert watch.rate == 10.0
    assert watch.seconds == 1000
    now = clock.time()
    assert watch.purged_at(None, "binlog.000001") == now + 790  # the file and those after it have 2100 bytes
    assert watch.purged_at(None, "binlog.000003") == now + 990
    watch.age = 1500
    assert watch.purged_at(1300.0, "binlog.000001") == now + 200, "its age comes first"
    assert watch.purged_at(None, "binlog.000099") is None, "it is no file of this server"
    assert watch.report(None, "binlog.000002")["binlogBytesPerHour"] == 36_000
    clock.wait(threading.Event(), 60)
    watch.seen((("other.000001", 4),))
    assert watch.report(None, "")["binlogBytesPerHour"] is None
    assert watch.oldest == "other.000001"


def test_a_source_that_was_reset_in_its_first_file_is_another_history() -> None:
    clock = FakeClock()
    watch = RetentionWatch(clock)
    watch.most = 10**9
    watch.seen((("b.000001", 5_000_000),))
    clock.now += 60
    watch.seen((("b.000001", 300),))
    assert watch.rate is None
