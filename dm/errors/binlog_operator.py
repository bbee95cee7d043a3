"""Errors of `dmctl binlog` and `dmctl binlog-schema`."""

from dm.errors.kind import ErrorKind

KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        "operator-position-unreadable", 11118, "functional", "internal", "low",
        "invalid --binlog-pos {text}: it is not of the form mysql-bin.000001:1234",
        "take file and position from the error message of `dmctl query-status`",
    ),
    ErrorKind(
        "operator-statement-unreadable", 36017, "sync-unit", "internal", "high",
        "the statement is not understood ({why}): {statement}",
        "give DDL statements that the target understands, separated by `;`",
    ),
    ErrorKind(
        "operator-without-schema", 36024, "sync-unit", "internal", "low",
        "injected DDL {statement} without schema name not valid",
        "write every table as `schema`.`table`, under the names that the source has",
    ),
    ErrorKind(
        "operator-not-ddl", 36064, "sync-unit", "internal", "high",
        "only DDL can replace a statement or be injected: {statement}",
        "execute what is no DDL at the target by hand, then `dmctl binlog skip {task}`",
    ),
    ErrorKind(
        "operator-missing", 36065, "sync-unit", "internal", "low",
        "error operator not exist, position: {place}",
        "`dmctl binlog list {task}` shows the operators; one that was executed can't be reverted",
    ),
    ErrorKind(
        "no-failing-event", 36950, "sync-unit", "internal", "low",
        "source {source} has no error",
        "name the event's position with `--binlog-pos`; see `dmctl query-status {task}`",
    ),
    ErrorKind(
        "failing-event-without-statement", 36951, "sync-unit", "internal", "medium",
        "the failing event of source {source} at {place} has rows, no statement: it can't be skipped or replaced",
        "rows are never skipped: correct the target, or `dmctl binlog inject {task}` the DDL that makes it fit",
    ),
    ErrorKind(
        "operator-too-late", 36952, "sync-unit", "internal", "medium",
        "the event at {place} lies before {now}: it is already applied, or is being applied now",
        "it can't be skipped any more; `dmctl query-status {task}` shows where the task is",
    ),
    ErrorKind(
        "operator-without-statement", 36953, "sync-unit", "internal", "high",
        "`binlog {action}` at {place} names no statement, but {there}",
        "`dmctl binlog revert {task} --binlog-pos {place}`, and give it again for the start of a statement, which "
        "mysqlbinlog shows as `# at`",
    ),
    ErrorKind(
        "failing-event-under-way", 36954, "sync-unit", "internal", "low",
        "task {task} was resumed on source {source}, and the event at {place} is being applied now",
        "`dmctl query-status {task}` shows how it goes: if it fails again, give this command again",
    ),
    ErrorKind(
        "task-not-syncing", 40056, "dm-worker", "internal", "medium",
        "such operation is only available for the Sync unit, but subtask {task} on source {source} is in unit {unit}",
        "wait until the load is finished; `dmctl query-status {task}` shows it",
    ),
    ErrorKind(
        "task-not-paused", 40051, "dm-worker", "internal", "medium",
        "subtask {task} on source {source} is not paused: its stage is {stage}",
        "`dmctl pause-task {task}` first",
    ),
    ErrorKind(
        "tracked-structure-missing", 44005, "schema-tracker", "internal", "high",
        "no structure of {table} is tracked for source {source}",
        "dm learns it with the table's first rows; `dmctl binlog-schema update {task}` sets it",
    ),
    ErrorKind(
        "structure-statement-invalid", 44009, "schema-tracker", "internal", "medium",
        "this is not a valid CREATE TABLE statement ({why}): {statement}",
        "give a file with one CREATE TABLE as `SHOW CREATE TABLE` prints it at the source",
    ),
    ErrorKind(
        "structure-not-there", 44014, "schema-tracker", "internal", "medium",
        "the {role} has no table {table}",
        "take the structure from a file, or from the other side (`--from-source`, `--from-target`)",
    ),
    ErrorKind(
        "structure-order-differs", 44015, "schema-tracker", "internal", "medium",
        "the target has the columns of {table} in another order ({theirs}) than the source ({ours}), and rows in the "
        "binlog have the source's order: values would go into the wrong columns",
        "take the structure from the source (`--from-source`); or, if the source's table had another structure at the "
        "task's position, from a file with that CREATE TABLE",
    ),
)  # fmt: skip
