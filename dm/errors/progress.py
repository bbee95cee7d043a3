"""Errors of the progress protocol: runs, checkpoints, what is stored at the target."""

from dm.errors.kind import LOAD_AGAIN, START_LATER, ErrorKind

KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        "commit-outcome-unknown",
        36925,
        "sync-unit",
        "downstream",
        "medium",
        "the connection to {address} broke during COMMIT: the outcome is not known yet",
        "do nothing: the task reads its progress row at the target, which tells the outcome, and continues",
        retryable=True,
    ),
    ErrorKind(
        "fenced",
        36900,
        "sync-unit",
        "downstream",
        "high",
        "another run of task {task} on source {source} has taken over: {owner} (lane {lane}, epoch {epoch})",
        "do nothing: this run ended before it could write anything. If the task is to run here, pause it there, and "
        "`dmctl resume-task` here",
    ),
    ErrorKind(
        "fenced-by-others",
        24904,
        "checkpoint",
        "downstream",
        "high",
        "a run of task {task} on source {source} that this dm-worker's cluster has not begun has taken over: {owner}",
        "do nothing: this run ended before it could write anything, and does not come back by itself. Let one cluster, "
        "or one dm-worker, have the task: stop it at the others",
    ),
    ErrorKind(
        "target-went-back",
        36959,
        "sync-unit",
        "downstream",
        "high",
        "target {target} was replaced by an older copy of itself: the copy knows run {epoch} of task {task}, this "
        "is run {ours}",
        "the task continues by itself from what the copy has; where its rows are not of the same moment as that, "
        "`dmctl pause-task {task}` and `dmctl heal {task}`; if the copy is the wrong server, stop the task and correct "
        "the address",
        retryable=True,
    ),
    ErrorKind(
        "progress-gone",
        36960,
        "sync-unit",
        "downstream",
        "high",
        "target {target} lost the progress of task {task} while the task ran: somebody removed it, or the target "
        "is now a copy from before the task",
        "restore the copy that has the progress and `dmctl resume-task`; or " + LOAD_AGAIN + ", or " + START_LATER,
    ),
    ErrorKind(
        "replay-out-of-order",
        36961,
        "sync-unit",
        "downstream",
        "high",
        "an earlier run may already have put rows of {source_table}, written before {until}, into {table} by their "
        "key; {table} must now be changed in the source's order ({why}), and nothing tells which rows are there",
        "restore the key of {table} (a primary key, or a unique key of NOT NULL columns that the source has too) "
        "and `dmctl resume-task`; the key may be dropped once `query-status` shows no safe mode. If a filter of "
        "the task excluded {source_table} until now, restore the filter until the task is past the position above. "
        "Or " + LOAD_AGAIN,
        of_tables=True,
    ),
    ErrorKind(
        "stopped-while-waiting",
        36901,
        "sync-unit",
        "downstream",
        "low",
        "stopped while waiting for {what}",
        "resume the task; it continues to wait",
        retryable=True,
    ),
    ErrorKind(
        "checkpoint-damaged",
        24901,
        "checkpoint",
        "downstream",
        "high",
        "the progress table {table} holds rows of source {source} that can't be read, or lacks a row that must be "
        "there",
        "restore the table from a backup, or start the task with --remove-meta and a position in `meta`",
    ),
    ErrorKind(
        "progress-of-dm",
        24902,
        "checkpoint",
        "downstream",
        "medium",
        "{table} at the target is a progress table of DM itself, which dm can't continue{place}",
        "stop the task in DM; then give the task file another `name` (or `meta-schema`), `task-mode: incremental` and "
        "this place as `meta`, see docs/coming-from-dm.md; or drop what DM has stored with "
        "`dmctl forgotten remove progress/{task} --file <task file>`, and start anew",
    ),
    ErrorKind(
        "checkpoint-gone",
        36939,
        "sync-unit",
        "downstream",
        "high",
        "the target has no progress of task {task} on source {source}, which has run before",
        "nothing says where to continue, and starting at the source's end would skip changes: put the tables of the "
        "task in `meta-schema` back and `dmctl resume-task`; or `dmctl stop-task`, give the position that the rows at "
        "the target have in `meta`, with `task-mode: incremental`, and start the task (`--remove-meta` if `meta` "
        "has had this position before); or stop the task, drop the target tables, and load again (`dmctl start-task "
        "--remove-meta`). `--remove-meta` without `meta` begins an incremental task at the source's present end",
    ),
)
