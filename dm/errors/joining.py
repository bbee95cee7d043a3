"""Errors of tables that are loaded beside a running task, and join it."""

from dm.errors.kind import ErrorKind

KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        "joining-exists",
        46920,
        "scheduler",
        "internal",
        "medium",
        "task {task} is loading tables of source {source} already",
        "let them join first, `dmctl query-status {task}` shows how far they are; or take them back by `--cancel`",
    ),
    ErrorKind(
        "joining-refused",
        46921,
        "scheduler",
        "internal",
        "medium",
        "table {table} can't be loaded while task {task} runs: {why}",
        "{way}",
    ),
    ErrorKind(
        "joining-not-there",
        46922,
        "scheduler",
        "internal",
        "medium",
        "task {task} loads no table beside its stream",
        "`dmctl query-status {task}` shows its state",
    ),
    ErrorKind(
        "joining-too-late",
        46923,
        "scheduler",
        "internal",
        "medium",
        "the rows of {tables} are gone from the target of task {task}, and only the load that is under way brings them"
        " back",
        "let it go on, `dmctl query-status {task}` shows how far it is; or begin it again with the same `dmctl"
        " reload-table`",
    ),
    ErrorKind(
        "joining-without-sync",
        46924,
        "scheduler",
        "internal",
        "medium",
        "task {task} does not follow source {source} now ({state})",
        "wait until its first load has ended and it follows the source, then ask again",
    ),
    ErrorKind(
        "joining-validated",
        46927,
        "scheduler",
        "internal",
        "medium",
        "task {task} is validated on source {sources}, and rows of tables that are loaded beside it would look missing",
        "`dmctl validation stop {task}` until the tables have joined",
    ),
    ErrorKind(
        "update-refused",
        46925,
        "scheduler",
        "internal",
        "medium",
        "task {task} can't get this while it runs: {keys}",
        "`dmctl stop-task {task}` and `dmctl start-task` with the file: it then holds for what comes from there on",
    ),
    ErrorKind(
        "update-file-unknown",
        46926,
        "scheduler",
        "internal",
        "medium",
        "the file that task {task} had before its list got more tables is not known here",
        "let the tables join, `dmctl query-status {task}` shows how far they are; or cancel it where it was asked for",
    ),
    ErrorKind(
        "ddl-while-joining",
        36963,
        "sync-unit",
        "internal",
        "high",
        "tables of the schema are being loaded beside the task, and this statement drops it: {statement}",
        "`dmctl binlog skip` leaves the statement out; once the tables have joined, drop the schema there by hand",
    ),
)
