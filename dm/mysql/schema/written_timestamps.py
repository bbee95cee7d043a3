"""What a TIMESTAMP means under explicit_defaults_for_timestamp, written out where the target's sessions can't be told.

Without it a TIMESTAMP that is not declared NULL is NOT NULL, the table's first one is filled and kept up to date, and
others are zero by default (Reference Manual). The target's session is given the source's setting. TiDB has it always
on, and MariaDB before 10.10 has one setting for the whole server. There the statement has to say what it means. Which
TIMESTAMP is the first one depends on the whole table. So the source's table after the statement is asked, and what it
has and the statement does not say is inserted after the type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from dm.errors import DMError
from dm.mysql.schema.table import Column, TableSchema
from dm.mysql.sql.alter import definition_kind
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.cursor import Clause, Cursor, outside_parentheses, split_at_commas
from dm.mysql.sql.operation import AddColumn, ChangeColumn, CreateTable, ModifyColumn, Operation
from dm.mysql.sql.piece import Piece
from dm.mysql.types import column_type, read_type

_NO_DIGITS: Final = "(0)"


def told_by_session(target: SourceContext) -> bool:
    """Whether the target has the variable for each session."""
    return target.dialect.sets_explicit_timestamps


def with_written_timestamps(piece: Piece, target: SourceContext, after: Callable[[], TableSchema | None]) -> Piece:
    """The piece with all that its TIMESTAMPs have; raises DMError where that can't be known, or not be said.

    `target` has the target's setting; `after` gives the source's table after the piece, None if it is unknown.
    """
    ours, theirs = piece.context.explicit_defaults_for_timestamp, target.explicit_defaults_for_timestamp
    if ours is theirs or told_by_session(target):
        return piece
    every = [each for operation in piece.operations for each in _timestamps(operation, piece.context)]
    found = [(name, definition, end) for name, definition, end in every if not _says_all(definition)]
    schema = after() if found else None
    text = piece.text
    for name, definition, end in reversed(found):
        column = None if schema is None else schema.column(name)
        if column is None:
            why = f"what TIMESTAMP {name} means at the source depends on a table that is not known"
            raise DMError("ddl-not-understood", statement=piece.text, why=why)
        if not (theirs or column.generated or column.nullable or column.default or column.on_update):
            why = f"TIMESTAMP {name} has no default, and the target gives it one (explicit_defaults_for_timestamp)"
            raise DMError("ddl-not-understood", statement=piece.text, why=why)
        text = f"{text[:end]}{_unsaid(column, definition)}{text[end:]}"
    return piece if text == piece.text else Piece.of(text, piece.context)


def _timestamps(operation: Operation, context: SourceContext) -> Iterator[tuple[str, Clause, int]]:
    """Their names, their definitions, and where the type ends."""
    for name, definition in _definitions(operation, context):
        cursor = Cursor(definition, context)
        if column_type(read_type(cursor).base).is_moment:
            yield name, definition, definition.tokens[cursor.at - 1].end


def _definitions(operation: Operation, context: SourceContext) -> Iterator[tuple[str, Clause]]:
    if isinstance(operation, AddColumn | ModifyColumn):
        yield operation.column, operation.definition
    elif isinstance(operation, ChangeColumn):
        yield operation.name, operation.definition
    elif isinstance(operation, CreateTable) and operation.like is None:  # the target copies its own table's columns
        for element in split_at_commas(operation.body):
            cursor = Cursor(element, context)
            if definition_kind(cursor) == "column":
                yield cursor.name(), cursor.rest()


def _words(definition: Clause) -> list[str]:
    return [token.upper for token in outside_parentheses(definition)]


def _before_null(words: Sequence[str]) -> list[str]:
    """The words before NULL where it says whether the column may be NULL; after DEFAULT it does not."""
    return [before for before, word in pairwise(["", *words]) if word == "NULL" and before != "DEFAULT"]


def _says_all(definition: Clause) -> bool:
    words = _words(definition)
    said = _before_null(words)
    return bool(said) and ("NOT" not in said or "DEFAULT" in words)


def _unsaid(column: Column, definition: Clause) -> str:
    if column.generated is not None:
        return ""
    words = _words(definition)
    unsaid = ""
    if not _before_null(words):
        unsaid += " NULL" if column.nullable else " NOT NULL"
    if column.default is not None and "DEFAULT" not in words:
        unsaid += f" DEFAULT {column.default.removesuffix(_NO_DIGITS)}"
    if column.on_update is not None and ("ON", "UPDATE") not in pairwise(words):
        unsaid += f" ON UPDATE {column.on_update.removesuffix(_NO_DIGITS)}"
    return unsaid
