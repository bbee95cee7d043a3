"""Errors of `dmctl replay`: a backlog that is applied by Spark."""

from dm.errors.kind import ErrorKind

KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        "replay-not-paused", 44050, "dmctl", "internal", "medium",
        "task {task} is {stage} on source {source}: a replay takes the place of its syncer",
        "`dmctl pause-task {task}` first; afterwards `dmctl resume-task {task}`",
    ),
    ErrorKind(
        "replay-running", 44059, "dmctl", "internal", "medium",
        "a replay of task {task} is under way",
        "`dmctl query-status {task}` tells how far it is; `dmctl replay {task} --cancel` ends it",
    ),
    ErrorKind(
        "replay-unsuited", 44051, "dmctl", "internal", "medium",
        "task {task} can't be replayed: {why}",
        "`dmctl resume-task {task}`: its syncer applies the backlog",
    ),
    ErrorKind(
        "replay-without-checkpoint", 44052, "dmctl", "internal", "medium",
        "task {task} has no checkpoint of source {source}: nothing tells where its backlog begins",
        "`dmctl resume-task {task}`, and pause it again when its syncer runs",
    ),
    ErrorKind(
        "replay-without-relay", 44053, "dmctl", "internal", "medium",
        "the relay here does not have the checkpoint's file: {place} of server {server}",
        "`dmctl query-status -s SOURCE` tells what the relay has; else `dmctl resume-task` reads from the source",
    ),
    ErrorKind(
        "replay-nothing", 44054, "dmctl", "internal", "medium",
        "there is nothing to replay: {why}",
        "`dmctl resume-task {task}`: its syncer goes on from there, and a later replay may follow",
    ),
    ErrorKind(
        "replay-partial-image", 44055, "dmctl", "upstream", "medium",
        "a row image of {table} lacks columns",
        "`SET GLOBAL binlog_row_image = FULL` at the source for the future; the syncer applies such rows",
    ),
    ErrorKind(
        "replay-history-unlike", 44056, "dmctl", "upstream", "high",
        "the binlog does not fit together: a row of {table} is {what}; its key is {key}",
        "`dmctl resume-task`: the syncer applies the changes one after the other, and says at which one the target "
        "is not as expected",
    ),
    ErrorKind(
        "replay-target-changed", 44057, "dmctl", "downstream", "high",
        "the target's table for {table} was changed while its rows were replayed",
        "call `dmctl replay` again: it begins anew",
    ),
    ErrorKind(
        "replay-file-lost", 44058, "dmctl", "internal", "high",
        "the replay's file {file} is not there, or is damaged: {why}",
        "call `dmctl replay` again: the relay is read again. On a cluster the daemon's work directory and the relay "
        "have to be where every executor can read them",
    ),
    ErrorKind(
        "replay-parts-unlike", 44060, "dmctl", "internal", "high",
        "part {part} of bucket {bucket} is in the target with {done} changes, and has {now} now",
        "call `dmctl replay` again: it begins anew",
    ),
)  # fmt: skip
