"""Errors of comparing sources with the target."""

from dm.errors.kind import ErrorKind

KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        "diff-table-unknown", 48941, "dmctl", "internal", "medium",
        "no table of the sources is migrated into {tables}",
        "name tables of the target as `schema.table` with --tables",
    ),
    ErrorKind(
        "diff-fix-unwritable", 48942, "dmctl", "internal", "medium",
        "{file} can't be written",
        "name a directory with --fix-sql that the daemon's user can write to",
    ),
    ErrorKind(
        "diff-fix-busy", 48948, "dmctl", "internal", "medium",
        "another comparison writes its statements into {directory}",
        "name another directory with --fix-sql, or wait until it has ended",
    ),
    ErrorKind(
        "diff-progress-unwritable", 48944, "dmctl", "internal", "medium",
        "{file} can't be written",
        "let the daemon's user write to its home directory, and free disk space",
    ),
    ErrorKind(
        "diff-unknown", 48943, "dmctl", "internal", "medium",
        "there is no comparison or flashback with the number {number}",
        "start it again: a daemon that was started anew knows none of those before",
    ),
    ErrorKind(
        "diff-value-cut", 48949, "dmctl", "internal", "high",
        "a server gives no value of column {column}: it is longer than its `max_allowed_packet`",
        "raise `max_allowed_packet` at both servers and start again; or leave the column out with --ignore-columns",
    ),
    ErrorKind(
        "diff-snapshot-unknown", 48945, "dmctl", "internal", "medium",
        "{snapshot} names no moment of a server of the task",
        "write `now`, a TSO or a time such as '2026-01-31 10:00:00' for all servers, or for one: `target=MOMENT`,"
        " `SOURCE-ID=MOMENT`",
    ),
    ErrorKind(
        "diff-snapshot-refused", 48946, "dmctl", "internal", "medium",
        "{address} is no TiDB and keeps nothing of the past, so it can't be read as of {moment}",
        "name the moment for the TiDB alone: `--snapshot target=MOMENT`; MySQL and MariaDB have `now`",
    ),
    ErrorKind(
        "errand-died", 48947, "dmctl", "internal", "medium",
        "the process of the {what} of {task} ended unexpectedly ({how})",
        "no server was changed: give the verb again (`dmctl diff` goes on with --resume); its log is {log}",
    ),
)  # fmt: skip
