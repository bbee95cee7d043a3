"""Tables whose rows may go as events, and the events of a statement read again."""

from __future__ import annotations

import struct
from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dm.changes.event_rules import RoutedTable, event_form
from dm.changes.plan import PlanOptions, TablePlan, build_plan
from dm.changes.row_change import ChangeKind, RowChange
from dm.changes.row_keys import TargetTable
from dm.ident import TableName
from dm.mysql.binlog.decode import RowDecoder, RowPair
from dm.mysql.binlog.event import RawEvent
from dm.mysql.binlog.frame import frames
from dm.mysql.binlog.reader import EventParser, Rows, TableMap, TableMapEvent
from dm.mysql.binlog.row_events import RowsKind, format_description
from dm.mysql.binlog.table_map import OptionalMetadata
from dm.mysql.binlog.wire_type import WireCode, WireType
from dm.mysql.schema.table import Column, Index, TableSchema


def sees_all(_: TableName) -> bool:
    """The account is known to see the triggers of each table."""
    return True


ROW_EVENTS = PlanOptions("mysql", compact=True, no_events="", sees_triggers=sees_all)


def table_map_of(columns: Sequence[Column]) -> TableMap:
    """The table map of INT columns."""
    count = len(columns)
    nulls = sum(column.nullable << at for at, column in enumerate(columns))
    content = b"\1\0" + b"\1s\0" + b"\1t\0" + bytes([count]) + bytes([WireCode.LONG] * count)
    content += b"\0" + nulls.to_bytes((count + 7) // 8, "little")
    wire = (WireType(WireCode.LONG),) * count
    nullable = tuple(column.nullable for column in columns)
    return TableMap("s", "t", wire, nullable, OptionalMetadata(), "mysql", content)


def pair_of(
    columns: Sequence[Column],
    indexes: Sequence[Index],
    *,
    source: Sequence[Column] | None = None,
    options: PlanOptions = ROW_EVENTS,
    target: TargetTable | None = None,
    table: str = "t",
) -> RoutedTable:
    """A source table and its target, of these columns both unless the source's are given."""
    wire = tuple(columns if source is None else source)
    schema = TableSchema(TableName("d", table), tuple(columns), tuple(indexes), engine="InnoDB")
    there = TargetTable(schema) if target is None else replace(target, schema=schema)
    plan = build_plan(TableSchema(TableName("s", "t"), wire), wire, there, options)
    return RoutedTable(table_map_of(wire), wire, there, plan, options)


def event_plan(
    columns: Sequence[Column], indexes: Sequence[Index], *, table: str = "t", options: PlanOptions = ROW_EVENTS
) -> TablePlan:
    """The plan of a table whose rows go as events."""
    pair = pair_of(columns, indexes, table=table, options=options)
    return replace(pair.plan, events=event_form(pair, RowDecoder(pair.table_map, pair.wire)))


def image(row: Sequence[int | None]) -> bytes:
    """The raw image of a row of INTs."""
    nulls = sum((value is None) << at for at, value in enumerate(row))
    values = b"".join(struct.pack("<i", value) for value in row if value is not None)
    return nulls.to_bytes((len(row) + 7) // 8, "little") + values


def raw_change(
    plan: TablePlan, before: tuple[int | None, ...] | None, after: tuple[int | None, ...] | None
) -> RowChange:
    """A change with its images."""
    kind = ChangeKind.INSERT if before is None else ChangeKind.DELETE if after is None else ChangeKind.UPDATE
    raws = [None if row is None else image(row) for row in (before, after)]
    return RowChange(plan, kind, before, after, False, raw_before=raws[0], raw_after=raws[1])


def events_of(sql: bytes, columns: int) -> Iterator[tuple[str, RowsKind, list[RowPair]]]:
    """Table, kind and rows of the events of a BINLOG statement."""
    parser = EventParser()
    data = format_description("9.7.4") + b64decode(sql.removeprefix(b"BINLOG '").removesuffix(b"'"))
    table_map = None
    for at, header in frames(data, 0, len(data)):
        event = parser.parse(RawEvent(header, data[at : at + header.size]))
        if isinstance(event, TableMapEvent):
            table_map = event.table_map
        elif isinstance(event, Rows):
            assert table_map is not None
            decoder = RowDecoder(table_map, [Column(f"c{at}", "int") for at in range(columns)])
            yield table_map.table, event.kind, decoder.decode(event)
