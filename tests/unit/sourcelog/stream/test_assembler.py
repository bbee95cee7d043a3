"""Transactions are whole, positions stand between them, and what was processed before is passed over."""

from __future__ import annotations

import random
import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import dm.sourcelog.stream.assembler
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.ident import TableName
from dm.mysql.binlog.event import CheckedEvent, RawEvent, SourceEvent, SourceRun
from dm.mysql.binlog.header import parse_header
from dm.position import Position
from dm.sourcelog.stream.assembler import TransactionAssembler
from dm.sourcelog.stream.prepared import PreparedTransactions
from dm.sourcelog.stream.transaction import RowsItem, SourceTransaction, StatementItem, TransactionRun

pytestmark = pytest.mark.usefixtures("twin")

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
FILE = "bin.000001"
NO_XA = PreparedTransactions(Path("unused"))


class Stream:
    """Builds the events of one MySQL file, byte by byte as the server writes them."""

    def __init__(self, file: str = FILE, created: int = 0) -> None:
        self.offset = 4
        self.file = file
        body = struct.pack("<H50sIB", 4, b"9.7.4", created, 19) + bytes(41) + b"\x01"
        self.format = self._event(15, body)

    def _event(self, kind: int, body: bytes, timestamp: int = 1000) -> SourceEvent:
        size = 19 + len(body) + 4
        self.offset += size
        data = struct.pack("<IBIIIH", timestamp, kind, 1, size, self.offset, 0) + body
        data += struct.pack("<I", zlib.crc32(data))
        return SourceEvent(RawEvent(parse_header(data), data), UUID, self.file, self.offset)

    def gtid(self, number: int, *moments: int) -> SourceEvent:
        """With the moments of its commit here and at its first server, where the server knows them."""
        uuid = bytes.fromhex(UUID.replace("-", ""))
        times = b"".join(
            (moment | (len(moments) - 1 - at) << 55).to_bytes(7, "little") for at, moment in enumerate(moments)
        )
        return self._event(33, struct.pack("<B16sqBqq", 1, uuid, number, 2, number - 1, number) + times)

    def anonymous(self, table: str = "t") -> list[SourceEvent]:
        """A transaction of a server whose gtid_mode is not ON."""
        begin = self._event(34, struct.pack("<B16sqBqq", 1, bytes(16), 0, 2, 0, 1))
        return [begin, self.query("BEGIN"), self.table_map(9, table), self.write_rows(9), self.xid()]

    def query(self, sql: str) -> SourceEvent:
        return self._event(2, struct.pack("<IIBHH", 1, 0, 2, 0, 0) + b"db\0" + sql.encode())

    def table_map(self, table_id: int, table: str) -> SourceEvent:
        name = table.encode()
        body = struct.pack("<Q", table_id)[:6] + b"\1\0" + b"\2db\0" + bytes([len(name)]) + name + b"\0"
        return self._event(19, body + b"\1\3\0\0")

    def write_rows(self, table_id: int) -> SourceEvent:
        return self._event(30, struct.pack("<Q", table_id)[:6] + b"\1\0\2\0\1\xff\0" + struct.pack("<i", 7))

    def rotate(self, to: str) -> SourceEvent:
        return self._event(4, struct.pack("<Q", 4) + to.encode())

    def xid(self) -> SourceEvent:
        return self._event(16, struct.pack("<Q", 5))

    def insert(self, number: int, table: str = "t") -> list[SourceEvent]:
        return [
            self.gtid(number), self.query("BEGIN"), self.table_map(9, table), self.write_rows(9), self.xid()
        ]  # fmt: skip


def assembled(assembler: TransactionAssembler, events: list[SourceEvent]) -> Iterator[SourceTransaction]:
    for event in events:
        transaction = assembler.feed(event)
        if transaction is not None:
            yield transaction


def run_of(events: list[SourceEvent]) -> SourceRun:
    """The events as a reader of files brings them."""
    begin = events[0].end_offset - len(events[0].raw.data)
    return SourceRun([CheckedEvent(*event.raw) for event in events], UUID, FILE, begin, events[-1].end_offset)


def start(gtids: str = "") -> Position:
    return Position(UUID, FILE, 4, GtidSet.parse(gtids, "mysql"))


def everything(_: TableName) -> bool:
    return True


@pytest.mark.parametrize("whole", [True, False])
def test_a_position_tells_that_its_last_transaction_has_no_gtid(whole: bool) -> None:
    stream = Stream()
    assembler = TransactionAssembler(start(f"{UUID}:1"), everything, NO_XA)
    events = [stream.format, *stream.anonymous(), *stream.insert(2), *stream.anonymous()]
    found = list(assembler.feed_run(run_of(events)) if whole else assembled(assembler, events))
    sets = [str(transaction.end.gtid_set) for transaction in found]
    assert sets == [f"{UUID}:1,ANONYMOUS", f"{UUID}:1-2", f"{UUID}:1-2,ANONYMOUS"]
    without = TransactionAssembler(Position(UUID, FILE, 90), everything, NO_XA)
    assert [str(each.end.gtid_set) for each in assembled(without, [*stream.anonymous()])] == [""]


def test_a_transaction_appears_with_its_last_event_and_not_before() -> None:
    stream = Stream()
    assembler = TransactionAssembler(start(f"{UUID}:1"), everything, NO_XA)
    events = [stream.format, *stream.insert(2)]
    assert list(assembled(assembler, events[:-1])) == []
    assert assembler.position == start(f"{UUID}:1")
    (transaction,) = assembled(assembler, events[-1:])
    assert [type(item) for item in transaction.items] == [RowsItem]
    assert transaction.end.offset == stream.offset
    assert str(transaction.end.gtid_set) == f"{UUID}:1-2"


def test_rows_of_tables_nobody_wants_are_dropped_and_the_position_still_moves() -> None:
    stream = Stream()
    assembler = TransactionAssembler(start(f"{UUID}:1"), lambda table: table.table != "t", NO_XA)
    (transaction,) = assembled(assembler, [stream.format, *stream.insert(2)])
    assert transaction.empty
    assert assembler.position.offset == stream.offset


def test_transactions_of_the_start_set_are_passed_over_but_move_the_position() -> None:
    stream = Stream()
    assembler = TransactionAssembler(start(f"{UUID}:1-2"), everything, NO_XA)
    events = [stream.format, *stream.insert(1), *stream.insert(2), *stream.insert(3)]
    transactions = list(assembled(assembler, events))
    assert [transaction.empty for transaction in transactions] == [True, True, False]
    assert [transaction.begin for transaction in transactions[1:]] == [item.end for item in transactions[:-1]]
    assert str(assembler.position.gtid_set) == f"{UUID}:1-3"


def test_a_repeated_stretch_of_the_same_file_gives_nothing() -> None:
    stream = Stream()
    assembler = TransactionAssembler(start(f"{UUID}:1"), everything, NO_XA)
    events = [stream.format, *stream.insert(2), *stream.insert(3)]
    assert len(list(assembled(assembler, events))) == 2
    assert list(assembled(assembler, events)) == []


def test_ddl_is_a_transaction_of_its_own() -> None:
    stream = Stream()
    assembler = TransactionAssembler(start(f"{UUID}:1"), everything, NO_XA)
    events = [stream.format, stream.gtid(2), stream.query("CREATE TABLE x (a INT)"), *stream.insert(3)]
    first, second = assembled(assembler, events)
    assert [type(item) for item in first.items] == [StatementItem]
    assert first.end == second.begin


def test_starts_of_the_server_are_counted_once_each_and_other_files_are_none() -> None:
    assembler = TransactionAssembler(start(), everything, NO_XA)
    first, second = Stream(), Stream("bin.000002")  # the rest of a file, and one that FLUSH LOGS began
    third = Stream("bin.000003", created=1000)
    again = Stream(created=900)  # a new connection sends all of the file whose rest came before
    streams = ((first, [1]), (again, [1, 2]), (second, [3]), (third, [4]), (third, [5]))
    events = [
        event
        for stream, numbers in streams
        for event in (stream.format, *(event for number in numbers for event in stream.insert(number)))
    ]
    assert [transaction.starts for transaction in assembled(assembler, events)] == [0, 0, 0, 1, 1]


def test_create_select_keeps_statement_and_rows_together() -> None:
    stream = Stream()
    assembler = TransactionAssembler(start(f"{UUID}:1"), everything, NO_XA)
    create = [stream.gtid(2), stream.query("BEGIN"), stream.query("CREATE TABLE t (a INT) START TRANSACTION")]
    rows = [stream.table_map(9, "t"), stream.write_rows(9), stream.xid()]
    (transaction,) = assembled(assembler, [stream.format, *create, *rows])
    assert [type(item) for item in transaction.items] == [StatementItem, RowsItem]


def test_a_transaction_that_a_file_ends_inside_of_is_none() -> None:
    stream = Stream()
    whole, cut = stream.insert(1), stream.insert(2)[:-1]
    events = [stream.format, *whole, *cut, stream.rotate("bin.000002")]
    found = list(assembled(TransactionAssembler(start(), lambda _: True, NO_XA), events))
    assert [len(transaction.items) for transaction in found] == [1, 0]
    assert found[-1].end.file == "bin.000002"
    assert found[-1].end.gtid_set == GtidSet.parse(f"{UUID}:1")


def test_ids_of_tables_are_not_kept_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dm.sourcelog.stream.assembler, "MAPS_KEPT", 2)
    asked: list[TableName] = []

    def wanted(table: TableName) -> bool:
        asked.append(table)
        return True

    stream = Stream()
    assembler = TransactionAssembler(start(), wanted, NO_XA)
    opened = [1, 1, 2, 3, 1]  # with the third id the first is let go, and not only the first
    events = [stream.format]
    for number, table_id in enumerate(opened, 1):
        events += [stream.gtid(number), stream.query("BEGIN"), stream.table_map(table_id, f"t{table_id}")]
        events += [stream.write_rows(table_id), stream.xid()]
    transactions = list(assembled(assembler, events))
    assert [len(transaction.items) for transaction in transactions] == [1] * len(opened)
    assert [table.table for table in asked] == ["t1", "t2", "t3", "t1"]


def test_rows_have_the_same_table_map_whatever_its_id() -> None:
    stream = Stream()
    assembler = TransactionAssembler(start(), lambda table: table.table != "left", NO_XA)
    events = [stream.format]
    for number, table in enumerate(["a", "b", "left"] * 4, 1):
        events += [stream.gtid(number), stream.query("BEGIN"), stream.table_map(number, table)]
        events += [stream.write_rows(number), stream.xid()]
    rows = [item for one in assembler.feed_run(run_of(events)) for item in one.items if isinstance(item, RowsItem)]
    assert [item.table_map.table for item in rows] == ["a", "b"] * 4
    assert [item.rows.table_id for item in rows] == [1, 2, 4, 5, 7, 8, 10, 11]
    assert len({id(item.table_map) for item in rows}) == 2


def test_rows_belong_to_the_table_that_had_their_id_before_them() -> None:
    stream = Stream()
    # Rows without a table map of their own, in a transaction that is not read as a whole: a statement is in it.
    begin = [stream.format, *stream.insert(1, "a"), stream.gtid(2), stream.query("BEGIN"), stream.table_map(8, "b")]
    taken = [stream.write_rows(8), stream.xid(), stream.gtid(3), stream.query("BEGIN"), stream.write_rows(9)]
    rest = [stream.table_map(9, "b"), stream.write_rows(9), stream.query("SAVEPOINT `s`"), stream.xid()]
    assembler = TransactionAssembler(start(), everything, NO_XA)
    found = [list(one.items) for one in assembler.feed_run(run_of([*begin, *taken, *rest]))]
    tables = [[item.table_map.table for item in items if isinstance(item, RowsItem)] for items in found]
    assert tables == [["a"], ["b"], ["a", "b"]]


@pytest.mark.parametrize("lost", [True, False], ids=["after a lost connection", "in the stream"])
def test_the_rest_of_a_transaction_alone_is_refused_though_its_table_is_known(lost: bool) -> None:
    stream = Stream()
    whole = [stream.format, *stream.insert(1), *stream.insert(2)]
    rest = [stream.table_map(9 if lost else 10, "t"), stream.write_rows(9 if lost else 10), stream.xid()]
    assembler = TransactionAssembler(start(), everything, NO_XA)
    assert len(list(assembler.feed_run(run_of(whole)))) == 2
    if lost:
        assembler.restart()
    with pytest.raises(DMError) as raised:
        list(assembler.feed_run(run_of(rest)))
    assert raised.value.name == "event-outside-transaction"
    assert f"the event at ({FILE}, {whole[-1].end_offset})" in raised.value.message


@pytest.mark.parametrize("end", ["XID", "COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("first", [2, 3, 4], ids=["table map", "rows", "end"])
def test_the_rest_of_a_transaction_alone_is_refused(first: int, end: str) -> None:
    stream = Stream()
    rows = [stream.gtid(1), stream.query("BEGIN"), stream.table_map(9, "t"), stream.write_rows(9)]
    events = [*rows, stream.xid() if end == "XID" else stream.query(end)]
    begin = Position(UUID, FILE, events[first - 1].end_offset)
    assembler = TransactionAssembler(begin, everything, NO_XA)
    with pytest.raises(DMError) as raised:
        list(assembled(assembler, [stream.format, *events[first:], *stream.insert(2)]))
    assert raised.value.name == "event-outside-transaction"
    assert f"({FILE}, {begin.offset})" in raised.value.message
    assert assembler.position == begin


@pytest.mark.parametrize(
    ("moments", "moment"), [((5_000_001,), 5_000_001), ((9_000_000, 5_000_001), 5_000_001), ((), 1_000_000_000)]
)
@pytest.mark.parametrize("at_once", [True, False])
def test_for_an_order_of_sources_a_transaction_has_the_time_of_its_first_commit(
    moments: tuple[int, ...], moment: int, at_once: bool
) -> None:
    stream = Stream()
    events = [stream.format, stream.gtid(2, *moments), *stream.insert(2)[1:], stream.rotate("bin.000002")]
    for timed in (True, False):
        assembler = TransactionAssembler(start(f"{UUID}:1"), everything, NO_XA)
        assembler.timed = timed
        found = list(assembler.feed_run(run_of(events)) if at_once else assembled(assembler, events))
        assert [(each.moment, each.moves) for each in found] == [(moment if timed else 0, False), (0, True)]


def told(transaction: SourceTransaction) -> tuple[object, ...]:
    items = [(item.table_map.table, item.rows.data) for item in transaction.items if isinstance(item, RowsItem)]
    rest = (transaction.timestamp, transaction.size, transaction.items.size, transaction.starts, transaction.moves)
    return transaction.begin, transaction.end, transaction.gtid, items, *rest


def a_group(stream: Stream, number: int, chance: random.Random) -> list[SourceEvent]:
    """A transaction, or what stands between two, such as it keeps or breaks a run."""
    kind = chance.choice(("insert",) * 8 + ("anonymous", "unwanted", "ddl", "empty"))
    if kind == "anonymous":
        return stream.anonymous()
    if kind == "ddl":
        return [stream.gtid(number), stream.query("CREATE TABLE x (a INT)")]
    if kind == "empty":
        return [stream.gtid(number), stream.query("BEGIN"), stream.xid()]
    return stream.insert(number, "unwanted" if kind == "unwanted" else "t")


def test_what_is_taken_together_is_what_each_is_apart(twin: str) -> None:
    """Runs begin and end anywhere, numbers jump, some are known from the start, some have none."""
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    runs = 0
    for _ in range(150):
        stream, number, groups = Stream(), 1, list[list[SourceEvent]]()
        for _ in range(chance.randrange(2, 12)):
            groups.append(a_group(stream, number, chance))
            number += chance.choice((1, 1, 1, 1, 1, 1, 3))
        known = start(chance.choice(("", f"{UUID}:1-{chance.randrange(1, 8)}", f"{UUID}:5-6")))
        readers = [
            TransactionAssembler(known, lambda table: table.table != "unwanted", NO_XA) for _ in range(2)
        ]  # fmt: skip
        one, other = list[SourceTransaction](), list[SourceTransaction]()
        for reader in readers:
            reader.feed(stream.format)
        while groups:
            some = [event for _ in range(min(chance.randrange(1, 9), len(groups))) for event in groups.pop(0)]
            one += readers[0].feed_run(run_of(some))
            for found in readers[1].feed_together(run_of(some), most=chance.choice((1 << 20, 9000))):
                if isinstance(found, TransactionRun):
                    runs += 1
                    apart = list(found.apart())
                    places = [(found.begin_of(at), found.place(at), found.timestamp(at)) for at in range(found.count)]
                    assert places == [(each.begin, each.end, each.timestamp) for each in apart]
                    assert found.ends[-1] == len(found.items) == sum(len(each.items) for each in apart)
                    other += apart
                else:
                    other.append(found)
            assert readers[0].position == readers[1].position
        assert list(map(told, one)) == list(map(told, other)), seed
        for transaction in other:
            transaction.items.release()
        assert readers[1]._items._quota.used == 0
    assert (runs > 0) == (twin == "compiled"), "about 65 of 150 streams have a run, and the twin in Python makes none"


def test_a_run_keeps_no_rows_once_they_are_in_the_lanes(twin: str) -> None:
    """The tickets of its transactions keep it, as long as a lane has changes of one."""
    stream, assembler = Stream(), TransactionAssembler(start(), everything, NO_XA)
    assembler.feed(stream.format)
    first, both = run_of(stream.insert(1)), run_of([*stream.insert(2), *stream.insert(3)])
    assert len(list(assembler.feed_run(first))) == 1
    found = list(assembler.feed_together(both, most=1 << 20))
    assert (len(found) == 1) == (twin == "compiled")
    if isinstance(found[0], TransactionRun):
        data = found[0].items[0].rows.data
        kept = sys.getrefcount(data)
        found[0].release()
        assert sys.getrefcount(data) == kept - 1, "its rows event is gone"
        middle = both.offset + sum(len(event.data) for event in both.events[:5])
        assert [found[0].place(at).offset for at in (0, 1)] == [middle, both.end_offset]
