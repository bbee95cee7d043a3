"""Errors of DDL: statements, structures, and what the target makes of them."""

from dm.errors.kind import LOAD_AGAIN, OTHERWISE, START_LATER, WITH_NEW_FILE, ErrorKind

_IGNORE_TEXT = (
    OTHERWISE + "; or "
    'let a filter rule ignore it (schema-pattern "*", table-pattern "*", sql-pattern [...], action Ignore) and do at'
    " the target by hand what it does: " + WITH_NEW_FILE + "; if it changes a table's columns " + LOAD_AGAIN
)

_IN_ITS_PLACE = (
    "`dmctl binlog replace` with the ALTER TABLE statements that make the target's table what the source's is now; or"
    " execute them there by hand and `dmctl binlog skip` this statement"
)
_NO_TOOL = "; if no online DDL tool is at work, `online-ddl: false`: " + WITH_NEW_FILE

KINDS: tuple[ErrorKind, ...] = (
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
        of_tables=True,
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
        of_tables=True,
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
        "ddl-filter-cuts",
        36903,
        "sync-unit",
        "internal",
        "high",
        "an event filter leaves out the operation by which the old column {column} gives its name to a new one: the "
        "target's old values would stand for the new ones: {statement}",
        OTHERWISE + "; or let the filter take all of its operations or none: " + WITH_NEW_FILE,
        of_tables=True,
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
        of_tables=True,
    ),
    ErrorKind(
        "ddl-defect",
        36980,
        "sync-unit",
        "internal",
        "high",
        "dm failed to process this statement ({what}): {statement}",
        "this is a defect of dm, and the log says where; " + OTHERWISE,
        of_tables=True,
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
        of_tables=True,
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
        of_tables=True,
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
        of_tables=True,
    ),
    ErrorKind(
        "ddl-collation-unknown",
        36955,
        "sync-unit",
        "downstream",
        "high",
        "the target does not know a collation or character set of a DDL statement: {statement}",
        "for a collation, name a collation that the target knows under `collation-map` in the task file, as "
        "`collation-map: {{utf8mb4_ja_0900_as_cs: utf8mb4_unicode_520_ci}}`; " + WITH_NEW_FILE + ". For a character "
        "set, `dmctl binlog replace` with the statement in a character set that the target knows and that has all its "
        "characters, as utf8mb4. Or " + OTHERWISE,
        of_tables=True,
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
        of_tables=True,
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
        of_tables=True,
    ),
    ErrorKind(
        "ddl-charset-unclear",
        36997,
        "sync-unit",
        "upstream",
        "high",
        "{table} was created LIKE a temporary table, and its default character set is told neither by the statement nor"
        " by the source, which has the table no more or has changed it: {statement}",
        "`dmctl binlog replace` with the same statement and the temporary table's CHARACTER SET and COLLATE after its"
        " columns; or `dmctl binlog skip` if the table is gone at the source and none of its rows is wanted",
        of_tables=True,
    ),
    ErrorKind(
        "ddl-default-unclear",
        36912,
        "sync-unit",
        "upstream",
        "high",
        "CHARACTER SET DEFAULT is the default of the schema {schema} in {statement}, and dm does not know that one",
        "`dmctl binlog replace` with the same statement, and in place of DEFAULT the character set of {table}, which "
        "SHOW CREATE TABLE tells at the source",
        of_tables=True,
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
        of_tables=True,
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
        of_tables=True,
    ),
    ErrorKind(
        "ddl-not-understood",
        36067,
        "sync-unit",
        "internal",
        "high",
        "the statement is not understood ({why}): {statement}",
        _IGNORE_TEXT,
    ),
    ErrorKind(
        "column-type-unknown",
        36969,
        "sync-unit",
        "internal",
        "high",
        "column {column} of table {table} is of type {type}, which is not known",
        "leave the table out by `block-allow-list`; or give the column another type at the source and, where a running "
        "task has come to the statement, " + _IGNORE_TEXT,
        of_tables=True,
    ),
    ErrorKind(
        "ddl-splice-mismatch",
        36930,
        "sync-unit",
        "internal",
        "high",
        "names cannot be replaced in this statement without changing something else ({why}): {statement}",
        _IGNORE_TEXT,
        of_tables=True,
    ),
    ErrorKind(
        "ddl-untrackable",
        44006,
        "schema-tracker",
        "internal",
        "high",
        "cannot track this DDL: {why}: {statement}",
        OTHERWISE
        + "; `dmctl binlog-schema update` sets the structure that the table has after it; or "
        + START_LATER
        + ", or leave the table out with `block-allow-list`",
        of_tables=True,
    ),
    ErrorKind(
        "structure-not-understood",
        44930,
        "schema-tracker",
        "internal",
        "high",
        "the structure of a table is not understood ({why}): {statement}",
        "leave the table out with `block-allow-list`: " + WITH_NEW_FILE,
        of_tables=True,
    ),
    ErrorKind(
        "online-ddl-rule-mismatch",
        20049,
        "config",
        "internal",
        "high",
        "half of this statement is an online DDL, but {table} matches no rule of `{key}` ({rules}): {statement}",
        "let `{key}` match the tool's names: " + WITH_NEW_FILE + "; or " + _IN_ITS_PLACE + _NO_TOOL,
    ),
    ErrorKind(
        "online-ddl-several-tables",
        36041,
        "sync-unit",
        "internal",
        "high",
        "the statement names tables of an online DDL together with others: {statement}",
        OTHERWISE + _NO_TOOL,
    ),
    ErrorKind(
        "online-ddl-renamed-to-ghost",
        36044,
        "sync-unit",
        "internal",
        "high",
        "a table gets the name of a ghost table, {table}: {statement}",
        OTHERWISE + _NO_TOOL,
    ),
    ErrorKind(
        "online-ddl-ghost-renamed",
        36045,
        "sync-unit",
        "internal",
        "high",
        "a ghost or trash table gets the name of a ghost table, {table}: {statement}",
        OTHERWISE + _NO_TOOL,
    ),
    ErrorKind(
        "online-ddl-unknown",
        36046,
        "sync-unit",
        "internal",
        "high",
        "{ghost} replaces {real}, but its changes are not known ({why}): {statement}",
        _IN_ITS_PLACE + _NO_TOOL,
        of_tables=True,
    ),
    ErrorKind(
        "online-ddl-different",
        36933,
        "sync-unit",
        "internal",
        "high",
        "{ghost} replaces {real}, but its structure is not what the statements on it make of {real} ({why}): "
        "{statement}",
        _IN_ITS_PLACE + _NO_TOOL,
        of_tables=True,
    ),
    ErrorKind(
        "online-ddl-trash-returns",
        36934,
        "sync-unit",
        "internal",
        "high",
        "{trash} replaces {real}, and the target has no such table: {statement}",
        "copy the table to the target by hand, or undo there what the online DDL did, and `dmctl binlog skip` this"
        " statement" + _NO_TOOL,
    ),
    ErrorKind(
        "online-ddl-table-moved",
        36935,
        "sync-unit",
        "internal",
        "high",
        "{real} was renamed to {trash}, which is not migrated; the target still has {target}, and this statement "
        "creates a new table: {statement}",
        "drop or rename {target_sql} at the target and `dmctl resume-task`; " + OTHERWISE + _NO_TOOL,
    ),
    ErrorKind(
        "online-ddl-real-dropped",
        36936,
        "sync-unit",
        "internal",
        "high",
        "{real} is dropped while the source has its ghost table {ghost}, which may replace it: {statement}",
        "`dmctl binlog skip` if the tool drops the table to replace it (pt-osc's drop_swap); `dmctl binlog "
        "replace` with this DROP TABLE if the table is really dropped",
    ),
)
