"""Errors of the tools beside a task: diff, feed, flashback, objects, replay, validator."""

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
        "diff-relay-behind", 48985, "dmctl", "internal", "medium",
        "the relay ends at {there}, and the source's binlog at {wanted}",
        "let the relay catch up: `dmctl query-status` tells how far it is",
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
    ErrorKind(
        "errand-under-way", 48939, "dmctl", "internal", "medium",
        "a {what} of {task} is under way, and needs what is to be removed",
        "wait until it is over, or end it where it was started (Ctrl-C; a replay: `dmctl replay {task} --cancel`);"
        " then give the verb again",
    ),
    ErrorKind(
        "feed-without-relay", 32971, "dump-unit", "internal", "medium",
        "{directory} has no relay files",
        "name the directory of a source's relay (`path`), which holds server-uuid.index",
    ),
    ErrorKind(
        "feed-option", 32972, "dump-unit", "internal", "medium",
        "option `{option}` of the feed: {what}",
        "the feed needs `path`, `table`, and `dump` or `structure`; `start` is earliest, latest or FILE:OFFSET",
    ),
    ErrorKind(
        "feed-ddl", 32973, "dump-unit", "upstream", "medium",
        "the feed ends at {place}: after it the table has other columns or rows: {statement}",
        "everything before it is delivered. Begin a new query after it, with a new checkpoint location, `start` "
        "{after} and the table's new structure",
    ),
    ErrorKind(
        "feed-partial-image", 32974, "dump-unit", "upstream", "medium",
        "a row image of {table} lacks column {column}",
        "everything before it is delivered. `SET GLOBAL binlog_row_image = FULL` at the source, and begin a new query "
        "after such rows",
    ),
    ErrorKind(
        "feed-xa", 32975, "dump-unit", "upstream", "medium",
        "the XA transaction {xid} was prepared or decided apart from its rows, at {place}: the feed does not follow it",
        "everything before it is delivered. Begin a new query after its end, with a new checkpoint location",
    ),
    ErrorKind(
        "feed-relay-short", 32976, "dump-unit", "internal", "medium",
        "the relay ends at {there}, and the query has been at {wanted}",
        "the relay was lost or made anew: begin a new query with a new checkpoint location",
    ),
    ErrorKind(
        "feed-source-switched", 32977, "dump-unit", "upstream", "medium",
        "the relay switched from server {before} to {now}: the feed can't tell which changes the new server repeats",
        "everything before it is delivered. Begin a new query with a new checkpoint location, and a place of the new "
        "server as `start`",
    ),
    ErrorKind(
        "flashback-without-relay", 48951, "dmctl", "internal", "medium",
        "there is no relay of source {source} here",
        "`dmctl start-relay -s {source}` stores the source's binlog from then on; earlier changes can't be taken "
        "back",
    ),
    ErrorKind(
        "flashback-without-checkpoint", 48952, "dmctl", "internal", "medium",
        "task {task} has no checkpoint of source {source}, so the state of the target is unknown",
        "try again after its syncer has run: `dmctl query-status {task}`",
    ),
    ErrorKind(
        "flashback-ahead", 48953, "dmctl", "internal", "medium",
        "the stretch ends at {place}, but the target's state is known only up to {checkpoint}",
        "leave --to out, or wait for the next checkpoint (`checkpoint-flush-interval`; `dmctl stop-task` stores a "
        "checkpoint)",
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
        "rows of {tables} can't be taken back: after them, at {place}, the source executed: {statement}",
        "begin after it (--from {after}), or name the other tables with --tables. Rows and columns that it removed are "
        "only in a backup",
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
        "a place in one source's binlog means nothing in the others: task {task} has the sources {sources}",
        "name a single source with -s, or give times",
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
        "the binlog does not fit together: it {what} in {table}; the key is {key}",
        "`dmctl resume-task`: the syncer applies the changes one after the other, and says at which one the target "
        "is not as expected",
        values=("key",),
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
    ErrorKind(
        "heal-not-paused", 44061, "dmctl", "internal", "medium",
        "task {task} is {stage} on source {source}: a heal takes the place of its syncer",
        "`dmctl pause-task {task}`, and give the command again",
    ),
    ErrorKind(
        "heal-running", 44062, "dmctl", "internal", "medium",
        "a heal of task {task} is under way",
        "wait until it has ended; Ctrl-C where it was started ends it",
    ),
    ErrorKind(
        "heal-unsuited", 44063, "dmctl", "internal", "medium",
        "task {task} can't be healed: {why}",
        "{way}",
    ),
    ErrorKind(
        "heal-structures", 44064, "dmctl", "internal", "medium",
        "tables of task {task} are not made like the source's, so their rows can't be compared: {tables}",
        "make the target's tables like the source's (`dmctl diff {task}` tells all that differs), or give `--recreate`:"
        " they are dropped, made again, and loaded whole beside the stream",
    ),
    ErrorKind(
        "heal-place-lost", 44065, "dmctl", "upstream", "high",
        "the heal of task {task} began at {place}, and the source does not have that file any more",
        "keep binlogs longer at the source (binlog_expire_logs_seconds), and give the command again",
    ),
    ErrorKind(
        "heal-unfinished", 44066, "sync-unit", "downstream", "high",
        "a heal of task {task} on source {source} was begun and has not ended: the target's rows are of many moments",
        "`dmctl heal {task}` again, which may be cut short as often as you like; or load the task anew: "
        "`dmctl stop-task {task}`, `dmctl start-task --remove-meta`",
    ),
    ErrorKind(
        "validator-fenced", 43900, "validator", "internal", "high",
        "another validator of task {task} on source {source} has begun, and this one ends: {owner}",
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
        "nothing: the validator begins when the syncer has stored its checkpoint",
        retryable=True,
    ),
    ErrorKind(
        "validator-not-there", 43903, "validator", "internal", "medium",
        "task {task} has no validator",
        "start a validator: `dmctl validation start {task}`",
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
    ErrorKind(
        "validator-with-quarantine", 43911, "validator", "internal", "medium",
        "task {task} has `on-error: table`, and rows of a table that is put aside would look missing",
        "`dmctl diff {task}` compares the tables that are in its stream; or start the task without `on-error: table`",
    ),
    ErrorKind(
        "objects-definer-invalid", 48971, "dmctl", "internal", "medium",
        "`--definer {definer}` is no account",
        "write `keep`, `leave`, an account as user@host for all objects, or old@host=new@host",
    ),
    ErrorKind(
        "objects-name-unwritable", 48972, "dmctl", "internal", "medium",
        "the name {called} can't be written in {charset}, the character set of the object's client",
        "create the object at the target by hand, in a session with utf8mb4",
    ),
    ErrorKind(
        "objects-file-unwritable", 48973, "dmctl", "internal", "medium",
        "{file} can't be written: {why}",
        "name another directory with --sql: no file there is written over",
    ),
    ErrorKind(
        "objects-task-at-work", 48974, "dmctl", "internal", "medium",
        "{task} on {sources} is at work: triggers and events have acted at the source already, and would act once more",
        "let the task rest (`dmctl pause-task {task}`) once it has applied everything, and give the command again; or"
        " write them as scripts (--sql)",
    ),
)  # fmt: skip
