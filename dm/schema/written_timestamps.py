"""What a TIMESTAMP means without explicit_defaults_for_timestamp, written out for a target that does not know it.

At such a source a TIMESTAMP without NULL is NOT NULL, the table's first one is filled and kept up to date, and others
are zero by default. Targets are told so by the session's variable; TiDB has it always on and refuses to have it set.
Which TIMESTAMP is the first one depends on the whole table. So the source's table after the statement is asked, and
what it has and the statement does not say is inserted behind the type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

from dm.errors import DMError
from dm.schema.column_type import read_type
from dm.schema.table import Column, TableSchema
from dm.sql.alter import definition_kind
from dm.sql.context import SourceContext
from dm.sql.cursor import Clause, Cursor, outside_parentheses, split_at_commas
from dm.sql.operation import AddColumn, ChangeColumn, CreateTable, ModifyColumn, Operation
from dm.sql.piece import Piece

_NO_DIGITS: Final = "(0)"


def with_written_timestamps(piece: Piece, target: SourceContext, after: Callable[[], TableSchema | None]) -> Piece:
    """The piece with all that its TIMESTAMPs have; `after` gives the source's table behind it, None if unknown."""
    if not target.tidb or piece.context.explicit_defaults_for_timestamp:
        return piece
    found = [each for operation in piece.operations for each in _timestamps(operation, piece.context)]
    schema = after() if found else None
    text = piece.text
    for name, definition, end in reversed(found):
        column = None if schema is None else schema.column(name)
        if column is None:
            why = (
                f"what TIMESTAMP {name} is without explicit_defaults_for_timestamp depends on a table that is not known"
            )
            raise DMError("ddl-not-understood", statement=piece.text, why=why)
        text = f"{text[:end]}{_unsaid(column, definition)}{text[end:]}"
    return piece if text == piece.text else Piece.of(text, piece.context)


def _timestamps(operation: Operation, context: SourceContext) -> Iterator[tuple[str, Clause, int]]:
    """Their names, their definitions, and where the type ends."""
    for name, definition in _definitions(operation, context):
        cursor = Cursor(definition, context)
        if read_type(cursor).base == "timestamp":
            yield name, definition, definition.tokens[cursor.at - 1].end


def _definitions(operation: Operation, context: SourceContext) -> Iterator[tuple[str, Clause]]:
    if isinstance(operation, AddColumn | ModifyColumn):
        yield operation.column, operation.definition
    elif isinstance(operation, ChangeColumn):
        yield operation.name, operation.definition
    elif isinstance(operation, CreateTable):
        for element in split_at_commas(operation.body):
            cursor = Cursor(element, context)
            if definition_kind(cursor) == "column":
                yield cursor.name(), cursor.rest()


def _unsaid(column: Column, definition: Clause) -> str:
    if column.generated is not None:
        return ""
    words = [token.upper for token in outside_parentheses(definition)]
    unsaid = ""
    if not column.nullable and not any(word == "NULL" and before != "DEFAULT" for before, word in pairwise(words)):
        unsaid += " NOT NULL"
    if column.default is not None and "DEFAULT" not in words:
        unsaid += f" DEFAULT {column.default.removesuffix(_NO_DIGITS)}"
    if column.on_update is not None and ("ON", "UPDATE") not in pairwise(words):
        unsaid += f" ON UPDATE {column.on_update.removesuffix(_NO_DIGITS)}"
    return unsaid
