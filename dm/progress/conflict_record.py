"""The record of conflicts that one side has won: a row at the target for each, committed with what it tells of.

A task with `conflicts: target-wins` records each write of its source that it leaves out: that is every conflict of the
pair. One with `source-wins` records each row of the target that it sets although it is not what the source had. The
images are the user's data, as literals; `conflict-rows: omit` keeps the values of the key alone. Long values are cut.
Rows stay until a person removes them (`dmctl clear-conflicts`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dm.changes.plan import TablePlan
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.mysql.binlog.value import ABSENT, Row, Value
from dm.mysql.sql.literal import quoted
from dm.position import Position
from dm.progress.opposite_sources import NO_TABLE
from dm.progress.tables import CHARSET, SubtaskKey
from dm.session.answers import reads_answers
from dm.unit import JSON

_RECORD: Final = """CREATE TABLE IF NOT EXISTS {table} (
    number BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    id VARCHAR(32) NOT NULL,
    recorded TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    winner VARCHAR(8) NOT NULL,
    table_schema VARCHAR(64) NOT NULL,
    table_name VARCHAR(64) NOT NULL,
    operation VARCHAR(8) NOT NULL,
    row_key LONGTEXT NOT NULL,
    source_before LONGTEXT,
    source_after LONGTEXT,
    target_row LONGTEXT,
    source_place VARCHAR(255) NOT NULL,
    target_place VARCHAR(255) NOT NULL,
    PRIMARY KEY (number)
) ENGINE=InnoDB {charset}"""
_COLUMNS: Final = (
    "id", "winner", "table_schema", "table_name", "operation", "row_key", "source_before", "source_after",
    "target_row", "source_place", "target_place",
)  # fmt: skip
_LONGEST: Final = 1 << 16  # characters of a value
_TOGETHER: Final = 100

Image = dict[str, str]
"""A row: the literal of each column's value, by the target's names."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """One row, written on both sides."""

    winner: str  # source or target
    plan: TablePlan
    operation: str  # of the source
    key: Image
    before: Image | None  # the source's row; None: no row
    after: Image | None
    found: Image | None  # the target's row
    source: Position  # the end of the source's transaction
    target: str  # where the target's binlog has its write, if that is known


def create_record(connection: TargetConnection, key: SubtaskKey) -> None:
    """Create the table; raises DMError."""
    connection.execute(_RECORD.format(table=key.conflicts.sql, charset=CHARSET))


def image_of(plan: TablePlan, row: Row | None) -> Image | None:
    """A row of the source, as the target would have it."""
    if row is None:
        return None
    return {
        column.target.name: _cut(column.encode(row[column.at]))
        for column in plan.columns
        if row[column.at] is not ABSENT
    }


def key_image(plan: TablePlan, row: Row) -> Image:
    """The values by which a row is found."""
    return {column.target.name: _cut(column.encode(row[column.at])) for column in plan.row_key}


@reads_answers
def row_found(connection: TargetConnection, plan: TablePlan, condition: bytes) -> Image | None:
    """The target's row that a condition finds; None if there is none. Raises DMError."""
    names = b",".join([column.sql for column in plan.columns])
    rows = connection.query(
        b"SELECT " + names + b" FROM " + plan.target.sql.encode() + b" WHERE " + condition + b" LIMIT 1"
    )
    if not rows:
        return None
    return {column.target.name: _cut(_literal(value)) for column, value in zip(plan.columns, rows[0], strict=True)}


def _literal(value: Value) -> bytes:
    if value is None:
        return b"NULL"
    if isinstance(value, bytes):
        try:
            value.decode()
        except UnicodeDecodeError:
            return b"0x" + value.hex().encode()
        return quoted(value)
    return quoted(value.encode()) if isinstance(value, str) else str(value).encode()


def _cut(literal: bytes) -> str:
    text = literal.decode("utf-8", "backslashreplace")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} characters)"


def store_conflicts(
    connection: TargetConnection, key: SubtaskKey, conflicts: Sequence[Conflict], *, rows: bool
) -> None:
    """Inside the open transaction: store conflicts, with their rows or without; raises DMError."""
    names, places = ", ".join(_COLUMNS), ", ".join(["%s"] * len(_COLUMNS))

    def text(image: Image | None) -> str | None:
        return json.dumps(image) if rows else None

    for at in range(0, len(conflicts), _TOGETHER):
        some = conflicts[at : at + _TOGETHER]
        connection.execute(
            f"INSERT INTO {key.conflicts.sql} ({names}) VALUES {', '.join([f'({places})'] * len(some))}",
            tuple(
                value
                for each in some
                for value in (
                    key.source_id, each.winner, *each.plan.target, each.operation, json.dumps(each.key),
                    text(each.before), text(each.after), text(each.found), str(each.source), each.target,
                )
            ),
        )  # fmt: skip


@reads_answers
def read_conflicts(connection: TargetConnection, key: SubtaskKey, most: int) -> tuple[int, list[dict[str, JSON]]]:
    """How many conflicts are recorded of a source, and the last ones of them, newest first; raises DMError."""
    try:
        count = int(connection.query(f"SELECT COUNT(*) FROM {key.conflicts.sql} WHERE id = %s", (key.source_id,))[0][0])
        rows = connection.query(
            "SELECT number, UNIX_TIMESTAMP(recorded), winner, table_schema, table_name, operation, row_key,"
            f" source_before, source_after, target_row, source_place, target_place FROM {key.conflicts.sql}"
            f" WHERE id = %s ORDER BY number DESC LIMIT {most}",
            (key.source_id,),
        )
    except DMError as error:
        if error.server_errno not in NO_TABLE:
            raise
        return 0, []
    return count, [_told(key.source_id, *row) for row in rows]


def _told(source_id: str, *row: Any) -> dict[str, JSON]:
    number, at, winner, schema, table, operation, row_key, before, after, found, source, target = row
    return {
        "number": int(str(number)),
        "source": source_id,
        "at": int(float(str(at))),
        "winner": str(winner),
        "table": f"{schema}.{table}",
        "operation": str(operation),
        "key": json.loads(str(row_key)),
        "sourceBefore": _image(before),
        "sourceAfter": _image(after),
        "targetRow": _image(found),
        "sourcePlace": str(source),
        "targetPlace": str(target),
    }


def _image(text: Any) -> JSON:
    return "not kept" if text is None else json.loads(str(text)) or "no row"


def clear_conflicts(connection: TargetConnection, keys: Iterable[SubtaskKey]) -> int:
    """Remove what is recorded of these sources; gives how many. Raises DMError."""
    removed = 0
    for key in keys:
        try:
            removed += connection.execute(f"DELETE FROM {key.conflicts.sql} WHERE id = %s", (key.source_id,))
        except DMError as error:
            if error.server_errno not in NO_TABLE:
                raise
    connection.commit()
    return removed
