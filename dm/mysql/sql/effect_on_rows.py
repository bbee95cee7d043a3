"""What a DDL statement means for the rows that are there before it.

In a stretch that was read and is looked at again (`effect_of`), a row is written with the structure that the target has
now. So every statement between the row and the checkpoint must have left the table's columns and rows as they were;
then the row's bytes mean the same as at the time of the row. Indexes, keys, defaults and comments may have changed.
Anything else, also what is not understood, stands in the way. That an ALTER names only such things is not enough: with
IGNORE it drops rows that a key does not allow, and another engine than InnoDB may keep none of them (BLACKHOLE), or
show those of another server (FEDERATED).

The second part finds statements that write values into existing rows which another server would not write.

The binlog has an ALTER TABLE as a statement, even if it changes rows. Repeated in the same session it mostly produces
the same rows, but not always. A new column has other values on each server if its DEFAULT uses a random number, or the
server's identity or place. And values that are counted or chosen row by row are the same only if the rows are met in
the same order: the numbers of an AUTO_INCREMENT column, and the duplicates that MariaDB's ALTER IGNORE drops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.cursor import Clause
from dm.mysql.sql.operation import (
    AddCheck,
    AddColumn,
    AddForeignKey,
    AddIndex,
    AlterDatabase,
    AlterDefault,
    AlterIndex,
    AlterVisibility,
    ChangeColumn,
    CreateDatabase,
    CreateTable,
    DropConstraint,
    DropDatabase,
    DropForeignKey,
    DropIndex,
    DropPrimaryKey,
    ModifyColumn,
    Operation,
    OtherAlter,
    RenameIndex,
    TableOptions,
)
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.split import split
from dm.mysql.sql.statement import classify, subjects
from dm.mysql.sql.token import tokenize

_KEEPS: Final = (
    AddCheck, AddForeignKey, AddIndex, AlterDatabase, AlterDefault, AlterIndex, AlterVisibility, CreateDatabase,
    DropConstraint, DropForeignKey, DropIndex, DropPrimaryKey, RenameIndex, TableOptions,
)  # fmt: skip
# Of what no structure shows: keys on or off, a rebuild, another order on disk. Partitions may go with their rows.
_REBUILDS: Final = frozenset({"ENABLE", "DISABLE", "FORCE", "ORDER"})
_ELSEWHERE: Final = frozenset({"CONNECTION"})  # options that say where the rows are
_KEYS: Final = (AddForeignKey, DropForeignKey, DropConstraint)


@dataclass(frozen=True, slots=True)
class Effect:
    """What a statement does to tables."""

    named: frozenset[TableName] = frozenset()  # tables and schemas that it is about
    changed: frozenset[TableName] = frozenset()  # of these, those whose columns or rows are others now
    unknown: bool = False  # it may be any table
    other_foreign_keys: frozenset[TableName] = frozenset()  # tables whose foreign keys it changes

    def stands_before(self, tables: Iterable[TableName]) -> list[TableName]:
        """Of these tables, those that are not what they were."""
        return [
            table
            for table in tables
            if self.unknown or table in self.changed or TableName(table.schema, "") in self.changed
        ]


def effect_of(text: str, context: SourceContext, wanted: Callable[[TableName], bool]) -> Effect:
    """What a statement of the binlog does; `wanted` tells whether rows that it changes as a text matter."""
    try:
        statement = classify(text, context)
        if statement.kind == "dml":
            tables = frozenset(statement.tables or ())
            if tables and not any(map(wanted, tables)):
                return Effect()
            return Effect(tables, tables, unknown=not tables)
        if statement.kind != "ddl":
            return Effect()
        pieces = split(text, context)
    except DMError:
        # The syncer has passed it, by an operator or a filter.
        found = frozenset(subjects(text, context))
        return Effect(found, found, unknown=not found)
    named = frozenset(table for piece in pieces for table in piece.tables)
    changed = frozenset(table for piece in pieces if not _keeps(piece) for table in piece.changed)
    keyed = frozenset(piece.table for piece in pieces if any(isinstance(one, _KEYS) for one in piece.operations))
    return Effect(named, changed, other_foreign_keys=keyed)


_KEEPS_ROWS_APART: Final = (
    AddCheck, AddForeignKey, AlterDatabase, AlterDefault, AlterVisibility, CreateDatabase, DropForeignKey, RenameIndex,
)  # fmt: skip
_MAKE_KEYS: Final = frozenset({"UNIQUE", "PRIMARY", "KEY"})


def keeps_each_row(text: str, context: SourceContext) -> bool:
    """Whether a DDL statement leaves all rows there, each found by the key and the values that it had; raises DMError.

    Columns may come; what empties a table, changes a column or touches unique keys does not count as such a statement.
    """
    return all(
        not _ignores(piece) and all(map(_keeps_each_row, piece.operations)) and bool(piece.operations)
        for piece in split(text, context)
    )


def _keeps_each_row(operation: Operation) -> bool:
    match operation:
        case CreateTable(or_replace=replaces) | CreateDatabase(or_replace=replaces):
            return not replaces
        case AddColumn(definition=definition):
            return _MAKE_KEYS.isdisjoint(definition.words)
        case AddIndex(definition=definition, primary=primary, or_replace=replaces):
            return not (primary or replaces or "UNIQUE" in definition.words)
        case _:
            return isinstance(operation, _KEEPS_ROWS_APART)


def _keeps(piece: Piece) -> bool:
    return not _ignores(piece) and all(map(_keeps_rows, piece.operations))


def _ignores(piece: Piece) -> bool:
    """Whether an ALTER drops the rows that it can't keep."""
    if piece.verb != "ALTER TABLE":
        return False
    return any(token.upper == "IGNORE" for token in tokenize(piece.text[: piece.names[0].start], piece.context))


def _keeps_rows(operation: Operation) -> bool:
    match operation:
        case CreateTable(if_not_exists=absent_only, or_replace=replaces):
            return absent_only and not replaces
        case OtherAlter(clause=clause):
            return bool(clause.words) and clause.words[0] in _REBUILDS
        case TableOptions(options=options):
            return _keeps_in_place(options)
        case DropDatabase():
            return False
        case _:
            return isinstance(operation, _KEEPS)


def _keeps_in_place(options: Clause) -> bool:
    words = options.words
    for at in range(len(words)):
        if words[at] in _ELSEWHERE:
            return False
        if words[at] == "ENGINE":
            named = [each.upper for each in options.tokens[at + 1 : at + 3]]
            if "INNODB" not in (named[1:] if named[:1] == ["="] else named[:1]):
                return False
    return True


# Functions that a DEFAULT may call and whose result depends on more than the statement and its session. MariaDB logs
# what MySQL refuses to log (UUID).
_FUNCTIONS: Final = frozenset(
    {
        "CONNECTION_ID", "CURRENT_ROLE", "CURRENT_USER", "DATABASE", "ENCRYPT", "LASTVAL", "LAST_INSERT_ID", "NEXTVAL",
        "PS_CURRENT_THREAD_ID", "PS_THREAD_ID", "RAND", "RANDOM_BYTES", "ROLES_GRAPHML", "SCHEMA", "SESSION_USER",
        "SYSDATE", "SYSTEM_USER", "SYS_GUID", "USER", "UUID", "UUID_SHORT", "UUID_V4", "UUID_V7", "VERSION",
    }
)  # fmt: skip
_WITHOUT_PARENTHESES: Final = frozenset({"CURRENT_ROLE", "CURRENT_USER"})
_SEQUENCES: Final = ("NEXT", "PREVIOUS")  # NEXT VALUE FOR s


@dataclass(frozen=True, slots=True)
class OwnValues:
    """A server's own decision about existing rows."""

    what: str
    ordered: bool = False  # depends on the order of the rows: a single row, or the same order, gives the same result
    column: str | None = None  # AUTO_INCREMENT for an existing column: it numbers only rows without a number
    condition: str = "TRUE"  # of the affected rows


def own_values(piece: Piece) -> list[OwnValues]:
    """The values that the server itself determines for existing rows; empty for most pieces."""
    if piece.verb != "ALTER TABLE":
        return []
    found = [one for operation in piece.operations if (one := _of(operation)) is not None]
    if _ignores(piece):
        found.append(OwnValues("which of the rows with one key stays", ordered=True))
    return found


def numbered(definition: Clause) -> bool:
    """Whether a column is defined as AUTO_INCREMENT, in any of its three spellings."""
    words = definition.words
    attribute = ["SERIAL", "DEFAULT", "VALUE"]
    return (
        "AUTO_INCREMENT" in words
        or words[:1] == ["SERIAL"]
        or any(words[at : at + 3] == attribute for at in range(1, len(words)))
    )


def _of(operation: Operation) -> OwnValues | None:
    if not isinstance(operation, AddColumn | ModifyColumn | ChangeColumn):
        return None
    words = operation.definition.words
    if numbered(operation.definition):
        if isinstance(operation, AddColumn):
            return OwnValues(f"the numbers of the new column {operation.column}", ordered=True)
        name = Ident(operation.column).sql
        return OwnValues(
            f"the numbers that column {operation.column} gets in place of 0 and NULL",
            ordered=True,
            column=operation.column,
            condition=f"{name} IS NULL OR {name} = 0",
        )
    if isinstance(operation, AddColumn) and "DEFAULT" in words:
        function = _called(operation.definition, words.index("DEFAULT") + 1)
        if function:
            return OwnValues(f"{function} as the value of the new column {operation.column}")
    return None


def _called(definition: Clause, start: int) -> str:
    """The first element of a DEFAULT that only the server itself knows; empty if there is none."""
    tokens = definition.tokens[start:]
    for at, token in enumerate(tokens):
        following = tokens[at + 1].upper if at + 1 < len(tokens) else ""
        if token.upper in _FUNCTIONS and (following == "(" or token.upper in _WITHOUT_PARENTHESES):
            return token.upper
        if token.upper in _SEQUENCES and following == "VALUE":
            return f"{token.upper} VALUE"
        if token.upper.startswith("@"):
            return "a variable"
    return ""
