"""Errors of the sync unit and of the progress protocol."""

from dm.errors.kind import ErrorKind
from dm.errors.way_out import LOAD_AGAIN, OTHERWISE, START_LATER, WITH_NEW_FILE

KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        "fenced",
        36900,
        "sync-unit",
        "downstream",
        "high",
        "another run of task {task} on source {source} has taken over (lane {lane}, epoch {epoch})",
        "nothing to do: this run ended before it could write anything; see which dm-worker runs the task",
    ),
    ErrorKind(
        "target-went-back",
        36959,
        "sync-unit",
        "downstream",
        "high",
        "target {target} has become an older copy of itself: it knows run {epoch} of task {task}, and this one is run"
        " {ours}",
        "the task goes on by itself from what that copy has; where it is not the one that is to be written to, stop the"
        " task and lead its address to the right one",
        retryable=True,
    ),
    ErrorKind(
        "progress-gone",
        36960,
        "sync-unit",
        "downstream",
        "high",
        "target {target} has no progress of task {task} any more, while the task ran: it was removed, or the target has"
        " become a copy from before the task",
        "bring the copy with the progress back and `dmctl resume-task`; or " + LOAD_AGAIN + ", or " + START_LATER,
    ),
    ErrorKind(
        "replay-out-of-order",
        36961,
        "sync-unit",
        "downstream",
        "high",
        "rows of {source_table} that the source wrote before {until} may be in {table} already, where an earlier run of"
        " the task put them by their key; now {table} has to be changed in the source's order ({why}), and nothing"
        " tells which of them are there",
        "give {table} back what it had (a primary key, or a unique key of NOT NULL columns that the source has too) and"
        " `dmctl resume-task`; it may be dropped when `query-status` shows no safe mode any more. If a filter of the"
        " task kept {source_table} out until now, put that back until the task is past the position above. Or "
        + LOAD_AGAIN,
    ),
    ErrorKind(
        "stopped-while-waiting",
        36901,
        "sync-unit",
        "downstream",
        "low",
        "stopped while waiting for {what}",
        "resume the task; it goes on waiting",
        retryable=True,
    ),
    ErrorKind(
        "checkpoint-damaged",
        24901,
        "checkpoint",
        "downstream",
        "high",
        "the progress table {table} has no usable global row for source {source}",
        "restore the table from a backup, or start the task with --remove-meta and a position in `meta`",
    ),
    ErrorKind(
        "lane-stalled",
        36902,
        "sync-unit",
        "downstream",
        "medium",
        "the target did not finish the running transactions within {seconds} s",
        "see what blocks them with SHOW PROCESSLIST on the target; the task tries again by itself",
        retryable=True,
    ),
    ErrorKind(
        "statement-dml",
        36014,
        "sync-unit",
        "upstream",
        "high",
        "only ROW format binlog can be replicated, found a DML statement on a migrated table: {statement}",
        "set binlog_format=ROW for the sessions that write; do at the target what the statement does, and `dmctl binlog"
        " skip` it; or " + LOAD_AGAIN + ", or " + START_LATER,
    ),
    ErrorKind(
        "rolled-back-rows",
        36904,
        "sync-unit",
        "upstream",
        "high",
        "a transaction with changes of non-transactional table {table} was rolled back at the source",
        "convert the table to InnoDB at the source, or exclude it and copy it by a full load",
    ),
    ErrorKind(
        "rollback-to-savepoint",
        36905,
        "sync-unit",
        "upstream",
        "high",
        "a transaction was rolled back to a savepoint after changes that can't be undone",
        "convert non-transactional tables to InnoDB at the source, or exclude them",
    ),
    ErrorKind(
        "structure-unknown",
        44900,
        "schema-tracker",
        "internal",
        "high",
        "the structure of {table} at this point of the binlog is not known: {why}",
        "tell the structure that it had with `dmctl binlog-schema update` (from a file, or `--from-source` or"
        " `--from-target` where that has it), and `dmctl resume-task`; or start with `task-mode: all` (`--remove-meta`"
        " where a checkpoint is there), which alone brings the rows that it had before; or exclude the table",
    ),
    ErrorKind(
        "structure-mismatch",
        36027,
        "sync-unit",
        "internal",
        "high",
        "the rows of {table} do not fit its tracked structure: {why}",
        "a DDL was not replicated or the start point is wrong: see `dmctl binlog-schema list`, set the right structure"
        " with `dmctl binlog-schema update`, or `dmctl binlog inject` the missing DDL; or start again from a full load",
    ),
    ErrorKind(
        "event-outside-transaction",
        36906,
        "sync-unit",
        "upstream",
        "high",
        "the start {start} is inside a transaction: the event at {place} belongs to one whose beginning was not read",
        "nothing of that transaction was applied: find where one begins in the file (`SHOW BINLOG EVENTS`: at a Gtid or"
        " Anonymous_Gtid event, before its BEGIN); then `dmctl stop-task`, and `dmctl start-task --remove-meta` with"
        " that as `meta`",
    ),
    ErrorKind(
        "table-map-missing",
        36907,
        "sync-unit",
        "upstream",
        "high",
        "row event for table id {table_id} without its table map",
        "the binlog is damaged; see the position with mysqlbinlog",
    ),
    ErrorKind(
        "ddl-partly-wanted",
        36908,
        "sync-unit",
        "internal",
        "high",
        "one statement names migrated and not migrated tables: {statement}",
        OTHERWISE + "; or have `block-allow-list` take all its tables or none: " + WITH_NEW_FILE,
    ),
    ErrorKind(
        "ddl-cascade-not-logged",
        36958,
        "sync-unit",
        "internal",
        "high",
        "this adds a foreign key that changes rows by itself, which the source does not write to its binlog and the"
        " target's sessions would not do (`foreign_key_checks` is 0): {statement}",
        "have the target act in the same way (`session: {{foreign_key_checks: 1}}` under `target-database`): "
        + WITH_NEW_FILE
        + "; if the key never changes a row: "
        + OTHERWISE,
    ),
    ErrorKind(
        "ddl-within-dump",
        36915,
        "sync-unit",
        "internal",
        "high",
        "the statement moved rows between tables while they were dumped ({tables}): {statement}",
        LOAD_AGAIN,
    ),
    ErrorKind(
        "ddl-outcome-unclear",
        36909,
        "sync-unit",
        "downstream",
        "high",
        "after an unclean stop it can't be told whether this statement was executed on the target: {statement}",
        "make the target's table by hand as the statement leaves it, or as it was before (both structures stand in the"
        " task's `_syncer_ddl` table in `meta-schema`), and `dmctl resume-task`; " + OTHERWISE,
    ),
    ErrorKind(
        "ddl-failed",
        36910,
        "sync-unit",
        "downstream",
        "high",
        "the target refused a DDL statement: {statement}",
        "correct the target's structure and `dmctl resume-task`; or " + OTHERWISE,
    ),
    ErrorKind(
        "ddl-values-differ",
        36937,
        "sync-unit",
        "internal",
        "high",
        "the target would give its rows other values than the source's rows got ({what}): {statement}",
        "make at the target by hand what the statement makes, with the source's values (what is there counts as done),"
        " and `dmctl resume-task`; or `dmctl binlog replace` with the same statement, if the values may differ; or "
        + LOAD_AGAIN,
    ),
    ErrorKind(
        "ddl-constraint-unclear",
        36971,
        "sync-unit",
        "downstream",
        "high",
        "{target} has no constraint that is certainly the source's {constraint} ({why}): {statement}",
        "`dmctl binlog replace` with the statement that drops it at the target by the name it has there (SHOW CREATE"
        " TABLE; the CHECK of a column goes with a MODIFY that leaves it out), or `dmctl binlog skip` if it has none",
    ),
    ErrorKind(
        "ddl-schema-elsewhere",
        36972,
        "sync-unit",
        "internal",
        "high",
        "the schema's tables are not all in the schema that the target would drop ({tables}): {statement}",
        "drop those tables at the target by hand, if no other source has rows there, and `dmctl resume-task`; `dmctl"
        " binlog replace` with the same statement drops the schema and leaves them, `dmctl binlog skip` drops nothing",
    ),
    ErrorKind(
        "ddl-column-kept",
        36973,
        "sync-unit",
        "internal",
        "high",
        "{target} still has the column {column} with its old values, because its drop was left out: {statement}",
        "drop the column at the target by hand and `dmctl resume-task`, which makes it anew; or write there what the"
        " source's rows got, or leave the old values, and `dmctl binlog skip` the statement",
    ),
    ErrorKind(
        "source-without-binlog",
        36911,
        "sync-unit",
        "upstream",
        "high",
        "the source {source} has its binary log switched off",
        "set log_bin in its configuration, restart it, and start the task again",
    ),
    ErrorKind(
        "filter-rule-error",
        36912,
        "sync-unit",
        "internal",
        "high",
        "a filter rule with action Error matched {what}",
        "change the rule in the task file, or correct the source",
    ),
    ErrorKind(
        "source-replaced",
        36914,
        "sync-unit",
        "upstream",
        "high",
        "the source is another server now ({theirs}, it was {ours}) and the checkpoint has no GTID set to go on from",
        "start the task again from an explicit position on the new server (`meta`, with --remove-meta)",
    ),
    ErrorKind(
        "spool-full",
        36916,
        "sync-unit",
        "internal",
        "high",
        "there is no room on the disk for a transaction that is larger than `memory-quota`: {file}",
        "make room there (no more is needed than the transaction's size in the binlog), or raise `memory-quota`; the"
        " task goes on by itself and nothing is lost",
        retryable=True,
    ),
    ErrorKind(
        "spool-not-written",
        36917,
        "sync-unit",
        "internal",
        "high",
        "the spool file {file} can't be written",
        "give dm-worker's user a directory it may write to; the task goes on by itself and nothing is lost",
        retryable=True,
    ),
    ErrorKind(
        "spool-damaged",
        36918,
        "sync-unit",
        "internal",
        "high",
        "the spool file {file} is not as it was written, at offset {offset}: {what}",
        "nothing behind it was applied: the task reads the transaction again by itself; when it happens again, look for"
        " errors of that disk (dmesg, smartctl) and move the dm home to another one",
        retryable=True,
    ),
)
