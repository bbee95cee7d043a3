"""Errors of applying rows: what the target has, and what a row should find or become there."""

from dm.errors.kind import LOAD_AGAIN, START_LATER, WITH_NEW_FILE, ErrorKind

KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        "target-names-alike",
        36938,
        "sync-unit",
        "downstream",
        "high",
        "the target ignores the case of names (`lower_case_table_names`): {table} and {other_table} of the source "
        "would be the same table there, {target} and {other_target}",
        "send one of them to another name with `routes`, or merge both under one name, with `case-sensitive: true` "
        "so that patterns tell them apart; or exclude one with `block-allow-list`: " + WITH_NEW_FILE,
    ),
    ErrorKind(
        "column-missing",
        36920,
        "sync-unit",
        "internal",
        "high",
        "target table {target} lacks columns of source table {source}: {columns}",
        "add them to the target (`ALTER TABLE {target_sql} ADD COLUMN {first} ...`) and `dmctl resume-task`; or "
        "exclude the table with `block-allow-list`: " + WITH_NEW_FILE,
        of_tables=True,
    ),
    ErrorKind(
        "target-table-altered",
        36978,
        "sync-unit",
        "downstream",
        "high",
        "target table {table} is no longer as this run knows it: somebody, or another task or source, has altered or "
        "dropped it",
        "`dmctl resume-task` looks at the table anew: the task goes on, or names what the table lacks",
        of_tables=True,
    ),
    ErrorKind(
        "columns-narrower",
        36974,
        "sync-unit",
        "downstream",
        "high",
        "columns of target table {target} may silently store other values than source table {source} has: {columns}",
        "give the target's columns the source's types (`ALTER TABLE {target_sql} MODIFY {first} ...`) and `dmctl "
        "resume-task`; or, if the target's values are good enough, set `narrower-columns: accept` in `syncers`: "
        + WITH_NEW_FILE
        + ". For a MariaDB's JSON, which is a text, LONGTEXT with CHECK (json_valid(..)) is wide enough. MySQL's JSON "
        "is not: it rounds numbers of many digits",
        of_tables=True,
    ),
    ErrorKind(
        "row-missing",
        36921,
        "sync-unit",
        "downstream",
        "high",
        "{operation} on {table} found no row at the target with {key}",
        "somebody else changed the target, or it did not start from the source's data: restore the row as the "
        "source had it and `dmctl resume-task`, or load the table again. If the table has a key, `safe-mode: true` "
        "in `syncers` lets the source's rows win; `missing-row: count` counts such rows and continues without "
        "them: " + WITH_NEW_FILE,
        values=("key",),
        of_tables=True,
    ),
    ErrorKind(
        "partial-row-image",
        11126,
        "binlog-op",
        "upstream",
        "high",
        "a row image of {table} lacks column {column}, without which the change can't be applied exactly",
        "`SET GLOBAL binlog_row_image = FULL` at the source, and the same in sessions that set their own value; then "
        + LOAD_AGAIN
        + ", or "
        + START_LATER,
        of_tables=True,
    ),
    ErrorKind(
        "member-missing",
        36923,
        "sync-unit",
        "downstream",
        "high",
        "column {column} of the target has no member {label!r}",
        "add the member to the target's ENUM or SET column and resume the task",
        values=("label",),
        of_tables=True,
    ),
    ErrorKind(
        "write-conflict",
        36977,
        "sync-unit",
        "downstream",
        "high",
        "both sides have written the same row: {operation} on {table} with {key}. The source had {before} and now has "
        "{after}; the target has {found}",
        "nothing was overwritten. Let the source's write win: give the target's row what the source had, in a session "
        "with `SET sql_log_bin = 0`, and `dmctl resume-task`. Let the target's win: do the same, and once the task is "
        "past it, give the row the target's values again in such a session. The task in the other direction meets the "
        "other side's write: decide alike there",
        values=("key", "before", "after", "found"),
    ),
    ErrorKind(
        "conflicts-contradict",
        36919,
        "sync-unit",
        "upstream",
        "high",
        "task {task}, the opposite of this one, {why}: the two sides would end with different rows",
        "`source-wins` belongs to `target-wins`, and `pause` to `pause`; lists and routes of one task are those of the "
        "other from its end. Stop both tasks before a change, and start them with their new files: " + WITH_NEW_FILE,
    ),
    ErrorKind(
        "conflicts-not-begun",
        36981,
        "sync-unit",
        "upstream",
        "medium",
        "task {task}, the opposite of this one, has not begun to follow the target, so nothing tells which of the "
        "target's writes the source has",
        "start {task}, whose source wins, and then resume this task: `dmctl resume-task`",
        retryable=True,
    ),
    ErrorKind(
        "conflicts-structure",
        36956,
        "sync-unit",
        "downstream",
        "high",
        "whether a row of {table} was written on both sides can't be told: {why}, and the source wrote its row before "
        "it had that",
        "nothing was overwritten. Let statements that empty or change tables rest while both sides write; "
        "`binlog_row_metadata = FULL` at the target keeps other statements from this. Stop both tasks and start them "
        "with files without `conflicts`: rows are written as they come then. A row that is missing, or whose key is "
        "taken, pauses, and a row with other values is written over. Once both are past this place, start them with "
        "`conflicts` again; `dmctl diff` shows what differs",
    ),
    ErrorKind(
        "conflicts-key-unclear",
        36949,
        "sync-unit",
        "downstream",
        "high",
        "which rows of {table} are the same on both sides can't be told by its key {key}: dm does not know how the "
        "target compares its values, or the source has another key",
        "give the table a primary key of other types or collations on both sides, or leave it out of the task with "
        "`block-allow-list`; `conflicts: pause` needs no such key",
    ),
    ErrorKind(
        "conflicts-unread",
        36922,
        "sync-unit",
        "downstream",
        "high",
        "what others have written at the target since {place} of its binlog can't be read: {why}",
        "the target's account needs REPLICATION SLAVE and REPLICATION CLIENT (MariaDB: BINLOG MONITOR) there. Where "
        "the target has purged the file: stop both tasks, make the sides equal (`dmctl diff --fix-sql`), and start "
        "both anew from the present places, `--remove-meta`",
    ),
    ErrorKind(
        "duplicate-key",
        36924,
        "sync-unit",
        "downstream",
        "high",
        "the target already has a row with a key of this change: {statement}",
        "the cause names key and value. Two sources that write the same key need different tables or keys. Delete a "
        "row that another writer left, then `dmctl resume-task`; or `insert-mode: replace` in `syncers` lets the later "
        "row win: " + WITH_NEW_FILE,
        of_tables=True,
    ),
    ErrorKind(
        "target-table-missing",
        36070,
        "sync-unit",
        "downstream",
        "high",
        "the target has no table {table}{unread}",
        "`dmctl reload-table .. --recreate` and `dmctl resume-task` bring it back with all its rows; or, without the "
        "rows that it had, create it at the target, or route or filter the source table, and resume the task",
        of_tables=True,
    ),
    ErrorKind(
        "target-table-unsuitable",
        36929,
        "sync-unit",
        "downstream",
        "high",
        "target table {table} can't take changes: {reason}",
        "replicate into a base table of a transactional engine (`ALTER TABLE {table_sql} ENGINE=InnoDB`), then resume",
        of_tables=True,
    ),
    ErrorKind(
        "foreign-key-kin-keyless",
        36957,
        "sync-unit",
        "downstream",
        "high",
        "the target checks foreign keys of {table}, and the source does not fill the columns of its key",
        "rows without a key and checked foreign keys can't be brought into one order: give the table a primary key "
        "of columns that the source has, or remove `foreign_key_checks` from `session` under `target-database`: "
        + WITH_NEW_FILE,
    ),
    ErrorKind(
        "value-changed",
        36931,
        "sync-unit",
        "downstream",
        "high",
        "{operation} on {table}: the target would store another value than the source has",
        "compare the column types of source and target; the target must have room for a row with an ENUM error value",
        of_tables=True,
    ),
    ErrorKind(
        "expression-zone-unknown",
        36992,
        "sync-unit",
        "downstream",
        "high",
        "{table} computes values from TIMESTAMPs, which depend on the time zone, and the target has no name for the"
        " zone in which the source computes them ({zone})",
        "load the zones (`mysql_tzinfo_to_sql /usr/share/zoneinfo | mysql -u root mysql` at a MySQL or MariaDB; a TiDB"
        " takes them from the directory /usr/share/zoneinfo of each tidb-server's host: install tzdata there),"
        " then `dmctl resume-task`. Or, if the source's `time_zone` is SYSTEM, write its zone as `timezone` in the task"
        " file: " + WITH_NEW_FILE,
        of_tables=True,
    ),
    ErrorKind(
        "computed-value-differs",
        36993,
        "sync-unit",
        "downstream",
        "high",
        "the target computes another value than the source has stored, in {table} for the row {key}: {stored} at the"
        " source",
        "the session that wrote the row had another time_zone than the source's server, in whose zone the target"
        " computes. Where all applications of the source set one themselves (Django: `+00:00`), write it as"
        " `application-time-zone` of the source under `mysql-instances` in the task file: "
        + WITH_NEW_FILE
        + ". Else no replica computes what sessions of several zones have stored: at the target make the column an"
        " ordinary one (`ALTER TABLE {table} MODIFY ..` without the expression), which gets the source's values; then"
        " `dmctl resume-task`",
        values=("key", "stored"),
        of_tables=True,
    ),
    ErrorKind(
        "computed-key-met",
        36964,
        "sync-unit",
        "downstream",
        "high",
        "two rows of the source have the same unique key {index} of {table}, which the target computes",
        "a session of the source with another time_zone or sql_mode than its server has computed another key;"
        " check-task names what such keys depend on. Where all applications of the source set one time_zone, write it"
        " as `application-time-zone` of the source under `mysql-instances` in the task file: " + WITH_NEW_FILE + "."
        " Else at the target `ALTER TABLE {table} DROP INDEX {index}`, and add it without UNIQUE if it is needed; then"
        " `dmctl resume-task`",
        of_tables=True,
    ),
    ErrorKind(
        "own-key-met",
        36913,
        "sync-unit",
        "downstream",
        "high",
        "two rows have the same unique key {index} of {table}, which source table {source_table} does not have: {rows}."
        " One would go for the other",
        "if both are at the source, the target can't have both: make the index an ordinary one there (`ALTER TABLE"
        " {table} DROP INDEX .., ADD INDEX ..`), or change one of the rows at the source; then `dmctl resume-task`. If"
        " the source has moved the key from one to the other, and the task replays changes (`safeMode` of"
        " `query-status`): do the same, and make the index unique again once safe mode is over",
        values=("rows",),
        of_tables=True,
    ),
    ErrorKind(
        "computed-key-differs",
        36989,
        "sync-unit",
        "downstream",
        "high",
        "the target computes another value of a unique key than the source, in {table} for the row {key}: {stored} at"
        " the source",
        "the session that wrote the row had another time_zone than the source's server, in whose zone the target"
        " computes. Where all applications of the source set one themselves, write it as `application-time-zone` of the"
        " source under `mysql-instances` in the task file: "
        + WITH_NEW_FILE
        + ". Else at the target make the unique indexes over these columns ordinary ones (`ALTER TABLE {table} DROP"
        " INDEX .., ADD INDEX ..`); then `dmctl resume-task`",
        values=("key", "stored"),
        of_tables=True,
    ),
)
