"""Errors of validators and of their verbs."""

from dm.errors.kind import ErrorKind

KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        "validator-fenced", 43900, "validator", "internal", "high",
        "another validator of task {task} on source {source} has begun, and this one ends",
        "let one daemon run the task",
    ),
    ErrorKind(
        "validator-with-shards", 43901, "validator", "internal", "medium",
        "task {task} has a `shard-mode`: rows may wait for the DDL of other shards, which a validator can't tell from "
        "rows that are missing",
        "compare the tables when no lock is open: `dmctl diff {task}`",
    ),
    ErrorKind(
        "validator-without-checkpoint", 43902, "validator", "internal", "medium",
        "the syncer of task {task} on source {source} has no checkpoint yet",
        "nothing: the validator begins when there is one",
        retryable=True,
    ),
    ErrorKind(
        "validator-not-there", 43903, "validator", "internal", "medium",
        "task {task} has no validator",
        "start one: `dmctl validation start {task}`",
    ),
    ErrorKind(
        "validator-begun-before", 43904, "validator", "internal", "medium",
        "the validator of task {task} on source {source} has begun before, and goes on from where it was: --mode and "
        "--start-time are for the first time",
        "leave them out",
    ),
    ErrorKind(
        "validator-running", 43905, "validator", "internal", "medium",
        "all validators that are meant run already",
        "nothing; `dmctl validation status` shows them",
    ),
    ErrorKind(
        "validator-stopped", 43906, "validator", "internal", "medium",
        "all validators that are meant are stopped already",
        "nothing; `dmctl validation start` lets them go on",
    ),
    ErrorKind(
        "validator-without-sync", 43907, "validator", "internal", "medium",
        "task {task} has the task-mode {mode}: it applies no binlog",
        "name a task that syncs; `dmctl diff` compares the rows of a load",
    ),
    ErrorKind(
        "validator-error-unknown", 43908, "validator", "internal", "medium",
        "task {task} has no validation error with the number {number}",
        "`dmctl validation show-error --error all {task}` shows them",
    ),
    ErrorKind(
        "validator-bad-place", 43909, "validator", "internal", "medium",
        "{place} is no place of a binlog",
        "write it as '(mysql-bin.000001, 5989)', or a GTID set for --cutover-binlog-gtid",
    ),
    ErrorKind(
        "validator-while-joining", 43910, "validator", "internal", "medium",
        "task {task} loads tables of source {sources} beside its stream, and their rows would look missing",
        "start it when they have joined: `dmctl query-status {task}` shows how far they are",
    ),
)  # fmt: skip
