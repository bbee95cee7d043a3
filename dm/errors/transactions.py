"""Errors of reading a source's transactions, XA and spool files among them."""

from dm.errors.kind import LOAD_AGAIN, START_LATER, WITH_NEW_FILE, ErrorKind

KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        "brought-back",
        36998,
        "sync-unit",
        "upstream",
        "high",
        "the source has changes of {table} that task {task} brought from this target: they would be applied once more",
        "nothing of them was applied. `dmctl stop-task {task}` shows where the source's binlog ends then: put that"
        " place into `meta` of this task, and start it with `task-mode: incremental` and `--remove-meta`",
    ),
    ErrorKind(
        "opposite-elsewhere",
        36966,
        "sync-unit",
        "upstream",
        "high",
        "task {task}, which this task names as its `opposite`, does not read target {target}: what it has written to "
        "the source would be left out, and nobody else brings it there",
        "nothing was left out. Write the task that reads this target as `opposite` under `mysql-instances`, or take "
        "the key away; " + WITH_NEW_FILE,
    ),
    ErrorKind(
        "opposite-source-unknown",
        36970,
        "sync-unit",
        "upstream",
        "high",
        "whether the opposite task {task} has brought a transaction from the target can't be told: nothing says which "
        "server its source {source} was",
        "nothing was left out. Start that task once more, which stores it (a load of another program's files never "
        "does), then `dmctl resume-task`; or take `opposite` away; " + WITH_NEW_FILE,
    ),
    ErrorKind(
        "ddl-other-way",
        36979,
        "sync-unit",
        "upstream",
        "high",
        "the source has executed a statement, and the task's `syncers` have `ddl: pause`: {statement}",
        "statements of this task go the other way only. If the target is to have it, `dmctl binlog replace` with the "
        "same statement executes it there; if not, or if it has come there by itself, `dmctl binlog skip` passes "
        "over it",
    ),
    ErrorKind(
        "opposite-unreadable",
        36967,
        "sync-unit",
        "upstream",
        "high",
        "the source's binlog has rows of {table} that no task has written: {why}",
        "the table is one of the task that is named as `opposite`. Drop what somebody has made of it, if that task is "
        "of another program; else start it with a version of dm that the two tasks share",
    ),
    ErrorKind(
        "opposite-statement-unclear",
        36968,
        "sync-unit",
        "upstream",
        "high",
        "whether the opposite task has executed a statement can't be told: the source was started since, and session"
        " {session} was that task's at some time, and may have been another's: {statement}",
        "if the target has what the statement does, `dmctl binlog skip` passes over it; if it was executed by somebody"
        " else, `dmctl binlog replace` with the same statement executes it",
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
        "source-without-binlog",
        36911,
        "sync-unit",
        "upstream",
        "high",
        "source {source} writes no binary log",
        "set log_bin in its configuration, restart it, and start the task again",
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
        "spool-damaged",
        36918,
        "sync-unit",
        "internal",
        "high",
        "the spool file {file} changed after it was written, at offset {offset}: {what}",
        "nothing after the damage was applied, and the task reads the transaction again by itself; if it happens "
        "again, check the disk (dmesg, smartctl) and move the dm home to another disk",
        retryable=True,
    ),
    ErrorKind(
        "xa-prepare-missing",
        36940,
        "sync-unit",
        "upstream",
        "high",
        "XA transaction {xid} was committed, but the rows of its XA PREPARE are missing: the PREPARE lies before "
        "the task's start, or was not logged, or its rows were on another host or in a lost work directory, and the "
        "source has purged the file that they are in",
        "continue on the host that has the task's work directory, or copy it here, or bring the source's binlog file "
        "back, and `dmctl resume-task`; otherwise " + START_LATER + ", or " + LOAD_AGAIN,
    ),
    ErrorKind(
        "xa-rows-left-out",
        36941,
        "sync-unit",
        "internal",
        "high",
        "XA transaction {xid} changed {table} before its XA PREPARE, when the task's rules excluded that table; it "
        "commits now that they include it, and the rows were not kept",
        "exclude the table until the task is past this transaction (" + WITH_NEW_FILE + "), or " + LOAD_AGAIN,
    ),
    ErrorKind(
        "xa-rows-damaged",
        36942,
        "sync-unit",
        "internal",
        "high",
        "the rows of XA transaction {xid}, held since its XA PREPARE, can't be read from {file}: {what}",
        "restore the file from a backup of the work directory and `dmctl resume-task`; otherwise "
        + START_LATER
        + ", or "
        + LOAD_AGAIN
        + "; check the disk (dmesg, smartctl)",
    ),
)
