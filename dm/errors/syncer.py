"""Errors of the sync unit and of the progress protocol."""

from dm.errors.kind import LOAD_AGAIN, OTHERWISE, START_LATER, WITH_NEW_FILE, ErrorKind

KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        "fenced",
        36900,
        "sync-unit",
        "downstream",
        "high",
        "another run of task {task} on source {source} has taken over (lane {lane}, epoch {epoch})",
        "do nothing: this run ended before it could write anything. Find out which dm-worker runs the task",
    ),
    ErrorKind(
        "target-went-back",
        36959,
        "sync-unit",
        "downstream",
        "high",
        "target {target} was replaced by an older copy of itself: the copy knows run {epoch} of task {task}, this "
        "is run {ours}",
        "the task continues by itself from what the copy has; if the copy is the wrong server, stop the task and "
        "correct the address",
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
        "the progress table {table} holds rows of source {source} that can't be read, or lacks one that must be there",
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
        "lane-stalled",
        36902,
        "sync-unit",
        "downstream",
        "medium",
        "the target did not finish the running transactions within {seconds} s",
        "find what blocks them with SHOW PROCESSLIST at the target; the task tries again by itself",
        retryable=True,
    ),
    ErrorKind(
        "statement-dml",
        36014,
        "sync-unit",
        "upstream",
        "high",
        "the binlog holds a DML statement on a migrated table instead of its rows: {statement}",
        "set binlog_format=ROW for the sessions that write; execute the statement's effect at the target by hand, "
        "and `dmctl binlog skip` it; or " + LOAD_AGAIN + ", or " + START_LATER,
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
        "the structure of {table} at this point of the binlog is unknown: {why}",
        "provide the structure with `dmctl binlog-schema update` (from a file, or with `--from-source` or "
        "`--from-target` if that side still has it), and `dmctl resume-task`; or start with `task-mode: all` "
        "(`--remove-meta` if a checkpoint exists), which is the only way to get the older rows; or exclude the "
        "table",
    ),
    ErrorKind(
        "structure-mismatch",
        36027,
        "sync-unit",
        "internal",
        "high",
        "rows of {table} do not match its tracked structure: {why}",
        "compare `dmctl binlog-schema list` with the source's table at this point. A DDL was not replicated, the start "
        "position is wrong, or (where only a character set or the size of a text differs) the table was created LIKE a "
        "temporary table with another default character set, which its statement does not tell. Set the structure that "
        "the source had with `dmctl binlog-schema update` (and alter the target's table where it got another one), or "
        "`dmctl binlog inject` the missing DDL; or start again with a full load",
    ),
    ErrorKind(
        "event-outside-transaction",
        36906,
        "sync-unit",
        "upstream",
        "high",
        "the start {start} is inside a transaction: the event at {place} belongs to a transaction whose beginning "
        "was not read",
        "nothing of that transaction was applied. Find the start of a transaction in the file (`SHOW BINLOG "
        "EVENTS`: a Gtid or Anonymous_Gtid event, before its BEGIN), `dmctl stop-task`, and `dmctl start-task "
        "--remove-meta` with that position as `meta`",
    ),
    ErrorKind(
        "table-map-missing",
        36907,
        "sync-unit",
        "upstream",
        "high",
        "row event for table id {table_id} without its table map",
        "the binlog is damaged; inspect the position with mysqlbinlog",
    ),
    ErrorKind(
        "ddl-partly-wanted",
        36908,
        "sync-unit",
        "internal",
        "high",
        "one statement names both migrated and excluded tables: {statement}",
        OTHERWISE + "; or let `block-allow-list` include all its tables or none: " + WITH_NEW_FILE,
    ),
    ErrorKind(
        "ddl-cascade-not-logged",
        36958,
        "sync-unit",
        "internal",
        "high",
        "this statement adds a foreign key that changes rows by itself; the source does not write these changes to "
        "its binlog, and the target's sessions do not make them (`foreign_key_checks` is 0): {statement}",
        "let the target make them too (`session: {{foreign_key_checks: 1}}` under `target-database`): "
        + WITH_NEW_FILE
        + "; if the key never changes a row: "
        + OTHERWISE,
    ),
    ErrorKind(
        "ddl-defect",
        36980,
        "sync-unit",
        "internal",
        "high",
        "dm broke over this statement ({what}): {statement}",
        "this is a defect of dm, and the log says where; " + OTHERWISE,
    ),
    ErrorKind(
        "ddl-within-dump",
        36915,
        "sync-unit",
        "internal",
        "high",
        "the dump was still reading when tables were renamed or exchanged rows ({tables}), and nothing tells what it "
        "read under which name: {statement}",
        "if each of these tables was made after the dump had begun, all their rows are in the binlog: `dmctl binlog "
        "replace` with the same statement executes it, and the task continues. Otherwise rename no table until "
        "query-status shows the unit Sync, and " + LOAD_AGAIN,
    ),
    ErrorKind(
        "ddl-outcome-unclear",
        36909,
        "sync-unit",
        "downstream",
        "high",
        "after a crash it is unknown whether the target executed this statement: {statement}",
        "bring the target's table by hand to the structure after the statement, or to the one before it (the "
        "task's `_syncer_ddl` table in `meta-schema` has both, of merged shards `_shard_ddl`), and `dmctl "
        "resume-task`; " + OTHERWISE,
    ),
    ErrorKind(
        "ddl-failed",
        36910,
        "sync-unit",
        "downstream",
        "high",
        "the target refused a DDL statement: {statement}",
        "correct the target's structure and `dmctl resume-task`; or " + OTHERWISE + " (what only MySQL or only MariaDB "
        "takes is listed in docs/promises-and-limits.md)",
    ),
    ErrorKind(
        "ddl-collation-unknown",
        36955,
        "sync-unit",
        "downstream",
        "high",
        "the target does not know a collation or character set of a DDL statement: {statement}",
        "for a collation, name one that the target knows under `collation-map` in the task file, as `collation-map: "
        "{{utf8mb4_ja_0900_as_cs: utf8mb4_unicode_520_ci}}`; " + WITH_NEW_FILE + ". For a character set, `dmctl binlog "
        "replace` with the statement in one that the target knows and that has all its characters, as utf8mb4. Or "
        + OTHERWISE,
    ),
    ErrorKind(
        "ddl-values-differ",
        36937,
        "sync-unit",
        "internal",
        "high",
        "the target's rows would get other values than the source's rows ({what}): {statement}",
        "make the change at the target by hand with the source's values and `dmctl resume-task` (an effect that is "
        "already there counts as done); or, if the values may differ, `dmctl binlog replace` with the same "
        "statement, which is then executed in UTC; or " + LOAD_AGAIN,
    ),
    ErrorKind(
        "ddl-partitions-differ",
        36982,
        "sync-unit",
        "internal",
        "high",
        "the target's partitions may hold other rows than the source's ({why}): {statement}",
        "make the target lose the rows that the source has lost, by DELETE or by moving them, and `dmctl binlog skip` "
        "the statement; or, if the rows of the target's own partition are to go, `dmctl binlog replace` with the same "
        "statement; or " + LOAD_AGAIN,
    ),
    ErrorKind(
        "ddl-charset-unclear",
        36997,
        "sync-unit",
        "upstream",
        "high",
        "{table} was created LIKE a temporary table, and its default character set is told neither by the statement nor"
        " by the source, which has the table no more or has changed it: {statement}",
        "`dmctl binlog replace` with the same statement and the temporary table's CHARACTER SET and COLLATE behind its"
        " columns; or `dmctl binlog skip` if the table is gone at the source and none of its rows is wanted",
    ),
    ErrorKind(
        "ddl-constraint-unclear",
        36971,
        "sync-unit",
        "downstream",
        "high",
        "no constraint of {target} is certainly the source's {constraint} ({why}): {statement}",
        "`dmctl binlog replace` with a statement that drops the constraint by its name at the target (SHOW CREATE "
        "TABLE shows it; a MODIFY without it drops the CHECK of a column); or `dmctl binlog skip` if the target "
        "has no such constraint",
    ),
    ErrorKind(
        "ddl-schema-elsewhere",
        36972,
        "sync-unit",
        "internal",
        "high",
        "the schema that the target would drop does not hold all of the source schema's tables ({tables}): {statement}",
        "drop those tables at the target by hand, unless another source has rows there, and `dmctl resume-task`; "
        "`dmctl binlog replace` with the same statement drops the schema and keeps the tables, `dmctl binlog skip` "
        "drops nothing",
    ),
    ErrorKind(
        "ddl-column-kept",
        36973,
        "sync-unit",
        "internal",
        "high",
        "{target} still has the old column {column} with its values, because its DROP was not executed here: "
        "{statement}",
        "drop the column at the target by hand and `dmctl resume-task`, which creates it again; or write the "
        "source's values into it, or keep the old ones, and `dmctl binlog skip` the statement",
    ),
    ErrorKind(
        "source-without-binlog",
        36911,
        "sync-unit",
        "upstream",
        "high",
        "source {source} writes no binary log",
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
        "the source is now another server ({theirs}, it was {ours}), and the checkpoint has no GTID set to "
        "continue from",
        "lead the source's address back to the old server and `dmctl resume-task`; or start the task again from an "
        "explicit position of the new server (`meta`, with --remove-meta). If rows of shards wait (`dmctl "
        "query-status`), such a start leaves them out: lead the address back, or " + LOAD_AGAIN,
    ),
    ErrorKind(
        "spool-full",
        36916,
        "sync-unit",
        "internal",
        "high",
        "the disk has no room for a transaction larger than `memory-quota`: {file}",
        "free disk space (at most the transaction's size in the binlog is needed), or raise `memory-quota`; the "
        "task continues by itself, nothing is lost",
        retryable=True,
    ),
    ErrorKind(
        "spool-not-written",
        36917,
        "sync-unit",
        "internal",
        "high",
        "the spool file {file} can't be written",
        "give dm-worker's user a directory it may write to; the task continues by itself, nothing is lost",
        retryable=True,
    ),
    ErrorKind(
        "checkpoint-gone",
        36939,
        "sync-unit",
        "downstream",
        "high",
        "the target has no progress of task {task} on source {source}, which has run before",
        "nothing says where to continue, and the source's end would leave out what lies between: put the tables of the "
        "task in `meta-schema` back and `dmctl resume-task`; or `dmctl stop-task`, give the position that the rows at "
        "the target have in `meta`, with `task-mode: incremental`, and start the task (`--remove-meta` if `meta` "
        "has had this position before); or stop the task, drop the target tables, and load again (`dmctl start-task "
        "--remove-meta`). `--remove-meta` without `meta` begins an incremental task at the source's present end",
    ),
    ErrorKind(
        "spool-damaged",
        36918,
        "sync-unit",
        "internal",
        "high",
        "the spool file {file} changed after it was written, at offset {offset}: {what}",
        "nothing after the damage was applied, and the task reads the transaction again by itself; if it happens "
        "again, check the disk (dmesg, smartctl) and move the dm home to another one",
        retryable=True,
    ),
)
