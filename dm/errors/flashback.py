"""Errors of `dmctl flashback`: a stretch of the relay that can't be taken back."""

from dm.errors.kind import ErrorKind

KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        "flashback-without-relay", 48951, "dmctl", "internal", "medium",
        "there is no relay of source {source} here",
        "`dmctl start-relay -s {source}` stores the source's binlog from then on; what it did before can't be taken "
        "back",
    ),
    ErrorKind(
        "flashback-without-checkpoint", 48952, "dmctl", "internal", "medium",
        "task {task} has no checkpoint of source {source}: nothing tells what the target has",
        "ask when its syncer has run: `dmctl query-status {task}`",
    ),
    ErrorKind(
        "flashback-ahead", 48953, "dmctl", "internal", "medium",
        "the stretch ends at {place}, and what the target has is known up to {checkpoint}",
        "leave --to out, or wait for the next checkpoint (`checkpoint-flush-interval`; `dmctl stop-task` stores one)",
    ),
    ErrorKind(
        "flashback-relay-younger", 48954, "dmctl", "internal", "medium",
        "the relay's files begin at {place}, and it is not known whether that lies before {time}",
        "give that place, or a later time, as --from",
    ),
    ErrorKind(
        "flashback-relay-behind", 48955, "dmctl", "internal", "medium",
        "the relay of source {source} ends at {there}, and the target is at {wanted}",
        "let the relay catch up: `dmctl query-status -s {source}` tells how far it is",
    ),
    ErrorKind(
        "flashback-ddl", 48956, "dmctl", "internal", "medium",
        "rows of {tables} can't be taken back: behind them, at {place}, the source executed: {statement}",
        "begin behind it (--from {behind}), or name the other tables with --tables. What it did to rows and columns "
        "only a backup has",
    ),
    ErrorKind(
        "flashback-partial-image", 48957, "dmctl", "upstream", "medium",
        "the binlog does not tell what {column} of {table} was before: the row image lacks it",
        "`SET GLOBAL binlog_row_image = FULL` at the source for the future; leave the table out with --tables",
    ),
    ErrorKind(
        "flashback-cascade", 48958, "dmctl", "upstream", "medium",
        "a change of {table} has changed rows of other tables by their foreign keys, which the source's binlog lacks",
        "leave the table out with --tables, and take such rows from a backup",
    ),
    ErrorKind(
        "flashback-unwritable", 48959, "dmctl", "internal", "medium",
        "{file} can't be written",
        "name a directory with --sql that the daemon's user can write to, and free disk space",
    ),
    ErrorKind(
        "flashback-file-there", 48963, "dmctl", "internal", "medium",
        "{file} is there already, and is not written over",
        "name another directory with --sql, or move the file away",
    ),
    ErrorKind(
        "flashback-of-several-sources", 48960, "dmctl", "internal", "medium",
        "a place of one binlog is no place of the others: task {task} has the sources {sources}",
        "name one source with -s, or give times",
    ),
    ErrorKind(
        "flashback-without-sync", 48961, "dmctl", "internal", "medium",
        "task {task} has the task-mode {mode}: it applies no binlog",
        "name a task that syncs",
    ),
    ErrorKind(
        "flashback-table-ahead", 48962, "dmctl", "internal", "medium",
        "{table} is ahead at the target: it has everything up to {point}, and the checkpoint is at {checkpoint}",
        "let the task run until its checkpoint has passed that place (`dmctl resume-task {task}`; `dmctl query-status "
        "{task}` tells the checkpoint), or name the other tables with --tables",
    ),
)  # fmt: skip
