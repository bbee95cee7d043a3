"""Errors of DDL text and of the schema tracker."""

from dm.errors.kind import ErrorKind

_THREE_WAYS = (
    "pass over it with `dmctl binlog skip`, run another statement in its place with `dmctl binlog replace`, "
    'or let a filter rule ignore it: schema-pattern "*", table-pattern "*", sql-pattern [...], action Ignore'
)

KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        "ddl-not-understood",
        36067,
        "sync-unit",
        "internal",
        "high",
        "the statement is not understood ({why}): {statement}",
        _THREE_WAYS,
    ),
    ErrorKind(
        "ddl-splice-mismatch",
        36930,
        "sync-unit",
        "internal",
        "high",
        "names cannot be replaced in this statement without changing something else ({why}): {statement}",
        _THREE_WAYS,
    ),
    ErrorKind(
        "ddl-untrackable",
        44006,
        "schema-tracker",
        "internal",
        "high",
        "cannot track this DDL: {why}: {statement}",
        "see whether the tracked structure is right with `dmctl binlog-schema list` and correct it with "
        "`dmctl binlog-schema update`; or " + _THREE_WAYS,
    ),
    ErrorKind(
        "structure-not-understood",
        44930,
        "schema-tracker",
        "internal",
        "high",
        "the structure of a table is not understood ({why}): {statement}",
        "give the structure with `dmctl binlog-schema update`, or leave the table out with a block-allow list",
    ),
)
