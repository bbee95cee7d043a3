"""Errors of tables that are loaded beside a running task, and join it."""

from typing import Final

from dm.errors.kind import ErrorKind

OF_TABLES: Final = frozenset(
    {
        # A row that is refused, missing or in the way.
        "statement-failed", "json-too-deep", "row-check-refused", "row-expression-failed", "row-value-refused",
        "row-partition-missing", "row-reference-refused", "row-missing", "duplicate-key", "value-changed",
        "member-missing", "own-key-met", "computed-key-met", "computed-value-differs", "computed-key-differs",
        "packet-too-large", "target-limit", "json-value-inexpressible", "row-corrupt", "partial-row-image",
        "replay-out-of-order",
        # A statement that fails, or can't be followed.
        "ddl-failed", "ddl-collation-unknown", "ddl-values-differ", "ddl-partitions-differ", "ddl-charset-unclear",
        "ddl-constraint-unclear", "ddl-column-kept", "ddl-untrackable", "ddl-splice-mismatch", "ddl-filter-cuts",
        "ddl-cascade-not-logged", "ddl-defect", "ddl-within-dump", "ddl-outcome-unclear", "column-type-unknown",
        "structure-not-understood", "online-ddl-unknown", "online-ddl-different", "event-refused",
        # A structure that disagrees.
        "structure-mismatch", "structure-unknown", "row-layout-mismatch", "column-missing", "target-table-altered",
        "columns-narrower", "target-table-missing", "target-table-unsuitable", "time-zone-unknown",
        "expression-zone-unknown",
    }
)  # fmt: skip
"""Errors that concern certain tables of the source: with `on-error: table` these leave the stream for them."""

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
        "ddl-beside",
        46943,
        "sync-unit",
        "internal",
        "low",
        "this statement may take long, and leaves the stream with its table (`ddl-beside-rows`): {statement}",
        "nothing is to be done: the table comes back by itself",
    ),
    ErrorKind(
        "branch-not-there",
        46940,
        "scheduler",
        "internal",
        "medium",
        "table {table} of task {task} is not aside",
        "`dmctl table list {task}` shows the tables that are",
    ),
    ErrorKind(
        "branch-moves",
        46941,
        "scheduler",
        "internal",
        "medium",
        "tables {tables} of task {task} do not rest aside: {phase}",
        "`dmctl table list {task}` shows how far they are; what rests can be released or dropped, and `dmctl"
        " reload-table` loads again what is dropped",
    ),
    ErrorKind(
        "branch-refused",
        46942,
        "scheduler",
        "internal",
        "medium",
        "table {table} can't be moved while task {task} runs: {why}",
        "`dmctl table list {task}` shows the tables that are aside, `dmctl query-status {task}` those that are loaded;"
        " to stop all tables, `dmctl pause-task {task}`",
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
