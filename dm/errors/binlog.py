"""Errors of reading binlog events."""

from dm.errors.kind import ErrorKind

KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        "event-corrupt",
        22900,
        "binlog-op",
        "upstream",
        "high",
        "binlog event {event} ending at {end} can't be read: {what}",
        "the bytes are damaged or of a version this program does not know; compare with `mysqlbinlog"
        " --verify-binlog-checksum` on the source's file; a damaged relay log is pulled again after `dmctl stop-relay`"
        " and removing the file",
    ),
    ErrorKind(
        "checksum-mismatch",
        22901,
        "binlog-op",
        "upstream",
        "high",
        "binlog event {event} ending at {end} does not match its checksum",
        "the bytes were damaged on disk or on the way; read them again: resume the task, or remove the relay log file",
    ),
    ErrorKind(
        "event-unknown",
        22902,
        "binlog-op",
        "upstream",
        "high",
        "binlog event type {type} is not known and the server did not mark it as ignorable",
        "the source uses a feature this version does not know; ignoring the event could lose changes",
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
        "row-layout-mismatch",
        22906,
        "sync-unit",
        "internal",
        "high",
        "the binlog's rows of {table} do not fit the table structure tracked for this position: {why}",
        "check the structure with `dmctl binlog-schema list`, then set the one of this position with `dmctl"
        " binlog-schema update`, and resume the task",
    ),
    ErrorKind(
        "row-corrupt",
        22904,
        "binlog-op",
        "upstream",
        "high",
        "a row of {table} in the binlog can't be read: {what}",
        "the bytes are damaged, or the table structure tracked for this position is not the true one"
        " (`dmctl binlog-schema list`)",
    ),
    ErrorKind(
        "statement-undecodable",
        22905,
        "binlog-op",
        "upstream",
        "high",
        "a statement in the binlog is not valid text of its client character set {charset}",
        "look at the statement with `mysqlbinlog` and replace it with `dmctl binlog replace`, or skip it",
    ),
)
