"""Errors of DDL text and of the schema tracker."""

from dm.errors.kind import LOAD_AGAIN, OTHERWISE, START_LATER, WITH_NEW_FILE, ErrorKind

# Followed by no structure: the statement must not change what the rows behind it look like.
_IGNORE_TEXT = (
    OTHERWISE + "; or "
    'let a filter rule ignore it (schema-pattern "*", table-pattern "*", sql-pattern [...], action Ignore) and do at'
    " the target by hand what it does: " + WITH_NEW_FILE + "; if it changes a table's columns " + LOAD_AGAIN
)

KINDS: tuple[ErrorKind, ...] = (
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
        "ddl-splice-mismatch",
        36930,
        "sync-unit",
        "internal",
        "high",
        "names cannot be replaced in this statement without changing something else ({why}): {statement}",
        _IGNORE_TEXT,
    ),
    ErrorKind(
        "ddl-untrackable",
        44006,
        "schema-tracker",
        "internal",
        "high",
        "cannot track this DDL: {why}: {statement}",
        OTHERWISE
        + "; `dmctl binlog-schema update` sets the structure that the table has behind it; or "
        + START_LATER
        + ", or leave the table out with `block-allow-list`",
    ),
    ErrorKind(
        "structure-not-understood",
        44930,
        "schema-tracker",
        "internal",
        "high",
        "the structure of a table is not understood ({why}): {statement}",
        "leave the table out with `block-allow-list`: " + WITH_NEW_FILE,
    ),
)
