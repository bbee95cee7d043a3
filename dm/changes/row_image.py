"""Row images that do not hold every column of the row: binlog_row_image MINIMAL and NOBLOB, MariaDB's FULL_NODUP.

Any session can choose its own, so such rows may come at any moment. A column that an image lacks is not NULL. Its value
depends on the change (measured on MySQL 9.7 and MariaDB 10.11):

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

from dm.changes.column_map import MappedColumn
from dm.changes.plan import TablePlan
from dm.changes.statement import key_changed
from dm.errors import DMError
from dm.mysql.binlog.decode import RowPair
from dm.mysql.binlog.value import ABSENT, Row, Value


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
