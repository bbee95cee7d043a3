"""The statement that takes back one row change, from what the change left behind to what was there before.

    INSERT    a DELETE of the row
    DELETE    an INSERT of the row
    UPDATE    an UPDATE of the row that is there now to the row before (two of them where `equal_documents` says so)

Rows are found as the syncer finds them: by the key of the target, or by all columns where there is no key, and then
only one row goes. If an image lacks a column that the statement needs, there is no statement: a value is never guessed.
So an UPDATE needs the old value of each column that it wrote. `binlog_row_image = FULL` has them all, and so has
MariaDB's FULL_NODUP; MINIMAL has none but those of the key.
"""

from __future__ import annotations

from collections.abc import Sequence

from dm.binlog.value import ABSENT, Row
from dm.changes.column_map import MappedColumn
from dm.changes.equal_documents import equal_documents, in_arrays, make_others
from dm.changes.namesakes import exchanges
from dm.changes.plan import TablePlan
from dm.changes.statement import delete_row, has_zero_enum, insert_row, lenient_script, update_row
from dm.errors import DMError


def undo(plan: TablePlan, before: Row | None, after: Row | None) -> bytes:
    """The statement, or two of them, without the end; raises DMError if the images do not tell what was there."""
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
    return lenient_script(plan.flavor, sql, tidb=plan.tidb) if has_zero_enum(plan, row) else sql


def _require(plan: TablePlan, row: Row, columns: Sequence[MappedColumn]) -> None:
    for column in columns:
        if row[column.at] is ABSENT:
            raise DMError("flashback-partial-image", table=plan.source, column=column.source.name)
