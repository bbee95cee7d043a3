"""DM's names of DDL operations, as event filters spell them.

A filter takes all that belongs together or none of it. CREATE OR REPLACE is such a whole: it drops rows and makes a
table, so it has both names, whether the target executes it at once or as a DROP and a CREATE (`dm.sql.split`). A filter
that keeps the target's rows from `drop table` thus keeps them from it, and one of `create table` leaves no DROP behind.
The operations of an ALTER TABLE are filtered one by one, as in DM.
"""

from __future__ import annotations

from typing import Final

from dm.sql.cursor import Clause
from dm.sql.operation import (
    AddCheck,
    AddColumn,
    AddForeignKey,
    AddIndex,
    AlterDatabase,
    AlterDefault,
    AlterIndex,
    AlterVisibility,
    ChangeColumn,
    ConvertCharset,
    CreateDatabase,
    CreateTable,
    DropColumn,
    DropConstraint,
    DropDatabase,
    DropForeignKey,
    DropIndex,
    DropPrimaryKey,
    DropTable,
    ExchangePartition,
    ModifyColumn,
    Operation,
    OtherAlter,
    RenameColumn,
    RenameIndex,
    RenameTable,
    TableOptions,
    TruncateTable,
)

_FIXED: Final[dict[type, str]] = {
    CreateDatabase: "create database",
    AlterDatabase: "alter database",
    DropDatabase: "drop database",
    CreateTable: "create table",
    DropTable: "drop table",
    TruncateTable: "truncate table",
    RenameTable: "rename table",
    AddColumn: "add column",
    DropColumn: "drop column",
    ModifyColumn: "modify column",
    RenameColumn: "rename column",
    AlterVisibility: "alter table",
    AddForeignKey: "add foreign key",
    AddCheck: "modify constraint",
    DropIndex: "drop index",
    DropPrimaryKey: "drop primary key",
    DropForeignKey: "drop foreign key",
    DropConstraint: "modify constraint",
    RenameIndex: "rename index",
    AlterIndex: "alter index visibility",
    ConvertCharset: "modify table charset and collate",
    ExchangePartition: "exchange table partition",
}
_OPTIONS: Final = (
    ("COMMENT", "modify table comment"),
    ("AUTO_INCREMENT", "rebase auto id"),
    ("ENGINE", "modify storage engine"),
    ("CHARSET", "modify table charset and collate"),
    ("CHAR", "modify table charset and collate"),
    ("CHARACTER", "modify table charset and collate"),
    ("COLLATE", "modify table charset and collate"),
)
_PARTITION_EVENTS: Final = {
    ("ADD", "PARTITION"): "add table partition",
    ("DROP", "PARTITION"): "drop table partition",
    ("TRUNCATE", "PARTITION"): "truncate table partition",
    ("REORGANIZE", "PARTITION"): "reorganize table partition",
    ("REBUILD", "PARTITION"): "rebuild table partition",
    ("COALESCE", "PARTITION"): "coalesce table partition",
    ("PARTITION", "BY"): "alter table partitioning",
    ("REMOVE", "PARTITIONING"): "remove table partitioning",
}


def _other(clause: Clause) -> str:
    words = [token.upper for token in clause.tokens[:2]]
    if words[:1] in (["CHECK"], ["CONSTRAINT"]):
        return "modify constraint"
    return _PARTITION_EVENTS.get((words[0], words[1]), "alter table") if len(words) > 1 else "alter table"


def events_of(operation: Operation, verb: str) -> tuple[str, ...]:
    """DM's event names of an operation; `alter table` if it has no name of its own."""
    if isinstance(operation, TableOptions):
        words = {token.upper for token in operation.options.tokens}
        return tuple(dict.fromkeys(event for word, event in _OPTIONS if word in words)) or ("alter table",)
    if isinstance(operation, CreateTable | CreateDatabase) and operation.or_replace:
        return (_FIXED[type(operation)], _FIXED[DropTable if isinstance(operation, CreateTable) else DropDatabase])
    return (_event_of(operation, verb),)


def _event_of(operation: Operation, verb: str) -> str:
    fixed = _FIXED.get(type(operation))
    if fixed is not None:
        return fixed
    if isinstance(operation, AddIndex):
        if verb == "CREATE INDEX":
            return "create index"
        return "add primary key" if operation.primary else "alter table"
    if isinstance(operation, AlterDefault):
        return "set default value" if operation.default.tokens else "modify default value"
    if isinstance(operation, ChangeColumn):
        return "modify column" if operation.column.lower() == operation.name.lower() else "rename column"
    assert isinstance(operation, OtherAlter)
    return _other(operation.clause)
