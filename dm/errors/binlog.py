"""Errors of reading binlog events."""

from dm.errors.kind import LOAD_AGAIN, START_LATER, WITH_NEW_FILE, ErrorKind

KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        "event-corrupt",
        22900,
        "binlog-op",
        "upstream",
        "high",
        "binlog event {event} ending at {end} can't be read: {what}",
        "the bytes are damaged or of a version that dm does not know; check the source's file with `mysqlbinlog "
        "--verify-binlog-checksum`; to fetch a damaged relay file again, `dmctl stop-relay` and remove the file",
    ),
    ErrorKind(
        "checksum-mismatch",
        22901,
        "binlog-op",
        "upstream",
        "high",
        "binlog event {event} ending at {end} does not match its checksum",
        "the bytes were damaged on disk or in transit; read them again: resume the task, or remove the relay file",
    ),
    ErrorKind(
        "event-unknown",
        22902,
        "binlog-op",
        "upstream",
        "high",
        "binlog event type {type} is unknown, and the server did not mark it as ignorable",
        "the source uses a feature that this version does not know; ignoring the event could lose changes",
    ),
    ErrorKind(
        "event-unsupported",
        22903,
        "binlog-op",
        "upstream",
        "high",
        "binlog event {event} can't be replicated: {why}",
        "{way_out}",
    ),
    ErrorKind(
        "event-unpacks-too-large",
        22910,
        "binlog-op",
        "upstream",
        "high",
        "{event} of the binlog has {size} bytes when it is unpacked, and came in {packed}",
        "an event has to be in memory whole. Where the source really has a row of that size, raise `memory-quota` of "
        "`syncers` to {wanted}: `dmctl stop-task`, then `dmctl start-task` with the changed file. Else find out which "
        "program answers in the source's name",
    ),
    ErrorKind(
        "row-layout-mismatch",
        22906,
        "sync-unit",
        "internal",
        "high",
        "rows of {table} in the binlog do not match the structure tracked for this position: {why}",
        "a DDL was not replicated, or the start position is wrong: "
        + LOAD_AGAIN
        + ", or exclude the table with `block-allow-list`", of_tables=True,
    ),
    ErrorKind(
        "row-corrupt",
        22904,
        "binlog-op",
        "upstream",
        "high",
        "a row of {table} in the binlog can't be read: {what}",
        "the bytes are damaged (see the position with `mysqlbinlog --verify-binlog-checksum`), or the table's structure"
        " at this position is not the tracked one: " + LOAD_AGAIN, of_tables=True,
    ),
    ErrorKind(
        "statement-undecodable",
        22905,
        "binlog-op",
        "upstream",
        "high",
        "a statement in the binlog is not valid text of its client character set {charset}",
        "see the statement with `mysqlbinlog` at the position; `dmctl binlog replace` executes the same statement in"
        " valid text instead, `dmctl binlog skip` leaves it out if the target need not have it; or " + START_LATER,
    ),
    ErrorKind(
        "statement-charset-unclear",
        22909,
        "binlog-op",
        "upstream",
        "high",
        "a statement of the source is in UTF-8 or in its client's character set, and neither the"
        " binlog nor the source tells now which: {statement}",
        "`dmctl binlog replace` with the statement as it is meant, this one or: {other}",
    ),
    ErrorKind(
        "json-value-inexpressible",
        22907,
        "sync-unit",
        "downstream",
        "high",
        "a JSON document in column {column} has a value of column type {type}, which no SQL expression can make",
        "at the source, write values of this column type as text or base64, or exclude the table with "
        "`block-allow-list`: " + WITH_NEW_FILE + "; or " + START_LATER, of_tables=True,
    ),
    ErrorKind(
        "statement-failed-at-source",
        22908,
        "sync-unit",
        "upstream",
        "high",
        "a statement ended with error {code} at the source and may be executed only in part: {statement}",
        "compare the tables it names, bring the target to the source's state by hand, then `dmctl binlog skip`",
    ),
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
        "`dmctl binlog list {task}` shows the operators; an executed operator can't be reverted",
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
