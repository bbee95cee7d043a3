"""What a statement does, one dataclass per kind of operation.

Definitions of columns, indexes and options stay clauses of the statement: `dm.mysql.schema` extracts what it tracks.
"""

from __future__ import annotations

from dataclasses import dataclass

from dm.ident import TableName
from dm.mysql.sql.cursor import Clause


@dataclass(frozen=True, slots=True)
class CreateDatabase:
    """CREATE DATABASE."""

    name: TableName
    options: Clause
    if_not_exists: bool
    or_replace: bool


@dataclass(frozen=True, slots=True)
class AlterDatabase:
    """ALTER DATABASE."""

    name: TableName
    options: Clause


@dataclass(frozen=True, slots=True)
class DropDatabase:
    """DROP DATABASE."""

    name: TableName
    if_exists: bool


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE TABLE, by a body or LIKE another table."""

    table: TableName
    body: Clause
    options: Clause
    like: TableName | None
    if_not_exists: bool
    or_replace: bool


@dataclass(frozen=True, slots=True)
class DropTable:
    """DROP TABLE of one table."""

    table: TableName
    if_exists: bool


@dataclass(frozen=True, slots=True)
class TruncateTable:
    """TRUNCATE TABLE."""

    table: TableName


@dataclass(frozen=True, slots=True)
class RenameTable:
    """RENAME TABLE, or ALTER TABLE .. RENAME: from and to, in order."""

    pairs: tuple[tuple[TableName, TableName], ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ColumnPlace:
    """Where a column goes: first, after another, or (neither) at the end or where it was."""

    first: bool = False
    after: str | None = None


@dataclass(frozen=True, slots=True)
class AddColumn:
    """ADD COLUMN; the definition starts after the name."""

    column: str
    definition: Clause
    place: ColumnPlace
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class DropColumn:
    """DROP COLUMN."""

    column: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class ModifyColumn:
    """MODIFY COLUMN."""

    column: str
    definition: Clause
    place: ColumnPlace
    if_exists: bool


@dataclass(frozen=True, slots=True)
class ChangeColumn:
    """CHANGE COLUMN: new name and new definition."""

    column: str
    name: str
    definition: Clause
    place: ColumnPlace
    if_exists: bool


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """RENAME COLUMN."""

    column: str
    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class AlterDefault:
    """ALTER COLUMN .. SET DEFAULT or DROP DEFAULT (an empty clause)."""

    column: str
    default: Clause
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterVisibility:
    """ALTER COLUMN .. SET VISIBLE or INVISIBLE."""

    column: str
    invisible: bool


@dataclass(frozen=True, slots=True)
class AddIndex:
    """ADD INDEX, UNIQUE, PRIMARY KEY, FULLTEXT, SPATIAL; CREATE INDEX. The definition is as in CREATE TABLE."""

    definition: Clause
    primary: bool
    name: str | None  # from CREATE INDEX, whose definition does not hold it
    if_not_exists: bool
    or_replace: bool = False


@dataclass(frozen=True, slots=True)
class AddForeignKey:
    """ADD FOREIGN KEY."""

    definition: Clause
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class AddCheck:
    """ADD CHECK."""

    definition: Clause
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropIndex:
    """DROP INDEX, in an ALTER TABLE or alone."""

    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class DropPrimaryKey:
    """DROP PRIMARY KEY."""

    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropForeignKey:
    """DROP FOREIGN KEY."""

    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class DropConstraint:
    """DROP CONSTRAINT or DROP CHECK; for CONSTRAINT only the structure tells the kind."""

    name: str
    if_exists: bool
    check: bool = False


@dataclass(frozen=True, slots=True)
class RenameIndex:
    """RENAME INDEX."""

    index: str
    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class AlterIndex:
    """ALTER INDEX .. INVISIBLE or VISIBLE (MySQL), IGNORED or NOT IGNORED (MariaDB)."""

    index: str
    invisible: bool
    if_exists: bool


@dataclass(frozen=True, slots=True)
class ConvertCharset:
    """CONVERT TO CHARACTER SET; the clause is `charset [COLLATE collation]`."""

    options: Clause


@dataclass(frozen=True, slots=True)
class TableOptions:
    """Options of the table: ENGINE, CHARSET, COMMENT ..."""

    options: Clause


@dataclass(frozen=True, slots=True)
class ExchangePartition:
    """EXCHANGE PARTITION .. WITH TABLE: rows move, both structures stay."""

    other: TableName


@dataclass(frozen=True, slots=True)
class OtherAlter:
    """An operation that no tracked structure shows: partitions, keys on or off, rebuilds."""

    clause: Clause


AlterOperation = (
    AddColumn
    | DropColumn
    | ModifyColumn
    | ChangeColumn
    | RenameColumn
    | AlterDefault
    | AlterVisibility
    | AddIndex
    | AddForeignKey
    | AddCheck
    | DropIndex
    | DropPrimaryKey
    | DropForeignKey
    | DropConstraint
    | RenameIndex
    | AlterIndex
    | ConvertCharset
    | TableOptions
    | ExchangePartition
    | OtherAlter
)
Operation = (
    CreateDatabase
    | AlterDatabase
    | DropDatabase
    | CreateTable
    | DropTable
    | TruncateTable
    | RenameTable
    | AlterOperation
)
