"""A time as a default value: CURRENT_TIMESTAMP and its fractional digits, and literals of a time zone.

MySQL requires as many digits as the column has. MariaDB uses the column's digits if none are written, cuts surplus ones
and keeps fewer. It also ignores parentheses around the function; in MySQL they make it an expression with its own
digits. The resulting form is stored and printed.

The session's time zone decides which moment a literal of a TIMESTAMP column means. Structures are read from servers in
UTC, so equal spellings are equal moments. A literal written in another zone is kept with the word TIMESTAMP in front, a
form that no server prints. In comparisons of structures it counts as the same default as any other literal. It is never
the value of another server's literal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from dm.errors import DMError
from dm.mysql.schema.table import Column
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.token import Token, tokenize
from dm.text import is_decimal

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
