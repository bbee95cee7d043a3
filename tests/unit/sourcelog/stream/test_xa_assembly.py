"""The groups of XA transactions, as MySQL writes them: rows stay with the PREPARE until their XA COMMIT is read."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import zstandard

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.event import SourceEvent
from dm.position import Position
from dm.sourcelog.stream.assembler import TransactionAssembler
from dm.sourcelog.stream.prepared import PreparedTransactions
from dm.sourcelog.stream.transaction import RowsItem, SourceTransaction, StatementItem
from tests.unit.sourcelog.stream.test_assembler import Stream, assembled, everything, start


class XaStream(Stream):
    """Adds what stands in the groups of an XA transaction."""

    def xa_prepare(self, name: str, *, one_phase: bool = False, format_id: int = 1) -> SourceEvent:
        body = struct.pack("<?III", one_phase, format_id & 0xFFFFFFFF, len(name), 0) + name.encode()
        return self._event(38, body)

    def prepared(self, number: int, name: str = "a", table: str = "t", format_id: int = 1) -> list[SourceEvent]:
        xid = f"X'{name.encode().hex()}',X'',{format_id}"
        return [
            self.gtid(number),
            self.query(f"XA START {xid}"),
            self.table_map(9, table),
            self.write_rows(9),
            self.query(f"XA END {xid}"),
            self.xa_prepare(name, format_id=format_id),
        ]

    def decided(self, number: int, verb: str, name: str = "a", format_id: int = 1) -> list[SourceEvent]:
        return [self.gtid(number), self.query(f"XA {verb} X'{name.encode().hex()}',X'',{format_id}")]

    def packed(self, number: int, events: list[SourceEvent]) -> list[SourceEvent]:
        """The events after the GTID in one compressed payload."""
        inner = b""
        for event in events:
            data = event.raw.data[:-4]  # no checksums inside
            inner += data[:9] + struct.pack("<I", len(data)) + data[13:]
        payload = zstandard.compress(inner)
        fields = b"\2\1\0" + b"\3\3\xfc" + struct.pack("<H", len(inner))
        fields += b"\1\3\xfc" + struct.pack("<H", len(payload)) + b"\0"
        return [self.gtid(number), self._event(40, fields + payload)]


def reader(directory: Path, begin: Position, epoch: int = 1) -> tuple[TransactionAssembler, PreparedTransactions]:
    prepared = PreparedTransactions(directory)
    prepared.open(epoch, begin)
    return TransactionAssembler(begin, everything, prepared), prepared


def tables(transaction: SourceTransaction) -> list[str]:
    return [item.table_map.table for item in transaction.items if isinstance(item, RowsItem)]


def test_the_position_passes_a_prepare_and_the_rows_come_with_the_commit(tmp_path: Path) -> None:
    stream = XaStream()
    assembler, prepared = reader(tmp_path, start())
    events = [stream.format, *stream.prepared(1), *stream.insert(2, "other"), *stream.decided(3, "COMMIT")]
    first, second, third = assembled(assembler, events)
    assert (tables(first), tables(second), tables(third)) == ([], ["other"], ["t"])
    assert str(third.gtid) == f"{third.end.server_uuid}:3"
    assert third.begin == second.end
    assert third.end.offset == stream.offset
    assert prepared.undecided == []
    (item,) = third.items
    assert isinstance(item, RowsItem)
    assert bytes(item.rows.body).endswith(struct.pack("<i", 7))
    assert item.rows.kind == "insert"


def test_a_rollback_drops_its_rows_and_no_others(tmp_path: Path) -> None:
    stream = XaStream()
    assembler, _ = reader(tmp_path, start())
    events = [
        stream.format,
        *stream.prepared(1, "a", "of_a"),
        *stream.prepared(2, "b", "of_b"),
        *stream.decided(3, "ROLLBACK", "a"),
        *stream.decided(4, "COMMIT", "b"),
        *stream.decided(5, "ROLLBACK", "nobody knows it"),
    ]
    assert [tables(transaction) for transaction in assembled(assembler, events)] == [[], [], [], ["of_b"], []]


def test_a_commit_without_its_prepare_says_where_and_which(tmp_path: Path) -> None:
    stream = XaStream()
    assembler, _ = reader(tmp_path, start())
    with pytest.raises(DMError) as caught:
        list(assembled(assembler, [stream.format, *stream.insert(1), *stream.decided(2, "COMMIT", "a")]))
    assert caught.value.name == "xa-prepare-missing"
    assert "X'61',X'',1" in caught.value.message
    assert caught.value.position == f"(bin.000001, {stream.offset})"


def test_the_format_id_is_told_by_the_statements_because_the_event_has_32_bits_of_it(tmp_path: Path) -> None:
    stream = XaStream()
    assembler, _ = reader(tmp_path, start())
    events = [
        stream.format,
        *stream.prepared(1, "a", "large", 2**32 + 1),
        *stream.prepared(2, "a", "small", 1),
        *stream.decided(3, "COMMIT", "a", 1),
        *stream.decided(4, "COMMIT", "a", 2**32 + 1),
    ]
    assert [tables(transaction) for transaction in assembled(assembler, events)] == [[], [], ["small"], ["large"]]


def test_one_phase_is_a_commit(tmp_path: Path) -> None:
    stream = XaStream()
    assembler, _ = reader(tmp_path, start())
    events = [stream.format, *stream.prepared(1)[:-1]]
    assert list(assembled(assembler, events)) == []
    (transaction,) = assembled(assembler, [stream.xa_prepare("a", one_phase=True)])
    assert tables(transaction) == ["t"]
    assert list(tmp_path.rglob("*.xa")) == []


def test_a_compressed_transaction_is_held_too(tmp_path: Path) -> None:
    stream = XaStream()
    assembler, _ = reader(tmp_path, start())
    inner = stream.prepared(1)[1:]
    events = [stream.format, *stream.packed(1, inner), *stream.decided(2, "COMMIT")]
    assert [tables(transaction) for transaction in assembled(assembler, events)] == [[], ["t"]]


def test_what_was_processed_before_is_neither_held_nor_decided_again(tmp_path: Path) -> None:
    stream = XaStream()
    uuid = start(f"{'3e11fa47-71ca-11e1-9e33-c80aa9429562'}:1-2")
    assembler, prepared = reader(tmp_path, uuid)
    events = [stream.format, *stream.prepared(1), *stream.decided(2, "COMMIT"), *stream.prepared(3, "b")]
    assert [tables(transaction) for transaction in assembled(assembler, events)] == [[], [], []]
    assert [held.xid for held in prepared.undecided] == ["X'62',X'',1"]


def test_rows_of_tables_that_nobody_wants_leave_the_names_of_the_tables(tmp_path: Path) -> None:
    stream = XaStream()
    prepared = PreparedTransactions(tmp_path)
    prepared.open(1, start())
    wanted = {"t"}

    def in_list(table: TableName) -> bool:
        return table.table in wanted

    assembler = TransactionAssembler(start(), in_list, prepared)
    prepare = stream.prepared(1)
    prepare[4:4] = [stream.table_map(10, "left_out"), stream.write_rows(10)]
    list(assembled(assembler, [stream.format, *prepare]))
    (held,) = prepared.undecided
    assert (held.items, held.left_out) == (1, frozenset({TableName("db", "left_out")}))
    wanted.add("left_out")
    with pytest.raises(DMError) as caught:
        list(assembled(assembler, stream.decided(2, "COMMIT")))
    assert caught.value.name == "xa-rows-left-out"


def test_the_rows_can_be_read_twice_and_refer_to_the_same_table_maps_also_in_a_later_run(tmp_path: Path) -> None:
    stream = XaStream()
    assembler, prepared = reader(tmp_path, start())
    prepare = stream.prepared(1)
    prepare[4:4] = [stream.table_map(10, "second"), stream.write_rows(10), stream.write_rows(9)]
    list(assembled(assembler, [stream.format, *prepare]))
    prepared.make_durable(assembler.position)
    prepared.delete_decided(assembler.position)
    later, _ = reader(tmp_path, assembler.position, epoch=2)
    (transaction,) = assembled(later, [stream.format, *stream.decided(2, "COMMIT")])
    once, again = ([item for item in transaction.items if isinstance(item, RowsItem)] for _ in range(2))
    assert [item.table_map.table for item in once] == ["t", "second", "t"]
    assert [id(item.table_map) for item in once] == [id(item.table_map) for item in again]
    assert once[0].table_map is once[2].table_map
    assert [bytes(item.rows.body) for item in once] == [bytes(item.rows.body) for item in again]


def test_a_change_logged_as_a_statement_waits_for_the_verdict_too(tmp_path: Path) -> None:
    stream = XaStream()
    assembler, _ = reader(tmp_path, start())
    prepare = stream.prepared(1)
    prepare[2:4] = [stream.query("INSERT INTO t VALUES (1)")]
    first, second = assembled(assembler, [stream.format, *prepare, *stream.decided(2, "COMMIT")])
    assert list(first.items) == []
    (item,) = second.items
    assert isinstance(item, StatementItem)
    assert item.query.sql == b"INSERT INTO t VALUES (1)"
