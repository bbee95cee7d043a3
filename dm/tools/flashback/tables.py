"""From row events to the statements that take them back, by the task's rules."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final
from zlib import crc32

from dm.changes.column_map import MappedColumn, constant_columns, with_constants
from dm.changes.plan import PlanOptions, TablePlan, build_plan
from dm.changes.row_keys import TargetTable
from dm.changes.safe_mode import exchanges
from dm.changes.statement import (
    delete_row,
    equal_documents,
    has_zero_enum,
    in_arrays,
    insert_row,
    lenient_script,
    make_others,
    update_row,
)
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.decode import RowDecoder
from dm.mysql.binlog.table_map import TableMap, mismatch
from dm.mysql.binlog.value import ABSENT, Row
from dm.mysql.dialect import Flavor
from dm.mysql.schema.table import Column, TableSchema, wire_columns
from dm.position import Position
from dm.rules.row_filter import Judges, RowFilter
from dm.rules.table_rules import RowEvent, TableRules
from dm.sourcelog.stream.transaction import RowsItem
from dm.tools.flashback.survey import parents


@dataclass(frozen=True, slots=True)
class SourceStructures:
    """The source's tables as they are at the checkpoint."""

    flavor: Flavor
    tables: Mapping[TableName, TableSchema]
    logs_cascades: bool


@dataclass(frozen=True, slots=True)
class FlashbackTarget:
    """What is asked of the target."""

    table: Callable[[TableName], TargetTable | None]
    options: PlanOptions
    judges: Judges


@dataclass(frozen=True, slots=True)
class _UndoneTable:
    table_map: TableMap  # kept alive: its identity is the key
    wire: tuple[Column, ...]
    decoder: RowDecoder
    plan: TablePlan
    row_filter: RowFilter | None
    acting: frozenset[int]  # columns whose changes have changed other tables without a trace; any DELETE has


class UndoneTables:
    """Knows each table of the stretch by its table map; structures do not change in between (`survey.py`)."""

    def __init__(self, rules: TableRules, source: SourceStructures, target: FlashbackTarget) -> None:
        self._rules = rules
        self._source = source
        self._target = target
        self._parents = {} if source.logs_cascades else parents(source.tables.values())
        self._known: dict[int, _UndoneTable] = {}

    def statements(self, item: RowsItem, end: Position) -> Iterator[tuple[TableName, bytes]]:
        """The target's table and the statement for each change of an event, in the event's order; raises DMError."""
        name = TableName(item.table_map.schema, item.table_map.table)
        kind: RowEvent = item.rows.kind
        if self._rules.row_event(name, kind) != "do":
            return
        try:
            table = self._known.get(id(item.table_map)) or self._learn(name, item.table_map, end)
            pairs = table.decoder.decode(item.rows)
            if table.plan.constants:
                pairs = with_constants(pairs, table.plan.constants)
            skipped = [False] * len(pairs)
            if table.row_filter is not None:
                skipped = table.row_filter.skipped(kind, pairs, item.rows.timestamp)
            for (before, after), left_out in zip(pairs, skipped, strict=True):
                if not left_out:
                    self._refuse_lost(table, before, after)
                    yield table.plan.target, undo(table.plan, before, after)
        except DMError as error:
            error.position = error.position or str(end)
            raise

    def _learn(self, name: TableName, table_map: TableMap, end: Position) -> _UndoneTable:
        schema = self._source.tables.get(name)
        if schema is None:
            raise DMError("structure-unknown", table=str(name), why="the checkpoint has none", position=end)
        wire = tuple(wire_columns(schema, self._source.flavor))
        why = mismatch(table_map, wire)
        if why is not None:
            raise DMError("structure-mismatch", table=str(name), why=why, position=end)
        target = self._target.table(self._rules.route(name))
        if target is None:
            raise DMError("target-table-missing", table=str(self._rules.route(name)), unread="", position=end)
        constants = constant_columns(name, [column.name for column in wire], target.schema, self._rules.extracted(name))
        plan = build_plan(schema, wire, target, self._target.options, constants)
        row_filter = self._rules.row_filter(schema, wire, self._target.judges)
        names = self._parents.get(name, frozenset())
        acting = frozenset(at for at, column in enumerate(wire) if column.name.lower() in names)
        table = _UndoneTable(table_map, wire, RowDecoder(table_map, wire), plan, row_filter, acting)
        self._known[id(table_map)] = table
        return table

    @staticmethod
    def _refuse_lost(table: _UndoneTable, before: Row | None, after: Row | None) -> None:
        if not table.acting or before is None:
            return
        if after is None or any(after[at] is not ABSENT and after[at] != before[at] for at in table.acting):
            raise DMError("flashback-cascade", table=str(table.plan.source))


def undo(plan: TablePlan, before: Row | None, after: Row | None) -> bytes:
    """The statement, or two of them, without the end; raises DMError if the images do not tell what was there.

        INSERT    a DELETE of the row
        DELETE    an INSERT of the row
        UPDATE    an UPDATE of the row that is there now to the row before (two of them where `equal_documents` says so)

    Rows are found as the syncer finds them: by the key of the target, or by all columns where there is no key, and then
    only one row goes. If an image lacks a column that the statement needs, there is no statement: a value is never
    guessed. So an UPDATE needs the old value of each column that it wrote. `binlog_row_image = FULL` has them all, and
    so has MariaDB's FULL_NODUP; MINIMAL has none but those of the key.
    """
    if after is None:
        assert before is not None
        _require(plan, before, plan.columns)
        return _lenient(plan, before, insert_row(plan, before))
    finding = plan.row_key + plan.identity if plan.keyed else plan.columns
    if before is None:
        _require(plan, after, finding)
        return delete_row(plan, after)
    there = tuple(old if new is ABSENT else new for old, new in zip(before, after, strict=True))
    _require(plan, there, finding)
    _require(plan, before, [column for column in plan.columns if after[column.at] is not ABSENT])
    old = tuple(ABSENT if new is ABSENT else old for old, new in zip(before, after, strict=True))
    exchanged = tuple(exchanges(plan, there, old))  # a TiDB would leave them as they are
    if exchanged:
        _require(plan, before, plan.columns)
        if plan.upsert:  # the target has columns that no image has
            raise DMError("member-missing", column=exchanged[0].target.name, label="")
        return delete_row(plan, there) + b";\n" + _lenient(plan, before, insert_row(plan, before))
    documents = equal_documents(plan, there, old)
    if not documents:
        return _lenient(plan, old, update_row(plan, there, old))
    found = there if plan.keyed else in_arrays(documents, there)
    return make_others(plan, documents, there) + b";\n" + _lenient(plan, old, update_row(plan, found, old))


def _lenient(plan: TablePlan, row: Row, sql: bytes) -> bytes:
    """An ENUM's error value is refused in a strict mode."""
    return lenient_script(plan.flavor, sql) if has_zero_enum(plan, row) else sql


def _require(plan: TablePlan, row: Row, columns: Sequence[MappedColumn]) -> None:
    for column in columns:
        if row[column.at] is ABSENT:
            raise DMError("flashback-partial-image", table=plan.source, column=column.source.name)


_TRAILER: Final = Struct("<QI")
_FLUSH_BYTES: Final = 1 << 18
_READ_BYTES: Final = 1 << 18


class BackwardsFile:
    """Scratch: nobody else reads it, and it is removed at the end.

    Each record is followed by its length and CRC, which a reader meets before the record. So neither end of the file
    needs an index, and only one record is in memory at a time.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._size = 0
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._failed(error) from error

    def append(self, record: bytes) -> None:
        """Add a record; raises DMError when the disk is full."""
        trailer = _TRAILER.pack(len(record), crc32(record))
        self._held += (record, trailer)
        self._held_bytes += len(record) + len(trailer)
        if self._held_bytes >= _FLUSH_BYTES:
            self._flush()

    def _flush(self) -> None:
        left = memoryview(b"".join(self._held))
        self._held, self._held_bytes = [], 0
        try:
            while left:
                written = os.pwrite(self._descriptor, left, self._size)
                self._size += written
                left = left[written:]
        except OSError as error:
            raise self._failed(error) from error

    def backwards(self) -> Iterator[bytes]:
        """All records, the last one first; raises DMError if the disk gives other bytes than were written."""
        self._flush()
        end, block, start = self._size, b"", self._size  # of the block: the bytes from `start` on
        while end:
            if end - start < _TRAILER.size:
                block, start = self._block(end, _TRAILER.size)
            at = end - start - _TRAILER.size
            length, crc = _TRAILER.unpack_from(block, at)
            whole = length + _TRAILER.size
            if whole > end:
                raise DMError("spool-damaged", file=self._path, offset=end, what="a record is longer than the file")
            if end - start < whole:
                block, start = self._block(end, whole)
                at = end - start - _TRAILER.size
            record = block[at - length : at]
            if crc32(record) != crc:
                raise DMError("spool-damaged", file=self._path, offset=end, what="a record is not as it was written")
            yield record
            end -= whole

    def _block(self, end: int, least: int) -> tuple[bytes, int]:
        """The bytes before `end`, at least so many, and where they begin."""
        start = max(0, end - max(least, _READ_BYTES))
        block = b""
        try:
            while len(block) < end - start:
                read = os.pread(self._descriptor, end - start - len(block), start + len(block))
                if not read:
                    raise DMError("spool-damaged", file=self._path, offset=start, what="the file is too short")
                block += read
        except OSError as error:
            raise self._failed(error) from error
        return block, start

    def close(self) -> None:
        """Remove the file."""
        os.close(self._descriptor)
        self._path.unlink(missing_ok=True)

    def _failed(self, error: OSError) -> DMError:
        return DMError("flashback-unwritable", file=self._path, cause=error.strerror or str(error))
