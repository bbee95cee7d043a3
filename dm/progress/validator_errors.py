"""Rows that a validator has found wrong, and the stages of its tables.

An error has one of DM's states: new, ignored or resolved. A row that is found wrong again, as it was, keeps its state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from dm.downstream.connection import TargetConnection
from dm.ident import TableName
from dm.progress.lane_rows import transaction
from dm.progress.owner import OwnRun
from dm.progress.tables import SubtaskKey, reads
from dm.progress.validator import ValidatorTables, demand_epoch

ErrorState = Literal["new", "ignored", "resolved"]
ErrorKind = Literal["deleted", "missing", "different"]
Operation = Literal["ignore", "resolve", "clear"]
TableStage = Literal["Running", "Stopped"]

_STATES: Final[dict[ErrorState, int]] = {"new": 1, "ignored": 2, "resolved": 3}  # DM's numbers
_KINDS: Final[dict[ErrorKind, int]] = {"deleted": 1, "missing": 2, "different": 3}


@dataclass(frozen=True, slots=True)
class RowError:
    """A row that is wrong at the target."""

    source: TableName
    target: TableName
    row_pk: str
    kind: ErrorKind
    data: str  # JSON of the row as the source has it, by column; `null` where it must not be there
    target_data: str
    message: str
    fix: str  # SQL, or why there is none


@dataclass(frozen=True, slots=True)
class StoredError:
    """One that is stored."""

    number: int
    source_id: str
    row: RowError
    state: ErrorState
    time: str


@dataclass(frozen=True, slots=True)
class TableStatus:
    """Whether a table's rows are validated, and if not, why."""

    source: TableName
    target: TableName
    stage: TableStage = "Running"
    message: str = ""


def write_errors(connection: TargetConnection, key: SubtaskKey, own: OwnRun, errors: Sequence[RowError]) -> None:
    """Store errors in a transaction of their own; raises DMError `validator-fenced` for an older run."""
    tables = ValidatorTables.of(key)
    with transaction(connection):
        demand_epoch(connection, key, own)
        same = "data = VALUES(data) AND dst_data = VALUES(dst_data) AND error_type = VALUES(error_type)"
        for error in errors:
            connection.execute(
                f"INSERT INTO {tables.error.sql} (source, src_schema_name, src_table_name, row_pk, dst_schema_name,"
                " dst_table_name, data, dst_data, message, fix, error_type, status)"
                f" VALUES ({', '.join(['%s'] * 12)}) ON DUPLICATE KEY UPDATE status = IF({same}, status,"
                " VALUES(status)), src_schema_name = VALUES(src_schema_name), src_table_name = VALUES(src_table_name),"
                " data = VALUES(data), dst_data = VALUES(dst_data), message = VALUES(message), fix = VALUES(fix),"
                " error_type = VALUES(error_type)",
                (
                    key.source_id, *error.source, error.row_pk, *error.target, error.data, error.target_data,
                    error.message, error.fix, _KINDS[error.kind], _STATES["new"],
                ),
            )  # fmt: skip


@reads(lambda key: ValidatorTables.of(key).error)
def read_errors(connection: TargetConnection, key: SubtaskKey, states: Iterable[ErrorState]) -> list[StoredError]:
    """The errors of a subtask in these states, the oldest first."""
    numbers = [_STATES[state] for state in states]
    rows = connection.query(
        "SELECT id, src_schema_name, src_table_name, dst_schema_name, dst_table_name, row_pk, error_type, data,"
        f" dst_data, message, fix, status, update_time FROM {ValidatorTables.of(key).error.sql}"
        f" WHERE source = %s AND status IN ({', '.join(['%s'] * len(numbers))}) ORDER BY id",
        (key.source_id, *numbers),
    )
    kinds = {number: kind for kind, number in _KINDS.items()}
    names = {number: state for state, number in _STATES.items()}
    return [
        StoredError(
            int(row[0]),
            key.source_id,
            RowError(
                TableName(str(row[1]), str(row[2])), TableName(str(row[3]), str(row[4])), str(row[5]),
                kinds[int(row[6])], str(row[7]), str(row[8]), str(row[9]), str(row[10]),
            ),
            names[int(row[11])],
            str(row[12]),
        )
        for row in rows
    ]  # fmt: skip


@reads(lambda key: ValidatorTables.of(key).error)
def count_errors(connection: TargetConnection, key: SubtaskKey) -> dict[ErrorState, int]:
    """How many errors of a subtask there are, by state."""
    rows = connection.query(
        f"SELECT status, COUNT(*) FROM {ValidatorTables.of(key).error.sql} WHERE source = %s GROUP BY status",
        (key.source_id,),
    )
    found = {int(state): int(count) for state, count in rows}
    return {state: found.get(number, 0) for state, number in _STATES.items()}


def change_errors(connection: TargetConnection, key: SubtaskKey, operation: Operation, number: int | None) -> int:
    """Ignore, resolve or forget one error of a subtask, or all of them; gives how many there were."""
    table = ValidatorTables.of(key).error.sql
    where, values = "source = %s", [str(key.source_id)]
    if number is not None:
        where += " AND id = %s"
        values.append(str(number))
    if operation == "clear":
        found = connection.execute(f"DELETE FROM {table} WHERE {where}", values)
    else:
        state = _STATES["ignored" if operation == "ignore" else "resolved"]
        found = connection.run(f"UPDATE {table} SET status = {state} WHERE {where}", values).matched
    connection.commit()
    return found


def write_table_status(connection: TargetConnection, key: SubtaskKey, status: TableStatus) -> None:
    """Store the stage of a table."""
    connection.execute(
        f"REPLACE INTO {ValidatorTables.of(key).status.sql} (source, src_schema_name, src_table_name,"
        " dst_schema_name, dst_table_name, stage, message) VALUES (%s, %s, %s, %s, %s, %s, %s)",
        (key.source_id, *status.source, *status.target, status.stage, status.message),
    )
    connection.commit()


@reads(lambda key: ValidatorTables.of(key).status)
def read_table_status(connection: TargetConnection, key: SubtaskKey) -> list[TableStatus]:
    """The stages of a subtask's tables."""
    rows = connection.query(
        "SELECT src_schema_name, src_table_name, dst_schema_name, dst_table_name, stage, message"
        f" FROM {ValidatorTables.of(key).status.sql} WHERE source = %s ORDER BY 1, 2",
        (key.source_id,),
    )
    return [
        TableStatus(
            TableName(str(row[0]), str(row[1])),
            TableName(str(row[2]), str(row[3])),
            "Stopped" if row[4] == "Stopped" else "Running",
            str(row[5]),
        )
        for row in rows
    ]
