"""Errors of shard merge: several source tables that go into one target table, and alter it together."""

from dm.errors.kind import LOAD_AGAIN, ErrorKind

KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        "merge-order-silent",
        36975,
        "sync-unit",
        "internal",
        "medium",
        "source {source} waits for its turn (`merge-order`), and nothing was heard of {sources} for {seconds} s",
        "`dmctl query-status` shows the state of {sources}; resume it, then this source continues by itself. To do"
        " without it: start the task with a file that does not name it, or with `merge-order-silent: continue`",
        retryable=True,
    ),
    ErrorKind(
        "shard-ddl-conflict",
        36943,
        "sync-unit",
        "internal",
        "high",
        "shards of {target} are altered in different ways: {owner} comes with {first}; where {other} has {second}",
        "all shards must be altered by the same statements in the same order; `dmctl binlog replace` gives this event"
        " the words of the other shard, `dmctl binlog skip` leaves it out; `dmctl shard-ddl-lock unlock <lock-id>` lets"
        " the others go on, and this statement is not executed",
    ),
    ErrorKind(
        "shard-ddl-out-of-turn",
        36944,
        "sync-unit",
        "internal",
        "high",
        "DDL {number} of {target} was executed or decided by another subtask meanwhile",
        "`dmctl resume-task`",
    ),
    ErrorKind(
        "shard-ddl-under-way",
        36948,
        "sync-unit",
        "internal",
        "medium",
        "source {source} can't join the shards of {target} while a DDL of theirs is being executed",
        "it is tried again by itself, and succeeds once the DDL is executed; `dmctl shard-ddl-lock list` shows it",
        retryable=True,
    ),
    ErrorKind(
        "shard-source-left",
        36946,
        "sync-unit",
        "internal",
        "high",
        "source {source} is not in the file of task {task} any more, and rows of its shards wait there for a DDL:"
        " {places}",
        "put the source back into the file and start the task on it: its rows come when all shards have altered; or"
        " give its rows up with `dmctl shard-ddl-lock unlock '{lock}' --source {source}"
        " --force-remove`, and `dmctl resume-task`",
    ),
    ErrorKind(
        "shard-not-alike",
        36947,
        "sync-unit",
        "internal",
        "high",
        "table {table} of source {source} can't be merged into {target}: it is not like {other}, another shard:"
        " {difference}",
        "give all shards one structure before the task begins (`ALTER TABLE` at the source, then `start-task` with"
        " `--remove-meta`); or leave this table out by `block-allow-list` or another route; or, where the others"
        " come to this structure by a DDL that waits for this source, `dmctl shard-ddl-lock unlock '{lock}' --source"
        " {source} --force-remove`, and `dmctl resume-task` once it is executed",
    ),
    ErrorKind(
        "shard-lock-not-found",
        38019,
        "dm-master",
        "internal",
        "high",
        "lock with ID {lock} not found",
        "`dmctl shard-ddl-lock list` shows all",
    ),
    ErrorKind(
        "shard-lock-resolving",
        38020,
        "dm-master",
        "internal",
        "high",
        "lock {lock} is resolving: its DDL is being executed, so it can't be skipped",
        "wait until it is executed; where the task that began it is paused, `dmctl resume-task` first; `--action exec`"
        " leaves it as it is",
    ),
    ErrorKind(
        "shard-start-time",
        20947,
        "config",
        "internal",
        "medium",
        "task {task} merges shards, and its progress on source {source} can't be moved: which DDL its shards have"
        " passed would not be known at another place",
        "start it without `--start-time`, from where it is; or all of it anew with `--remove-meta`",
    ),
    ErrorKind(
        "shard-ddl-unsupported",
        36945,
        "sync-unit",
        "internal",
        "high",
        "with `shard-mode` this statement can't be followed ({why}): {statement}",
        "where rows of the shard wait, alter the others, or `dmctl shard-ddl-lock unlock <lock-id>`, and `dmctl"
        " resume-task`: they come first then; else `dmctl binlog skip` leaves it out, `dmctl binlog replace` executes"
        " others instead",
    ),
    ErrorKind(
        "shard-structures-differ",
        36983,
        "sync-unit",
        "internal",
        "high",
        "the structure of shard {shard} can't be joined with that of the others: {why}: {structures}",
        "make the target accept both, or alter the other shards first, and `dmctl resume-task`; `dmctl binlog replace`"
        " executes another statement in its place, `dmctl binlog skip` none",
    ),
    ErrorKind(
        "shard-partitions-differ",
        36999,
        "sync-unit",
        "internal",
        "high",
        "the rows that shard {shard} loses are not surely those that the target's table {target} would lose: {why}:"
        " {statement}",
        "compare SHOW CREATE TABLE of all shards and of the target; where the target's partitions are to be the"
        " shards', REORGANIZE PARTITION there, and `dmctl resume-task`; else `dmctl shard-ddl-lock unlock <lock-id>"
        " --action skip` and `dmctl resume-task`: no shard's rows go at the target, and you delete them there by hand",
    ),
    ErrorKind(
        "shard-target-behind",
        36988,
        "sync-unit",
        "internal",
        "high",
        "new shard {shard} has columns that the target's table does not have: {columns}",
        "wait if shards of another source have them: the task goes on by itself when their ALTER is applied (`dmctl"
        " query-status`); else add them at the target or to the other shards, and `dmctl resume-task`;"
        " `dmctl binlog replace` executes another statement in its place, `dmctl binlog skip` none",
        retryable=True,
    ),
    ErrorKind(
        "shard-rows-alike",
        36987,
        "sync-unit",
        "internal",
        "high",
        "a row of shard {shard} is updated or deleted, and no key of {target} finds it: other shards have columns that"
        " this one lacks ({columns}), and their rows may be like it in all others",
        "give the target's table a key of columns that all of its shards have and whose values all differ, and `dmctl"
        " resume-task`; or leave the shard out by `block-allow-list` or another route",
    ),
    ErrorKind(
        "shard-ddl-strict",
        36984,
        "sync-unit",
        "internal",
        "high",
        "with `strict-optimistic-shard-mode` no shard waits for others, and this statement is of a kind that all "
        "shards have"
        " to come to ({why}): {statement}",
        "leave `strict-optimistic-shard-mode` out of the task file and start the task again, so that its rows wait; or"
        " `dmctl binlog skip` leaves the statement out, `dmctl binlog replace` executes others instead",
    ),
    ErrorKind(
        "shard-structure-unknown",
        36985,
        "sync-unit",
        "internal",
        "high",
        "shard {table} is altered before it had rows, and its structure here in the binlog is not known: {statement}",
        "set the structure that it had before the statement with `dmctl binlog-schema update {task}`, and `dmctl"
        " resume-task`",
    ),
    ErrorKind(
        "shard-pass-elsewhere",
        36976,
        "sync-unit",
        "upstream",
        "high",
        "rows of shards that waited are read again up to {place} of server {server}, and server {now} has transaction"
        " {gtid} in another order than when they were first read: it would be applied twice or never",
        "lead the source's address back to the server that it led to before, and `dmctl resume-task`,"
        " until no rows wait (`dmctl query-status`); if the task pauses again, " + LOAD_AGAIN,
    ),
    ErrorKind(
        "shard-column-kept",
        36986,
        "sync-unit",
        "internal",
        "high",
        "shard {shard} adds column {column}, and the target still has it for other shards, with the old values of"
        " this one: {statement}",
        "drop the column in the other shards, and `dmctl resume-task` when the target has it no more; or write the"
        " source's values into this shard's rows at the target, and `dmctl binlog skip` the statement",
    ),
)
