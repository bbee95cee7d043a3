"""Where a table that is altered in place holds other values than the copy of it that an online DDL tool has filled.

A tool copies, row by row, the columns that table and copy both have, by their names. Altered in place, the table keeps
what its own columns hold. That is the same but for what is told here. Some of it the statements alone tell: a column
that is dropped and added again keeps its values in a copy only; under a new name it may keep them (gh-ost's
`--approve-renamed-columns`) or may not (`--skip-renamed-columns`), and no statement says which. And some concerns rows
that there may be: the tools copy with NO_AUTO_VALUE_ON_ZERO, so a 0 stays what ALTER TABLE would number.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.position import Position
from dm.schema.table import TableSchema
from dm.sql.context import SourceContext
from dm.sql.cursor import Clause
from dm.sql.operation import AddColumn, ChangeColumn, DropColumn, ModifyColumn, Operation, RenameColumn
from dm.sql.own_values import numbered
from dm.sql.piece import Piece
from dm.syncer.ddl.session import DdlSession

_LITERALS = ("string", "number", "literal")


def copied_otherwise(pieces: Sequence[Piece], before: TableSchema | None) -> str:
    """Why the copy may hold other values than the table with these statements; empty where they tell nothing."""
    filled = next((column for piece in pieces if (column := _filled_by_row(piece))), None)
    if filled is not None:
        return f"each row of the copy has a value of its own in the new column {filled}"
    columns = _Columns(before)
    for piece in pieces:
        # A server drops columns before it does anything else.
        for operation in sorted(piece.operations, key=lambda one: not isinstance(one, DropColumn)):
            why = columns.follow(operation)
            if why:
                return why
    return ""


def refuse_other_copy(
    piece: Piece, ghost: TableName, target: TableSchema | None, session: DdlSession, position: Position
) -> None:
    """Raise DMError where the target has rows that the piece gives other values than the copy `ghost` has."""
    for operation in piece.operations:
        found = None if target is None else _rows_otherwise(operation, target, piece.context)
        if found is not None and target is not None and session.has_rows(target.name, 1, found[0]):
            raise DMError(
                "online-ddl-different",
                position=position,
                ghost=ghost,
                real=piece.table,
                why=found[1],
                statement=piece.text,
            )


class _Columns:
    """Which of a copy's columns are new, and which of the table's it has lost, while its statements go by."""

    def __init__(self, before: TableSchema | None) -> None:
        self._before = before
        self._new: set[str] = set()
        self._gone: set[str] = set()

    def follow(self, operation: Operation) -> str:
        """Why the copy holds other values from here on; empty where it does not."""
        if isinstance(operation, DropColumn):
            self._drop(operation)
        elif isinstance(operation, AddColumn):
            return self._add(operation)
        elif isinstance(operation, ChangeColumn | RenameColumn):
            return self._rename(operation.column.lower(), operation.name.lower())
        return ""

    def _drop(self, operation: DropColumn) -> None:
        name = operation.column.lower()
        if name in self._new:
            self._new.remove(name)
        elif self._maybe_there(name):
            self._gone.add(name)

    def _maybe_there(self, name: str) -> bool:
        return self._before is None or self._before.column(name) is not None

    def _add(self, operation: AddColumn) -> str:
        name = operation.column.lower()
        if name in self._gone and not _generated(operation.definition):
            return _added_again(name)
        if name in self._gone or not (operation.if_not_exists and self._maybe_there(name)):
            self._new.add(name)
        return ""

    def _rename(self, old: str, new: str) -> str:
        if old == new or (old not in self._new and not self._maybe_there(old)):
            return ""
        if old not in self._new:
            return f"column {old} is called {new}, and whether the tool has copied it is not told"
        if new in self._gone:
            return _added_again(new)
        self._new.remove(old)
        self._new.add(new)
        return ""


def _added_again(column: str) -> str:
    return f"column {column} is dropped and added again, and the copy has its old values"


def _generated(definition: Clause) -> bool:
    """Whether the server computes the column, whatever is copied."""
    depth = 0
    for token, following in pairwise(definition.tokens):
        depth += (token.upper == "(") - (token.upper == ")")
        if depth == 0 and token.kind == "word" and token.upper == "AS" and following.upper == "(":
            return True
    return False


def _rows_otherwise(operation: Operation, target: TableSchema, context: SourceContext) -> tuple[str, str] | None:
    """The rows, as a condition, that get another value in place than in a copy, and why."""
    if not isinstance(operation, ModifyColumn | ChangeColumn):
        return None
    name, column = Ident(operation.column).sql, target.column(operation.column)
    if numbered(operation.definition):
        if column is not None and column.auto_increment:
            return None  # both servers keep its zeros
        return f"{name} IS NULL OR {name} = 0", f"the copy has other numbers in column {operation.column}"
    words = _words(operation.definition)
    never_null = ("NOT", "NULL") in pairwise(words)
    if not context.explicit_defaults_for_timestamp:
        never_null = never_null or "NULL" not in words
    if words[:1] == ["TIMESTAMP"] and never_null:
        return f"{name} IS NULL", f"the copy has other times in column {operation.column} where there was NULL"
    return None


def _filled_by_row(piece: Piece) -> str | None:
    """A column that the piece adds and the server fills with other values in a copy than in the table itself."""
    for operation in piece.operations:
        if isinstance(operation, AddColumn) and _varies(operation.definition, piece.context):
            return operation.column
    return None


def _words(definition: Clause) -> list[str]:
    return [token.upper if token.kind == "word" else "" for token in definition.tokens]


def _varies(definition: Clause, context: SourceContext) -> bool:
    words = _words(definition)
    if numbered(definition):
        return True
    if "DEFAULT" not in words:
        may_be_null = "NULL" in words and "NOT" not in words
        return words[:1] == ["TIMESTAMP"] and not context.explicit_defaults_for_timestamp and not may_be_null
    value = [token for token in definition.tokens[words.index("DEFAULT") + 1 :] if token.text not in ("+", "-")]
    literal = bool(value) and (value[0].kind in _LITERALS or value[0].upper in ("NULL", "TRUE", "FALSE"))
    return not literal and not (len(value) > 1 and value[0].kind == "word" and value[1].kind == "string")
