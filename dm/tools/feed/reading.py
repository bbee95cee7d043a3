"""Batches of the feed: where one ends, how it is divided into tasks, and the rows of a part of the relay.

A position of the feed is the end of a transaction, so a part of the relay between two positions always has the same
rows, whoever reads it and how often. That is what makes a restart exact: Spark stores both ends of a batch before it
reads, and after a crash the same part is read again.

Within a batch, the names of the files and the offsets are the order of the changes: a batch ends where the source is
another server, and where names begin anew.

A batch ends before what the feed can't deliver, so everything before it is delivered. The next batch then fails and
says so. It may be a statement that changes the table's columns, a row image that lacks columns, or an XA transaction
(`EmptyPrepared`): its rows lie before the place where it is decided, perhaps in another batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, NamedTuple, NoReturn

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.decode import RowDecoder
from dm.mysql.binlog.row_events import Rows
from dm.mysql.binlog.table_map import TableMap, mismatch
from dm.mysql.binlog.value import ABSENT, Row, Value
from dm.mysql.dialect import dialect
from dm.mysql.schema.charset import UNKNOWN, Collated
from dm.mysql.schema.normal import same_column
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import Column, TableSchema, wire_columns
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.effect_on_rows import Effect, effect_of
from dm.mysql.sql.operation import CreateTable
from dm.mysql.sql.piece import Piece
from dm.mysql.types.addresses import address_text
from dm.position import Position
from dm.rules.table_rules import RowEvent
from dm.sourcelog.stream.transaction import RowsItem, SourceTransaction, StatementItem
from dm.tools.feed.options import FeedOptions
from dm.tools.feed.prepared import EmptyPrepared, SeenPrepared

Image = dict[str, bytes | None] | None


class FeedRow(NamedTuple):
    """A change as the feed has it: the columns of `SCHEMA` (source.py), in their order."""

    server: str
    file: str
    position: int  # the end of its transaction
    number: int  # within the transaction, from 1
    gtid: str  # empty if the source has none
    committed: datetime
    schema: str
    table: str
    op: RowEvent
    before: Image
    after: Image


# What ends a stream. A batch ends before it, so everything before it is delivered; the next batch begins with it.
_ENDS: Final = frozenset(
    {"feed-ddl", "feed-xa", "feed-partial-image", "feed-source-switched", "structure-mismatch", "relay-gap"}
)


@dataclass(frozen=True, slots=True)
class FeedBatch:
    """A part of the relay, cut into pieces for tasks: each begins where the one before ends."""

    end: Position
    cuts: tuple[Position, ...] = ()


@dataclass(slots=True)
class _FeedTable:
    table_map: TableMap
    schema: TableSchema
    wire: tuple[Column, ...]
    decoder: RowDecoder = field(init=False)
    _needed: int = field(init=False)  # a bit for each column that images have

    def __post_init__(self) -> None:
        self.decoder = RowDecoder(self.table_map, self.wire)
        self._needed = sum(1 << at for at, column in enumerate(self.wire) if column.generated is None)

    def refuse_partial(self, rows: Rows) -> None:
        """Raise DMError where a row lacks a column; an UPDATE's second image may, since the first one has it."""
        lacking = self._needed & ~int.from_bytes(rows.present, "little")
        if lacking:
            first = (lacking & -lacking).bit_length() - 1
            raise DMError("feed-partial-image", table=self.schema.name, column=self.wire[first].name)


class FeedReading:
    """Reads parts of one relay."""

    def __init__(self, options: FeedOptions) -> None:
        self._options = options
        self._tables: dict[int, _FeedTable] = {}
        self._existence = TableExistence(options)

    def _transactions(self, start: Position) -> Iterator[SourceTransaction]:
        try:
            yield from self._options.transactions(start, EmptyPrepared(self._options, start))
        except DMError as error:
            if error.name != "source-switched":
                raise
            raise DMError("feed-source-switched", now=error.details["now"], before=error.details["before"]) from error

    def batch(self, start: Position, size: int | None, limit: Position | None = None) -> FeedBatch:
        """What comes after `start`: at most about `size` bytes, and nothing that ends after `limit`."""
        end, cuts, read, of_task = start, [], 0, 0
        try:
            for transaction in self._transactions(start):
                if limit is not None and transaction.end.same_files(limit) and transaction.end.order > limit.order:
                    break
                self._examine(transaction)
                if end != start and not _sorts_after(transaction.end, end):
                    break
                if size is not None and read and read + transaction.size > size:
                    break
                if of_task and of_task + transaction.size > self._options.task_bytes:
                    cuts.append(end)
                    of_task = 0
                end = transaction.end
                read += transaction.size
                of_task += transaction.size
        except DMError as error:
            if error.name not in _ENDS or end == start:
                raise
        return FeedBatch(end, tuple(cuts))

    def _examine(self, transaction: SourceTransaction) -> None:
        """Raise DMError where the feed can't deliver the transaction."""
        for item in transaction.items:
            if isinstance(item, RowsItem):
                self._existence.note_rows()
                self._table_of(item, transaction.end).refuse_partial(item.rows)
            elif not self._existence.stays(item, transaction.end):
                self._refuse(transaction, item)

    @staticmethod
    def _refuse(transaction: SourceTransaction, item: StatementItem) -> NoReturn:
        end = transaction.end
        text = " ".join(item.query.readable.split())[:300]
        raise DMError("feed-ddl", place=f"({end.file}, {item.start})", statement=text, after=f"{end.file}:{end.offset}")

    def changes(self, start: Position, end: Position) -> Iterator[FeedRow]:
        """The rows of the part between two positions, in the relay's order; raises DMError."""
        if start == end:
            return
        there = start
        for transaction in self._transactions(start):
            there = transaction.end
            self._examine(transaction)
            yield from self._of_transaction(transaction)
            if there.covers(end):
                return
        raise DMError("feed-relay-short", there=there, wanted=end)

    def _of_transaction(self, transaction: SourceTransaction) -> Iterator[FeedRow]:
        number, end = 0, transaction.end
        gtid = "" if transaction.gtid is None else str(transaction.gtid)
        committed = datetime.fromtimestamp(transaction.timestamp, UTC)
        for item in transaction.items:
            if not isinstance(item, RowsItem):
                continue
            table = self._table_of(item, end)
            name, kind = table.schema.name, item.rows.kind
            for pair in table.decoder.decode(item.rows):
                before, after = (
                    None if row is None else image_of(table.schema, table.wire, row) for row in merged(*pair)
                )
                number += 1
                place = (end.server_uuid, end.file, end.offset, number, gtid, committed)
                yield FeedRow(*place, name.schema, name.table, kind, before, after)

    def _table_of(self, item: RowsItem, end: Position) -> _FeedTable:
        return self._tables.get(id(item.table_map)) or self._learn(item.table_map, end)

    def _learn(self, table_map: TableMap, end: Position) -> _FeedTable:
        schema = self._options.structures[TableName(table_map.schema, table_map.table)]
        wire = tuple(wire_columns(schema, self._options.flavor))
        why = mismatch(table_map, wire)
        if why is not None:
            raise DMError("structure-mismatch", table=str(schema.name), why=why, position=end)
        self._tables[id(table_map)] = table = _FeedTable(table_map, schema, wire)
        return table


def _sorts_after(place: Position, before: Position) -> bool:
    """Whether sorting by the file's name, a text, and the offset keeps `place` after `before`."""
    return place.server_uuid == before.server_uuid and place.file >= before.file


def image_of(schema: TableSchema, columns: Sequence[Column], row: Row) -> dict[str, bytes | None]:
    """A row by the names of its columns; generated ones are left out, as in a dump. Raises DMError.

    So the expressions that give a dump's columns their types (`dm.tools.lake`) give them to the feed's, and both have
    the same types and the same meaning by construction. Members of ENUM and SET are numbers, as in a dump whose
    members' texts don't tell which they are.
    """
    found: dict[str, bytes | None] = {}
    for column, value in zip(columns, row, strict=True):
        if column.generated is not None:
            continue
        if value is ABSENT:
            raise DMError("feed-partial-image", table=schema.name, column=column.name)
        found[column.name] = _bytes(column, value)
    return found


def _bytes(column: Column, value: Value) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, bytes):
        inside = column.type.bytes_inside
        return value if inside is None else address_text(column.type.name, value).encode()
    if column.type.is_bits:
        assert isinstance(value, int)
        return value.to_bytes(((column.length or 1) + 7) // 8, "big")
    return (repr(value) if isinstance(value, float) else str(value)).encode()


def merged(before: Row | None, after: Row | None) -> tuple[Row | None, Row | None]:
    """An UPDATE's after image with the columns that it lacks since they are as before (MariaDB's FULL_NODUP)."""
    if before is None or after is None:
        return before, after
    return before, tuple(old if new is ABSENT else new for old, new in zip(before, after, strict=True))


_EARLIEST: Final = ("", "earliest")


class TableExistence:
    """Knows whether the table is there already: if so, CREATE TABLE IF NOT EXISTS does nothing."""

    def __init__(self, options: FeedOptions) -> None:
        self._options = options
        # Where a person names a place, or a dump does, the structure is that of the table there.
        self._there = options.point is not None or options.start not in _EARLIEST

    def note_rows(self) -> None:
        """Rows of it were met."""
        self._there = True

    def stays(self, item: StatementItem, end: Position) -> bool:
        """Whether the table has the columns and rows after the statement that it had; raises DMError.

        `end` is that of the statement's transaction.
        """
        context, text = self._context(item), item.query.readable
        effect = self._effect(item)
        if effect.stands_before(self._options.structures):
            # CREATE OR REPLACE takes the rows of the table that was there, and the binlog does not name them.
            stays = self._makes_it(text, context) and not (_replaces(text, context) and self._is_there(end))
        elif self._there or not self._concerns_table(effect) or _creation(text, context) is None:
            stays = True
        else:
            stays = self._makes_it(text, context) or self._is_there(end)
        if stays and self._concerns_table(effect):
            self._there = True
        return stays

    def _context(self, item: StatementItem) -> SourceContext:
        query, flavor = item.query, self._options.flavor
        return SourceContext.of_sql_mode(flavor, dialect(flavor).newest, query.schema, query.sql_mode or 0)

    def _effect(self, item: StatementItem) -> Effect:
        return effect_of(item.query.readable, self._context(item), lambda table: table in self._options.structures)

    def _concerns_table(self, effect: Effect) -> bool:
        return any(table in self._options.structures for table in effect.named)

    def _makes_it(self, text: str, context: SourceContext) -> bool:
        """Whether the statement creates the table with the columns that are expected."""
        creation = _creation(text, context)
        expected = None if creation is None else self._options.structures.get(creation.table)
        if creation is None or creation.like is not None or expected is None:
            return False
        try:
            # The event doesn't tell the character set of its schema: what is inherited is what is expected.
            inherited = Collated(expected.charset, expected.collation or "") if expected.charset else UNKNOWN
            made = parse_create_table(text, context, inherited)
        except DMError:
            return False
        return _same_images(made, expected)

    def _is_there(self, end: Position) -> bool:
        """Whether there is a table before a statement."""
        return self._there or self._was_there(end)

    def _was_there(self, end: Position) -> bool:
        """Whether the relay has something of the table before a statement, in what an earlier batch has read."""
        for transaction in self._options.transactions(self._options.first(), SeenPrepared()):
            if transaction.end.covers(end):
                return False
            for item in transaction.items:
                if isinstance(item, RowsItem) or self._concerns_table(self._effect(item)):
                    return True
        return False


def _creation(text: str, context: SourceContext) -> CreateTable | None:
    try:
        operation = Piece.of(text, context).operation
    except DMError:
        return None
    return operation if isinstance(operation, CreateTable) else None


def _replaces(text: str, context: SourceContext) -> bool:
    creation = _creation(text, context)
    return creation is not None and creation.or_replace


def _same_images(one: TableSchema, other: TableSchema) -> bool:
    """Whether bytes of rows mean the same in both."""
    return len(one.columns) == len(other.columns) and all(
        same_column(_of_images(left), _of_images(right)) for left, right in zip(one.columns, other.columns, strict=True)
    )


def _of_images(column: Column) -> Column:
    return replace(
        column, collation=None, nullable=True, default=None, on_update=None, auto_increment=False, expression=None,
        invisible=False,
    )  # fmt: skip
