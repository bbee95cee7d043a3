"""All readers of a source's log get whole transactions in order, up to their cut, and are told when it is at rest."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dm.errors import DMError
from dm.mysql.binlog.event import BinlogType, SourceEvent, SourceRun
from dm.mysql.binlog.header import LOG_EVENT_ARTIFICIAL_F, EventType
from dm.position import Position
from dm.sourcelog.stream.memory_quota import MemoryQuota
from dm.sourcelog.stream.prepared import PreparedTransactions, UndecidedXa, UnheldXa
from dm.sourcelog.stream.source_log import SourceLog, Space
from dm.sourcelog.stream.spool import OpenItems
from dm.sourcelog.stream.until import Until, UntilGtids, UntilPosition
from tests.unit.sourcelog.stream.test_assembler import FILE, NO_XA, UUID, Stream, everything, run_of, start
from tests.unit.sourcelog.stream.test_xa_assembly import XaStream

ROOM = 1 << 20


class Played:
    """Brings events one by one or together, and rests where it has None."""

    status: BinlogType = "local"
    trouble: DMError | None = None

    def __init__(self, found: list[SourceEvent | SourceRun | None]) -> None:
        self._found = found

    def complete(self, start: Position) -> Position:
        return start

    def events(self, start: Position, stop: threading.Event) -> Iterator[SourceEvent | None]:
        raise AssertionError("readers ask for what comes together")

    def runs(self, start: Position, stop: threading.Event) -> Iterator[SourceEvent | SourceRun | None]:
        yield from self._found


def source(whole: bool, rests: bool, *groups: list[SourceEvent], stream: XaStream) -> Played:
    """A file with groups of events, and a rest after each."""
    found: list[SourceEvent | SourceRun | None] = [stream.format]
    for group in groups:
        found += [run_of(group)] if whole else group
        found += [None] * rests
    return Played(found)


def gtids(log: SourceLog, space: Space, *, follow: bool = False) -> list[str]:
    read = (log.follow if follow else log.transactions)(start(f"{UUID}:1"), space, threading.Event())
    return ["rest" if each is None else str(each.gtid).rpartition(":")[2] for each in read]


@pytest.mark.parametrize("whole", [True, False])
def test_who_follows_is_told_of_each_rest_and_who_does_not_ends_there(whole: bool, tmp_path: Path) -> None:
    stream = XaStream()
    events = source(whole, True, stream.insert(2) + stream.insert(3), stream.insert(4), stream=stream)
    log, space = SourceLog(events, everything, NO_XA), Space(ROOM, tmp_path)
    assert gtids(log, space, follow=True) == ["2", "3", "rest", "4", "rest"]
    assert gtids(log, space) == ["2", "3"]


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("last", [1, 2, 3, 4])
@pytest.mark.parametrize("by_gtids", [True, False])
def test_a_cut_ends_the_reading_before_what_lies_after_it(
    whole: bool, last: int, by_gtids: bool, tmp_path: Path
) -> None:
    stream = XaStream()
    ends = {1: 4}
    group: list[SourceEvent] = []
    for number in (2, 3, 4):
        group += stream.insert(number)
        ends[number] = stream.offset
    until: Until = (
        UntilGtids(start(f"{UUID}:1-{last}").gtid_set) if by_gtids else UntilPosition(Position(UUID, FILE, ends[last]))
    )
    log = SourceLog(source(whole, True, group, stream=stream), everything, NO_XA, until)
    expected = [str(number) for number in range(2, last + 1)]
    assert gtids(log, Space(ROOM, tmp_path), follow=True) == expected, "no rest after the cut"


@pytest.mark.parametrize("whole", [True, False])
def test_a_transaction_is_valid_until_the_next_is_asked_for(whole: bool, tmp_path: Path) -> None:
    stream = XaStream()
    events = source(whole, False, stream.insert(2) + stream.insert(3), stream=stream)
    read = SourceLog(events, everything, NO_XA).transactions(start(), Space(ROOM, tmp_path), threading.Event())
    first = next(read)
    assert len(list(first.items)) == 1
    assert next(read).end.reaches(first.end)
    assert list(first.items) == []


def rows_of(xa: UndecidedXa, directory: Path) -> list[tuple[str, int]]:
    """The row events of each transaction, where one is decided whose PREPARE is not read, and one is prepared here."""
    stream = XaStream()
    group = stream.decided(2, "COMMIT", "earlier") + stream.prepared(3, "here") + stream.decided(4, "COMMIT", "here")
    log = SourceLog(source(False, False, group, stream=stream), everything, xa)
    read = log.transactions(start(f"{UUID}:1"), Space(ROOM, directory), threading.Event())
    return [(str(each.gtid).rpartition(":")[2], len(list(each.items))) for each in read]


def test_undecided_xa_is_held_ignored_refused_or_passed_as_the_reader_says(tmp_path: Path) -> None:
    for name, ignoring in (("hold", False), ("ignore", True)):
        held = PreparedTransactions(tmp_path / name, ignores_earlier=ignoring)
        held.open(0, None)
        if ignoring:
            assert rows_of(held, tmp_path / "scratch") == [("2", 0), ("3", 0), ("4", 1)]
            continue
        with pytest.raises(DMError) as raised:
            rows_of(held, tmp_path / "scratch")
        assert raised.value.name == "xa-prepare-missing"
    with pytest.raises(LookupError, match="is committed"):
        rows_of(UnheldXa(LookupError), tmp_path / "scratch")
    assert rows_of(UnheldXa(), tmp_path / "scratch") == [("2", 0), ("3", 0), ("4", 0)]


def artificial(event: SourceEvent) -> SourceEvent:
    header = event.raw.header
    marked = event.raw._replace(header=header._replace(flags=header.flags | LOG_EVENT_ARTIFICIAL_F))
    return event._replace(raw=marked)


def test_a_heartbeat_that_tells_how_far_a_set_is_passed_moves_the_place(tmp_path: Path) -> None:
    stream, alive = XaStream(), Stream()
    told = alive._event(EventType.HEARTBEAT, FILE.encode())
    log = SourceLog(Played([]), everything, NO_XA).open(start(f"{UUID}:1"), OpenItems(MemoryQuota(ROOM), None))
    (moved,) = [found for event in (stream.format, told, told) for found in log.completed(event)]
    assert moved.moves
    assert moved.end.offset == told.end_offset
    assert moved.end.gtid_set == start(f"{UUID}:1").gtid_set


def test_what_a_server_sends_while_it_has_nothing_counts_as_nothing_read(tmp_path: Path) -> None:
    """An alert takes a counter that grows for a task that gets on."""
    stream, alive = XaStream(), Stream()
    heartbeats = [artificial(alive._event(EventType.HEARTBEAT, FILE.encode())) for _ in range(2)]
    log = SourceLog(Played([]), everything, NO_XA).open(start(f"{UUID}:1"), OpenItems(MemoryQuota(ROOM), None))
    for event in (stream.format, *heartbeats):
        assert list(log.completed(event)) == []
    assert (log.events, log.bytes) == (1, len(stream.format.raw.data))
    (transaction,) = [found for event in stream.insert(2) for found in log.completed(event)]
    assert log.events > 3
    transaction.items.release()
