"""Everything derived from one table map: computed once, kept until a DDL.

Row images may lack columns (binlog_row_image MINIMAL and NOBLOB, MariaDB's FULL_NODUP). Any session can choose its own,
so such rows may come at any moment. A column that an image lacks is not NULL. Its value depends on the change (measured
on MySQL 9.7 and MariaDB 10.11):

    INSERT    its default as it was at the source
    UPDATE    before: not needed to find the row there; after: the same as before
    DELETE    not needed to find the row there

So an INSERT is exact if the default is NULL, which is written, or a literal that is also the target's default, which is
left to the target. (Images contain computed defaults, but nothing says that all versions do so.) An UPDATE or a DELETE
is exact if the image holds what finds the row at the target: its key, or the whole row if there is no key. A column
that an UPDATE lacks is set to itself if the target would set it to its own time (ON UPDATE CURRENT_TIMESTAMP). In safe
mode an UPDATE must leave all unique keys alone: moving a row needs the whole row, because the row may be missing at its
new place. A generated column that the target stores as a plain one must be in the image. Everything else pauses before
any row of the event is placed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from dm.changes.column_map import MappedColumn, with_constants
from dm.changes.native_changes import DirectTable, direct_table
from dm.changes.plan import TablePlan
from dm.changes.row_change import ChangeKind, RowChange
from dm.changes.statement import key_changed
from dm.errors import DMError
from dm.mysql.binlog.decode import RowDecoder, RowPair
from dm.mysql.binlog.image_proof import RawPair
from dm.mysql.binlog.table_map import TableMap
from dm.mysql.binlog.value import ABSENT, Row, Value
from dm.mysql.schema.table import Column
from dm.position import Position
from dm.rules.row_filter import RowFilter
from dm.rules.table_rules import RowEvent
from dm.sourcelog.stream.transaction import RowsItem, SourceTransaction

KINDS: dict[RowEvent, ChangeKind] = {
    "insert": ChangeKind.INSERT,
    "update": ChangeKind.UPDATE,
    "delete": ChangeKind.DELETE,
}
_NOT_RAW: Final[RawPair] = (None, None)
# Measured: the plan, the decoder, both structures and the table map.
_TABLE_COST: Final = 5_000
_COLUMN_COST: Final = 2_100


@dataclass(slots=True)
class SourceTable:
    """Decoder, plan and rules of one table."""

    table_map: TableMap  # kept alive: its identity is the key
    wire: Sequence[Column]
    decoder: RowDecoder
    plan: TablePlan
    wanted_kinds: dict[RowEvent, bool]
    row_filter: RowFilter | None
    point: Position | None
    exact: bool = False  # it is changed in order, and was so in earlier runs
    mistaken: tuple[str, ...] = ()  # other shards' columns: rows without them may match another shard's rows
    lost_key: bool = False  # the source's table has a key, the target's has none
    unconstrained: TablePlan | None = None  # for rows that the source wrote without checking CHECKs, if it matters

    @property
    def memory(self) -> int:
        """About how many bytes it takes."""
        return _TABLE_COST + _COLUMN_COST * len(self.wire)

    @property
    def plans(self) -> list[TablePlan]:
        """Its plan."""
        return [self.plan]

    @property
    def replays(self) -> bool:
        """Whether the ordered lane may apply its changes in safe mode."""
        return self.plan.keyed and not (self.plan.cascades or self.exact)

    def safely(self, *, safe: bool, in_order: bool) -> bool:
        """Whether its changes are applied in safe mode, where those of the transaction are: by its lane."""
        return safe and (self.replays or not in_order)

    def direct(self) -> DirectTable | None:
        """The table in the form of the compiled loop; None if the loop can't handle it."""
        if self.row_filter is not None or self.point is not None:
            return None
        kinds = {kind: KINDS[kind] if wanted else None for kind, wanted in self.wanted_kinds.items()}
        form = self.plan.events
        proving = None if form is None else form.proving
        judged = self.unconstrained is not None
        return direct_table(self.table_map, self.decoder.layouts, self.plan, kinds, proving, judged=judged)

    def plan_of(self, item: RowsItem) -> TablePlan:
        """The plan of an event's rows."""
        apart = self.unconstrained
        return self.plan if apart is None or not item.rows.constraints_unchecked else apart

    def pairs(self, item: RowsItem, transaction: SourceTransaction, *, safe: bool) -> list[RowPair]:
        """The rows of an event before and after; raises DMError."""
        try:
            pairs = self.decoder.decode(item.rows)
            if self.plan.constants:
                pairs = with_constants(pairs, self.plan.constants)
            return pairs if item.rows.whole else completed_images(self.plan, pairs, safe=safe)
        except DMError as error:
            error.position = error.position or str(transaction.end)
            raise

    def wanted(self, items: Sequence[RowsItem], transaction: SourceTransaction, *, safe: bool) -> list[list[RowPair]]:
        """For events of one kind and second, the rows of each that expression filters keep; raises DMError."""
        pairs = [self.pairs(item, transaction, safe=safe) for item in items]
        if self.row_filter is None:
            return pairs
        rows = items[0].rows
        try:
            skipped = iter(self.row_filter.skipped(rows.kind, [*chain.from_iterable(pairs)], rows.timestamp))
        except DMError as error:
            error.position = error.position or str(transaction.end)
            raise
        return [[pair for pair in of_event if not next(skipped)] for of_event in pairs]

    def raw_images(self, item: RowsItem, count: int, *, safe: bool) -> Sequence[RawPair]:
        """The images of an event's changes as the source wrote them; (None, None) if they go as SQL."""
        form = self.plan.events
        found = None if form is None or form.refused or safe else self.decoder.images(item.rows)
        return [_NOT_RAW] * count if found is None else found

    def ordered_changes(self, item: RowsItem, transaction: SourceTransaction, *, safe: bool) -> list[RowChange]:
        """The wanted changes of an event, for the ordered lane; not in safe mode where that is forbidden."""
        kind = KINDS[item.rows.kind]
        safe = self.safely(safe=safe, in_order=True)
        unchecked = self.unchecked(item, safe=safe)
        (pairs,) = self.wanted((item,), transaction, safe=safe)
        raws, plan = self.raw_images(item, len(pairs), safe=safe), self.plan_of(item)
        return [
            RowChange(plan, kind, before, after, safe, unchecked, raw_before=raw_before, raw_after=raw_after)
            for (before, after), (raw_before, raw_after) in zip(pairs, raws, strict=True)
        ]

    def unchecked(self, item: RowsItem, *, safe: bool) -> bool:
        """Whether foreign keys are not checked: the source did not, or rows of two moments may exist together."""
        return self.plan.linked and (safe or item.rows.foreign_keys_unchecked)

    def for_another_thread(self) -> SourceTable:
        """A copy with its own decoder: decoders learn while they decode."""
        decoder = RowDecoder(self.table_map, self.wire)
        if self.plan.events is not None:
            decoder.prove(self.plan.events.proofs)
        return replace(self, decoder=decoder)


def completed_images(plan: TablePlan, pairs: Sequence[RowPair], *, safe: bool) -> list[RowPair]:
    """The row changes of one event with partial images; raises DMError if they can't be applied exactly."""
    return [_completed(plan, before, after, safe) for before, after in pairs]


def _completed(plan: TablePlan, before: Row | None, after: Row | None, safe: bool) -> RowPair:
    if before is None:
        assert after is not None
        return None, _inserted(plan, after)
    _require(plan, before, plan.row_key + plan.identity if plan.keyed else plan.columns)
    if after is not None:
        _require(plan, after, [column for column in plan.columns if column.source.generated])
        if safe and plan.keyed and any(value is ABSENT for value in after) and key_changed(plan, before, after):
            raise _missing(plan, next(column for column in plan.columns if after[column.at] is ABSENT))
    return before, after


def _inserted(plan: TablePlan, row: Row) -> Row:
    filled: list[Value] = list(row)
    for column in plan.columns:
        if row[column.at] is not ABSENT:
            continue
        source = column.source
        if source.generated:
            raise _missing(plan, column)
        if source.default is None and source.nullable:
            filled[column.at] = None
        elif column.at not in plan.defaults_agree:
            raise _missing(plan, column)
    return tuple(filled)


def _require(plan: TablePlan, row: Row, columns: Sequence[MappedColumn]) -> None:
    for column in columns:
        if row[column.at] is ABSENT:
            raise _missing(plan, column)


def _missing(plan: TablePlan, column: MappedColumn) -> DMError:
    return DMError("partial-row-image", table=plan.source, column=column.source.name)
