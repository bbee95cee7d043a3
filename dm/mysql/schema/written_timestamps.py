"""What a TIMESTAMP means under explicit_defaults_for_timestamp, written out where the target's sessions can't be told.

Without it a TIMESTAMP that is not declared NULL is NOT NULL, the table's first one is filled and kept up to date, and
others are zero by default (Reference Manual). The target's session is given the source's setting. TiDB has it always
on, and MariaDB before 10.10 has one setting for the whole server. There the statement has to say what it means. Which
TIMESTAMP is the first one depends on the whole table. So the source's table after the statement is asked, and what it
has and the statement does not say is inserted after the type.

CURRENT_TIMESTAMP as a default value: its names, its forms, and its fractional digits.

MySQL requires as many digits as the column has. MariaDB uses the column's digits if none are written, cuts surplus ones
and keeps fewer. It also ignores parentheses around the function; in MySQL they make it an expression with its own
digits. The resulting form is stored and printed.

A time as a default value: the session's time zone decides which moment a literal of a TIMESTAMP column means.

Structures are read from servers in UTC, so equal spellings are equal moments. A literal written in another zone is kept
with the word TIMESTAMP in front, a form that no server prints. In comparisons of structures it counts as the same
default as any other literal. It is never the value of another server's literal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from dm.errors import DMError
from dm.mysql.schema.table import Column, TableSchema
from dm.mysql.sql.alter import definition_kind
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.cursor import Clause, Cursor, outside_parentheses, split_at_commas
from dm.mysql.sql.operation import AddColumn, ChangeColumn, CreateTable, ModifyColumn, Operation
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.token import Token, tokenize
from dm.mysql.types import column_type, read_type
from dm.text import is_decimal

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


CURRENT_TIMESTAMP: Final = ("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP")


def digits_of(tokens: Sequence[Token]) -> int | None:
    """The digits in these tokens; None if they are not this function."""
    if not tokens or tokens[0].upper not in CURRENT_TIMESTAMP:
        return None
    kinds = [token.upper if token.kind == "symbol" else token.kind for token in tokens[1:]]
    if kinds in ([], ["(", ")"]):
        return 0
    return int(tokens[2].text) if kinds == ["(", "number", ")"] and is_decimal(tokens[2].text) else None


def _filled_in(text: str | None, decimals: int, context: SourceContext) -> str | None:
    if text is None:
        return None
    try:
        tokens = list(tokenize(text, context))
    except DMError:
        return text
    while len(tokens) > 2 and tokens[0].upper == "(" and tokens[-1].upper == ")":
        tokens = tokens[1:-1]
    digits = digits_of(tokens)
    if digits is None:
        return text
    return f"CURRENT_TIMESTAMP({min(digits or decimals, decimals)})"


def with_its_digits(column: Column, context: SourceContext) -> Column:
    """The column with the digits that its server uses for the function."""
    if not context.dialect.fills_in_digits or not column.type.is_timed:
        return column
    decimals = column.decimals or 0
    return replace(
        column,
        default=_filled_in(column.default, decimals, context),
        on_update=_filled_in(column.on_update, decimals, context),
    )


_ZERO = "'0000-00-00"  # is no moment


def with_its_zone(column: Column, context: SourceContext) -> Column:
    """The column, with its default marked unless it was written in UTC."""
    text = column.default
    if context.in_utc or not column.type.is_moment or text is None or text[:1] not in "'\"" or text.startswith(_ZERO):
        return column
    return replace(column, default=f"TIMESTAMP{text}")
