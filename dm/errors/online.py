"""Errors of online DDL: tables that gh-ost and pt-online-schema-change make."""

from dm.errors.kind import OTHERWISE, WITH_NEW_FILE, ErrorKind

_IN_ITS_PLACE = (
    "`dmctl binlog replace` with the ALTER TABLE statements that make the target's table what the source's is now; or"
    " execute them there by hand and `dmctl binlog skip` this statement"
)
_NO_TOOL = "; if no online DDL tool is at work, `online-ddl: false`: " + WITH_NEW_FILE

KINDS: tuple[ErrorKind, ...] = (
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
        "creates a new one: {statement}",
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
