"""Where the statements of an online DDL tell that the copy holds other values than the table altered in place.

A tool copies, row by row, the columns that table and copy both have, by their names. Altered in place, the table keeps
what its own columns hold. That is the same but for what is told here: a column that is dropped and added again keeps
its values in a copy only; under a new name it may keep them (gh-ost's `--approve-renamed-columns`) or may not
(`--skip-renamed-columns`), and no statement says which. What depends on the rows that there are is checked before a
piece is executed (`dm.syncer.ddl.checks.copied_rows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from dm.schema.table import TableSchema
from dm.sql.context import SourceContext
from dm.sql.cursor import Clause
from dm.sql.operation import AddColumn, ChangeColumn, DropColumn, Operation, RenameColumn
from dm.sql.own_values import numbered
from dm.sql.piece import Piece

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


def _filled_by_row(piece: Piece) -> str | None:
    """A column that the piece adds and the server fills with other values in a copy than in the table itself."""
    for operation in piece.operations:
        if isinstance(operation, AddColumn) and _varies(operation.definition, piece.context):
            return operation.column
    return None


def _varies(definition: Clause, context: SourceContext) -> bool:
    words = definition.words
    if numbered(definition):
        return True
    if "DEFAULT" not in words:
        may_be_null = "NULL" in words and "NOT" not in words
        return words[:1] == ["TIMESTAMP"] and not context.explicit_defaults_for_timestamp and not may_be_null
    value = [token for token in definition.tokens[words.index("DEFAULT") + 1 :] if token.text not in ("+", "-")]
    literal = bool(value) and (value[0].kind in _LITERALS or value[0].upper in ("NULL", "TRUE", "FALSE"))
    return not literal and not (len(value) > 1 and value[0].kind == "word" and value[1].kind == "string")
