"""Items of a transaction as records of a spool file, and back.

    M   number, flavour, the table map as the source wrote it, its id empty; precedes the first rows that refer to it
    E   kind, flags, number of the table map, time, bitmaps, row images as in the event, decompressed
    S   a statement: its session, schema and text
    T   the same, for a statement on temporary tables
    C, D  the same two, for a statement inside a transaction

Rows are not decoded here: an image takes a ninth of the memory of its values.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import astuple
from struct import Struct
from typing import Final

from dm.mysql.binlog.cursor import ByteCursor
from dm.mysql.binlog.query import Query, QuerySession
from dm.mysql.binlog.rows import TIME_SIZE, Rows, RowsKind
from dm.mysql.binlog.table_map import TABLE_ID_SIZE, TableMap, parse_table_map
from dm.mysql.dialect import FLAVORS
from dm.sourcelog.stream.spool_file import SpoolWriter
from dm.sourcelog.stream.transaction import Item, RowsItem, StatementItem

_MAP = Struct("<cIB")  # M, number, flavour
_NO_ID: Final = bytes(TABLE_ID_SIZE)
_CONTENT: Final = _MAP.size + TABLE_ID_SIZE
_ROWS = Struct("<cBBHIQII")  # E, kind, partial, flags, table map, table id, columns, time
_STATEMENT = Struct("<cIIIHIIQ")  # S, time, thread, seconds, error, bytes of session and schema, start
RECORDS: Final = b"MESTCD"
"""How records begin; rows began with R before they had a time."""
_STATEMENTS: Final = b"STCD"  # by two bits: on temporary tables, inside a transaction
_KINDS: Final[tuple[RowsKind, ...]] = ("insert", "update", "delete")


class ItemWriter:
    """Writes the items of one transaction; keeps its table maps, so that a reader gets the same objects."""

    def __init__(self, writer: SpoolWriter) -> None:
        self.start = writer.end
        self.maps: list[TableMap] = []
        self._writer = writer
        self._numbers: dict[int, int] = {}

    def append(self, item: Item) -> None:
        """Write one; raises DMError when the disk is full."""
        if isinstance(item, StatementItem):
            self._statement(item)
            return
        rows = item.rows
        kind = _KINDS.index(rows.kind)
        front = _ROWS.pack(
            b"E", kind, rows.partial, rows.flags, self._number(item.table_map), rows.table_id, rows.column_count,
            rows.timestamp,
        )  # fmt: skip
        self._writer.append(front, rows.present, rows.present_after, rows.body)

    def _number(self, table_map: TableMap) -> int:
        number = self._numbers.get(id(table_map))
        if number is None:
            number = self._numbers[id(table_map)] = len(self.maps)
            self.maps.append(table_map)
            self._writer.append(_MAP.pack(b"M", number, FLAVORS.index(table_map.flavor)), _NO_ID, table_map.content)
        return number

    def _statement(self, item: StatementItem) -> None:
        query = item.query
        session, schema = repr(astuple(query.session)).encode(), query.schema.encode()
        kind = query.uses_temporary + 2 * query.in_transaction
        what = _STATEMENTS[kind : kind + 1]
        front = _STATEMENT.pack(
            what, query.timestamp, query.thread_id, query.exec_time, query.error_code, len(session), len(schema),
            item.start,
        )  # fmt: skip
        self._writer.append(front, session, schema, query.sql)


def read_maps(records: Iterable[bytes]) -> list[TableMap]:
    """The table maps of one transaction, for a reader that needs the same objects at each reading."""
    return [
        parse_table_map(ByteCursor(record, _CONTENT), FLAVORS[_MAP.unpack_from(record)[2]])
        for record in records
        if record[0] == 0x4D  # M
    ]


def read_items(records: Iterable[bytes], maps: list[TableMap] | None = None) -> Iterator[Item]:
    """The items of one transaction, in order; with the writer's own table maps if they still exist."""
    known = [] if maps is None else maps
    sessions: dict[bytes, QuerySession] = {}
    for record in records:
        what = record[0]
        if what == 0x45:  # E
            _, kind, partial, flags, number, table_id, count, _ = _ROWS.unpack_from(record)
            data = record[_ROWS.size - TIME_SIZE :]
            at = TIME_SIZE
            width = (count + 7) >> 3
            present, present_after = data[at : at + width], data[at + width : at + 2 * width]
            at += 2 * width
            images = (present, present_after, data, at, len(data))
            yield RowsItem(known[number], Rows(_KINDS[kind], table_id, count, *images, flags, bool(partial)))
        elif what == 0x4D:  # M
            if maps is None:
                _, _, server = _MAP.unpack_from(record)
                known.append(parse_table_map(ByteCursor(record, _CONTENT), FLAVORS[server]))
        else:
            yield _statement(record, sessions)


def _statement(record: bytes, sessions: dict[bytes, QuerySession]) -> StatementItem:
    what, timestamp, thread_id, exec_time, error_code, session_size, schema_size, start = _STATEMENT.unpack_from(record)
    at = _STATEMENT.size
    text = record[at : at + session_size]
    at += session_size
    session = sessions.get(text)
    if session is None:
        session = sessions[text] = QuerySession(*ast.literal_eval(text.decode()))
    schema = record[at : at + schema_size].decode()
    kind = _STATEMENTS.index(what)
    query = Query(
        schema, record[at + schema_size :], session, timestamp, thread_id, exec_time, error_code,
        bool(kind & 1), bool(kind & 2),
    )  # fmt: skip
    return StatementItem(query, start)
