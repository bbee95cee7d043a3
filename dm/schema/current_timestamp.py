"""CURRENT_TIMESTAMP as a default value: its names, its forms, and its fractional digits.

MySQL requires as many digits as the column has. MariaDB uses the column's digits if none are written, cuts surplus ones
and keeps fewer. It also ignores parentheses around the function; in MySQL they make it an expression with its own
digits. The resulting form is stored and printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from dm.decimal_text import is_decimal
from dm.errors import DMError
from dm.schema.table import Column
from dm.sql.context import SourceContext
from dm.sql.token import Token, tokenize
from dm.type_family import MOMENTS

NAMES: Final = ("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP")


def digits_of(tokens: Sequence[Token]) -> int | None:
    """The digits in these tokens; None if they are not this function."""
    if not tokens or tokens[0].upper not in NAMES:
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
    if context.flavor != "mariadb" or column.base not in MOMENTS:
        return column
    decimals = column.decimals or 0
    return replace(
        column,
        default=_filled_in(column.default, decimals, context),
        on_update=_filled_in(column.on_update, decimals, context),
    )
