"""A source table whose rows go to several tables of the target: to the one that a row's own columns name.

It is the inverse of a merge with extracted columns. Each of the target's tables has a plan of its own, as if the source
had a table with its rows alone, without the columns that name it. What comes after (keys, lanes, conflicts, safe mode,
row bags) sees changes of these plans, and knows nothing of the rest.

- A unique key of the source over (shard, id) is one over (id) among the rows of one table. A key over these columns
  alone would mean that a table has one row: nothing is said of it.
- An UPDATE that changes one of these columns is a DELETE in the one table and an INSERT in the other, in this order.
  The two have no key in common, so lanes may commit them in any order, as they may commit any two changes of one
  transaction. What is read again after a crash is idempotent in each table by itself.
- Values are compared as they are written, not by the column's collation: `a` and `A` may be two tables. Only
  what fills up a CHAR or BINARY tells none apart: spaces, zero bytes.
- A row that names no table pauses the task: no guess would be better. NULL names none.
- An image that lacks one of these columns pauses it, too, and so does a row that moves with an image that lacks any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from dm.changes.keys import completed
from dm.changes.plan import TablePlan
from dm.changes.row_change import ChangeKind, RowChange
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.charset import decoder_of
from dm.mysql.binlog.decode import RowDecoder
from dm.mysql.binlog.table_map import TableMap
from dm.mysql.binlog.value import ABSENT, Row, Value
from dm.mysql.schema.table import Column
from dm.position import Position
from dm.rules.router import Scattering
from dm.rules.table_rules import RowEvent
from dm.sourcelog.stream.transaction import RowsItem, SourceTransaction
from dm.syncer.apply.source_table import KINDS, SourceTable, completed_images


class PlacedRow(NamedTuple):
    """A row change, and the table whose rows it is one of."""

    table: SourceTable
    kind: ChangeKind
    before: Row | None
    after: Row | None
    in_order: bool  # by the ordered lane
    safe: bool  # in safe mode

    def change(self, item: RowsItem) -> RowChange:
        """As its lane takes it."""
        unchecked = self.table.unchecked(item, safe=self.safe)
        return RowChange(self.table.plan_of(item), self.kind, self.before, self.after, self.safe, unchecked)


@dataclass(frozen=True, slots=True)
class ScatteredColumns:
    """Where the columns stand in a row of the source, and how their values are read."""

    at: tuple[int, ...]
    read: tuple[Callable[[Value], str | None], ...]
    kept: tuple[int, ...]  # all other columns
    names: tuple[str, ...]

    @classmethod
    def of(cls, table: TableName, wire: Sequence[Column], names: Sequence[str]) -> ScatteredColumns:
        """In rows of these columns; raises DMError `scatter-column-unfit`."""
        places = {column.name.lower(): at for at, column in enumerate(wire)}
        for name in names:
            at = places.get(name)
            if at is None or not (wire[at].type.is_text or wire[at].type.is_bytes):
                why = "there is no such column" if at is None else f"it is of type {wire[at].base.upper()}"
                raise DMError("scatter-column-unfit", table=table, column=name, why=why)
        at_all = tuple(places[name] for name in names)
        kept = tuple(at for at in range(len(wire)) if at not in at_all)
        return cls(at_all, tuple(_reader(wire[at]) for at in at_all), kept, tuple(names))

    def values(self, row: Row) -> tuple[str | None, ...]:
        """What the row says."""
        return tuple(read(row[at]) for at, read in zip(self.at, self.read, strict=True))

    def without(self, row: Row | None) -> Row | None:
        """The row without them."""
        return None if row is None else tuple([row[at] for at in self.kept])


def _reader(column: Column) -> Callable[[Value], str | None]:
    decode = None if column.charset is None else decoder_of(column.charset)

    def read(value: Value) -> str | None:
        if not isinstance(value, bytes):
            return None
        try:
            text = value.decode() if decode is None else decode(value)
        except UnicodeDecodeError:
            return None
        return None if text is None else column.type.without_padding(text)

    return read


@dataclass(slots=True)
class ScatteredTable:
    """One source table, and what its rows are in each table of the target."""

    table_map: TableMap  # kept alive: its identity is the key
    wire: Sequence[Column]
    decoder: RowDecoder
    columns: ScatteredColumns
    tables: Mapping[tuple[str | None, ...], SourceTable | TableName]  # the name of one that the target has not
    wanted_kinds: dict[RowEvent, bool]
    point: Position | None

    @property
    def name(self) -> TableName:
        """At the source."""
        return TableName(self.table_map.schema, self.table_map.table)

    @property
    def parts(self) -> Iterator[SourceTable]:
        """The tables that the target has."""
        return (table for table in self.tables.values() if isinstance(table, SourceTable))

    @property
    def plans(self) -> list[TablePlan]:
        """Those of all tables."""
        return [table.plan for table in self.parts]

    @property
    def memory(self) -> int:
        """About how many bytes it takes."""
        return sum(table.memory for table in self.parts)

    def placed(
        self, item: RowsItem, transaction: SourceTransaction, *, safe: bool, all_in_order: bool = False
    ) -> list[PlacedRow]:
        """The row changes of an event, each in its table, in the order of the event; raises DMError.

        `safe`: the transaction is in safe mode. `all_in_order`: each table is the ordered lane's.
        """
        kind, whole = KINDS[item.rows.kind], item.rows.whole
        found = list[PlacedRow]()
        try:
            for before, after in self.decoder.decode(item.rows):
                for table, what, *pair in self._of(kind, before, after):
                    in_order = all_in_order or table.plan.ordered
                    safely = table.safely(safe=safe, in_order=in_order)
                    first, second = (
                        pair if whole else completed_images(table.plan, [(pair[0], pair[1])], safe=safely)[0]
                    )
                    found.append(PlacedRow(table, what, first, second, in_order, safely))
        except DMError as error:
            error.position = error.position or str(transaction.end)
            raise
        return found

    def ordered_changes(
        self, item: RowsItem, transaction: SourceTransaction, *, safe: bool, begun: Callable[[TableName], bool]
    ) -> list[RowChange]:
        """The changes of an event for the ordered lane, in those tables of the target that it has begun with."""
        return [
            row.change(item)
            for row in self.placed(item, transaction, safe=safe, all_in_order=True)
            if begun(row.table.plan.target)
        ]

    def _of(
        self, kind: ChangeKind, before: Row | None, after: Row | None
    ) -> Iterator[tuple[SourceTable, ChangeKind, Row | None, Row | None]]:
        columns, without = self.columns, self.columns.without
        if before is None or after is None:
            row = after if before is None else before
            assert row is not None
            yield self._table(row), kind, without(before), without(after)
            return
        there = self._table(before)
        here = there
        if any(after[at] is not ABSENT for at in columns.at):
            here = self._table(tuple(completed(after, before)))
        if here is there:
            yield there, kind, without(before), without(after)
            return
        moved = without(completed(after, before))
        assert moved is not None
        missing = next((at for at, value in zip(columns.kept, moved, strict=True) if value is ABSENT), None)
        if missing is not None:
            raise DMError("partial-row-image", table=self.name, column=self.wire[missing].name)
        yield there, ChangeKind.DELETE, without(before), None
        yield here, ChangeKind.INSERT, None, moved

    def _table(self, row: Row) -> SourceTable:
        columns = self.columns
        lacking = next((at for at in columns.at if row[at] is ABSENT), None)
        if lacking is not None:
            raise DMError("partial-row-image", table=self.name, column=self.wire[lacking].name)
        values = columns.values(row)
        found = self.tables.get(values)
        if found is None:
            shown = ", ".join(map(repr, values))
            raise DMError("row-names-no-table", table=self.name, columns=", ".join(columns.names), value=shown)
        if isinstance(found, TableName):
            raise DMError("target-table-missing", table=str(found), unread="")
        return found

    def for_another_thread(self) -> ScatteredTable:
        """A copy with its own decoder: decoders learn while they decode."""
        return replace(self, decoder=RowDecoder(self.table_map, self.wire))


def scattered_values(scattering: Scattering, wire: Sequence[Column]) -> Mapping[tuple[str, ...], TableName]:
    """The tables by the values as they are read from rows of these columns."""
    types = {column.name.lower(): column.type for column in wire}
    of = [types[name] for name in scattering.columns]
    return {
        tuple(each.without_padding(value) for each, value in zip(of, values, strict=True)): table
        for values, table in scattering.tables.items()
    }
