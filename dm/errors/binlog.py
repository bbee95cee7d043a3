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
        "`syncers` to {wanted}: `dmctl stop-task`, then `dmctl start-task` with the changed file. Else find out who "
        "answers in the source's name",
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
        + ", or exclude the table with `block-allow-list`",
    ),
    ErrorKind(
        "row-corrupt",
        22904,
        "binlog-op",
        "upstream",
        "high",
        "a row of {table} in the binlog can't be read: {what}",
        "the bytes are damaged (see the position with `mysqlbinlog --verify-binlog-checksum`), or the table's structure"
        " at this position is not the tracked one: " + LOAD_AGAIN,
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
        "`block-allow-list`: " + WITH_NEW_FILE + "; or " + START_LATER,
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
)
