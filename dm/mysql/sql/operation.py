"""What a statement does, one dataclass per kind of operation, and the options of tables.

Definitions of columns, indexes and options stay clauses of the statement: `dm.mysql.schema` extracts what it tracks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dm.ident import TableName
from dm.mysql.sql.cursor import Clause, Cursor, NameRef


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


# Options of tables: `NAME [=] value`, in CREATE TABLE and ALTER TABLE.

_OPTIONS: Final = frozenset(
    {
        "ENGINE", "TYPE", "AUTO_INCREMENT", "AVG_ROW_LENGTH", "CHARSET", "COLLATE", "CHECKSUM", "COMMENT",
        "COMPRESSION", "CONNECTION", "DATA DIRECTORY", "INDEX DIRECTORY", "DELAY_KEY_WRITE", "ENCRYPTION",
        "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE", "SECONDARY_ENGINE", "INSERT_METHOD", "KEY_BLOCK_SIZE",
        "MAX_ROWS", "MIN_ROWS", "PACK_KEYS", "PASSWORD", "ROW_FORMAT", "STATS_AUTO_RECALC", "STATS_PERSISTENT",
        "STATS_SAMPLE_PAGES", "STORAGE", "TABLESPACE", "TABLE_CHECKSUM", "AUTOEXTEND_SIZE", "UNION",
        "START TRANSACTION", "TRANSACTIONAL", "PAGE_CHECKSUM", "SEQUENCE",
    },
)  # fmt: skip
# Words that end a table's options or begin something else (sql_yacc.yy of both servers).
_NO_OPTION: Final = frozenset(
    {
        "PARTITION", "REMOVE", "AS", "SELECT", "IGNORE", "REPLACE", "WITH", "TABLE", "VALUES", "LIKE", "(", ")", ",",
        "", "ADD", "DROP", "ALTER", "MODIFY", "CHANGE", "RENAME", "CONVERT", "ORDER", "ALGORITHM", "LOCK", "EXCHANGE",
    },
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TableOption:
    """One option; the name in upper case, the value unquoted."""

    name: str
    value: str


def is_table_option(cursor: Cursor) -> bool:
    """Whether an option comes next."""
    token = cursor.peek()
    if token is not None and token.kind == "name":  # MariaDB's SHOW CREATE TABLE quotes an engine's own options
        return cursor.word(1) == "="
    return token is not None and token.kind == "word" and token.upper not in _NO_OPTION


def _name(cursor: Cursor) -> str:
    cursor.accept("DEFAULT")
    if cursor.accept("CHARACTER", "SET") or cursor.accept("CHAR", "SET") or cursor.accept("CHARSET"):
        return "CHARSET"
    word = cursor.take().text.upper()
    if word in ("DATA", "INDEX"):
        cursor.expect("DIRECTORY")
        return f"{word} DIRECTORY"
    if word == "START":
        cursor.expect("TRANSACTION")
        return "START TRANSACTION"
    return word


def read_table_options(cursor: Cursor, names: list[NameRef]) -> list[TableOption]:
    """Read options up to their end; adds tables of a UNION to `names`."""
    options = []
    while is_table_option(cursor):
        name = _name(cursor)
        if name == "START TRANSACTION":
            options.append(TableOption(name, ""))
            continue
        if name == "STORAGE":  # TABLESPACE x STORAGE DISK
            options.append(TableOption(name, cursor.take().text))
            continue
        # MariaDB's engines define their own options, always with an equals sign in SHOW CREATE TABLE.
        if not cursor.accept("=") and name not in _OPTIONS:
            cursor.fail(f"{name} is not known as an option of a table")
        if name == "UNION":
            group = cursor.skip_group()
            inner = cursor.within(group)
            while not inner.done:
                names.append(inner.table())
                inner.accept(",")
            options.append(TableOption(name, ""))
            continue
        token = cursor.take()
        if token.kind == "symbol":
            cursor.at -= 1
            cursor.fail(f"expected a value of the option {name}")
        options.append(TableOption(name, token.text))
        cursor.accept(",")
    return options
