"""Which DEFAULTs give the rows of a table the same values at a server of another kind.

A new column's DEFAULT may be an expression over the row: MySQL since 8.0.13, MariaDB since 10.2. Each server computes
it by rules of its own: letters that UPPER knows, digits of numbers in texts, what a regular expression matches, weights
of collations. No document says which functions agree, so only these count as exact here: literals, the time where no
digit of it is lost, a column as it is, and sums and products of whole numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dm.errors import DMError
from dm.mysql.schema.normal import computed_default
from dm.mysql.schema.table import Column, TableSchema, widens
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.token import Token, tokenize
from dm.text import is_decimal

_ANY_VERSION: Final = SourceContext("mysql", 0, "")
_TIMES: Final = frozenset(
    {"CURDATE", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURTIME", "LOCALTIME", "LOCALTIMESTAMP", "NOW",
     "UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP"}
)  # fmt: skip
_EXACT: Final = frozenset("+-*()")


def exact_default(column: Column, table: TableSchema) -> bool:
    """Whether the column, once it is added to the table, has the same values on every server."""
    if column.default is None or not computed_default(column):
        return True
    try:
        tokens = [token for token in tokenize(column.default, _ANY_VERSION) if token.upper not in ("(", ")")]
    except DMError:
        return False
    first = tokens[0] if tokens else None
    if first is not None and first.upper in _TIMES:
        return all(token.kind == "number" for token in tokens[1:]) and not loses_digits(column, tokens)
    there = table.column(first.text) if first is not None and len(tokens) == 1 and _names(first) else None
    if there is not None:
        return widens(there, column)
    return column.type.is_integer and all(_whole(token, table) for token in tokens)


def loses_digits(column: Column, default: Sequence[Token]) -> bool:
    """Whether the column lacks digits of a second that a function of the time gives, in the words of a DEFAULT.

    One server rounds then and another cuts off. No sql_mode says which, as one does for literals. In a structure the
    digits may be those that the column has, so the statement's own words tell.
    """
    tokens = [token for token in default if token.text not in ("(", ")")][:2]
    if len(tokens) < 2 or tokens[0].upper not in _TIMES or not is_decimal(tokens[1].text):
        return False
    given = int(tokens[1].text)
    kept = column.type.is_text or (column.type.is_temporal and given <= (column.decimals or 0))
    return given > 0 and not kept


def _names(token: Token) -> bool:
    return token.kind in ("name", "word")


def _whole(token: Token, table: TableSchema) -> bool:
    """Whether it is a whole number, a column of such, or what adds, subtracts and multiplies them."""
    named = table.column(token.text) if _names(token) else None
    if named is not None:
        return named.type.is_integer
    return token.text in _EXACT or (token.kind == "number" and is_decimal(token.text))
