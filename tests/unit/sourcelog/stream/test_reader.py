"""The reader hands on each transaction once, also when another replica took our identity at the source in between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping

import pytest

from dm.errors import DMError
from dm.gtid import GtidSet
from dm.mysql.binlog.event import BinlogType, SourceEvent, SourceRun
from dm.position import Position
from dm.sourcelog.stream.memory_quota import MemoryQuota
from dm.sourcelog.stream.reader import TAKINGS, Reader, TransactionQueue
from dm.sourcelog.stream.source_log import SourceLog, SourceLogReader
from dm.sourcelog.stream.spool import OpenItems
from dm.sourcelog.stream.transaction import SourceTransaction
from dm.unit import JSON
from tests.unit.sourcelog.stream.test_assembler import FILE, NO_XA, UUID, Stream

START = Position(UUID, FILE, 4, GtidSet.empty("mysql"))


class TakenSource:
    """Plays a file from the asked position; loses its identity after so many events, as often as it is told."""

    status: BinlogType = "remote"
    trouble: DMError | None = None
    reading: Mapping[str, JSON] = {}

    def __init__(self, events: list[SourceEvent], taken_after: list[int]) -> None:
        self._events = events
        self._taken_after = taken_after
        self.starts: list[int] = []

    def complete(self, start: Position) -> Position:
        return start

    def events(self, start: Position, stop: threading.Event) -> Iterator[SourceEvent | None]:
        self.starts.append(start.offset)
        after = self._taken_after.pop(0) if self._taken_after else None
        rest = [event for event in self._events[1:] if event.end_offset > start.offset]
        yield from [self._events[0], *rest][:after]
        if after is not None:
            raise DMError("replica-id-taken", server_id=1, cause="of the test")

    def runs(self, start: Position, stop: threading.Event) -> Iterator[SourceEvent | SourceRun | None]:
        """After the first one the events come in pairs, as far as they go."""
        held: SourceEvent | None = None
        for event in self.events(start, stop):
            if event is None or event is self._events[0]:
                yield event
            elif held is None:
                held = event
            else:
                begin = held.end_offset - len(held.raw.data)
                yield SourceRun([held.raw, event.raw], held.server_uuid, held.file, begin, event.end_offset)
                held = None
        if held is not None:
            yield held


class LostSource(TakenSource):
    """A source whose connection is lost before the first event."""

    def events(self, start: Position, stop: threading.Event) -> Iterator[SourceEvent | None]:
        self.trouble = DMError("connection-lost", role="source", address="a:1", cause="of the test")
        yield None
        self.trouble = None
        yield from self._events


class BrokenSource(TakenSource):
    """A source that has something unreadable after its last event, or ends there in some other way."""

    def __init__(self, events: list[SourceEvent], error: DMError) -> None:
        super().__init__(events, [])
        self.error = error

    def events(self, start: Position, stop: threading.Event) -> Iterator[SourceEvent | None]:
        yield from self._events
        raise self.error


def a_file() -> list[SourceEvent]:
    stream = Stream()
    return [stream.format, *(event for number in (1, 2, 3) for event in stream.insert(number))]


def log_of(source: TakenSource) -> SourceLogReader:
    return SourceLog(source, lambda _: True, NO_XA).open(START, OpenItems(MemoryQuota(1 << 20), None))


def read(source: TakenSource, still_ours: Callable[[], None]) -> tuple[list[str], list[BaseException]]:
    """The GTIDs handed on, and what ended the reader."""
    queue, failures = TransactionQueue(MemoryQuota(1 << 20)), list[BaseException]()
    reader = Reader(log_of(source), queue, failures.append, still_ours)
    reader.start()
    reader._thread.join()
    taken = []
    while len(queue):
        transaction = queue.take(lambda: None)
        assert isinstance(transaction, SourceTransaction)
        assert len(transaction.items) == 1
        taken.append(str(transaction.gtid))
    return taken, failures


@pytest.mark.parametrize("after", range(1, 16))
def test_the_run_that_holds_the_epoch_takes_the_identity_back_and_reads_on(after: int) -> None:
    asked: list[int] = []
    source = TakenSource(a_file(), [after])
    taken, failures = read(source, lambda: asked.append(1))
    assert taken == [f"{UUID}:{number}" for number in (1, 2, 3)]
    assert not failures
    assert len(asked) == 1
    assert len(source.starts) == 2


def test_a_run_that_was_replaced_ends() -> None:
    fenced = DMError("fenced", task="t", source="s", lane="control", epoch=1, owner="another")

    def replaced() -> None:
        raise fenced

    for source in (TakenSource(a_file(), [3]), LostSource(a_file(), [])):
        taken, failures = read(source, replaced)
        assert not taken
        assert failures == [fenced]


def test_a_lost_connection_goes_on_when_the_run_is_the_present_one() -> None:
    asked: list[int] = []
    taken, failures = read(LostSource(a_file(), []), lambda: asked.append(1))
    assert len(taken) == 3
    assert not failures
    assert asked == [1]


@pytest.mark.parametrize(
    ("error", "in_its_place"),
    [
        (DMError("event-corrupt", event="QUERY", end=9, what="of the test"), True),
        (DMError("connection-lost", role="source", address="a:1", cause="of the test"), False),
        (DMError("fenced", task="t", source="s", lane="control", epoch=1, owner="another"), False),
    ],
    ids=lambda value: value.name if isinstance(value, DMError) else None,
)
def test_what_a_person_has_to_mend_is_told_after_what_was_read_before_it(error: DMError, in_its_place: bool) -> None:
    queue, failures = TransactionQueue(MemoryQuota(1 << 20)), list[BaseException]()
    reader = Reader(log_of(BrokenSource(a_file(), error)), queue, failures.append, lambda: None)
    reader.start()
    reader._thread.join()
    assert failures == ([] if in_its_place else [error])
    taken = [queue.take(lambda: None) for _ in range(len(queue))]
    assert [str(one.gtid) for one in taken if isinstance(one, SourceTransaction)] == [f"{UUID}:1", f"{UUID}:2"]
    if in_its_place:
        with pytest.raises(DMError, match="can't be read") as told:
            queue.take(lambda: None)
        assert told.value is error


def test_a_stranger_that_takes_the_identity_each_time_is_named() -> None:
    _, failures = read(TakenSource(a_file(), [2] * (TAKINGS + 1)), lambda: None)
    assert [error.name for error in failures if isinstance(error, DMError)] == ["replica-id-taken"]
