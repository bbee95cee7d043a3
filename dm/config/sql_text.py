"""The text of an expression as a tree of sqlglot's: whether it is SQL at all, and one expression."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sqlglot.expressions import Expression

_LONGEST: Final = 65_536


class ExpressionError(ValueError):
    """Raised for an expression that can't be evaluated; the text says why."""


@lru_cache(maxsize=1024)
def one_expression(text: str) -> Expression:
    """The tree of the expression, in parentheses; raises ExpressionError."""
    from sqlglot import exp, parse
    from sqlglot.errors import SqlglotError

    if len(text) > _LONGEST:
        raise ExpressionError("it is too long")
    try:
        statements = parse(f"SELECT ({text}\n)", dialect="mysql")
    except SqlglotError:
        raise ExpressionError("it is not SQL") from None
    except RecursionError:
        raise ExpressionError("it is nested too deeply") from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Select):
        raise ExpressionError("it is not one expression")
    select = statements[0]
    given = {name for name, value in select.args.items() if value}
    if given != {"expressions"} or len(select.expressions) != 1 or not isinstance(select.expressions[0], exp.Paren):
        raise ExpressionError("it is not one expression")
    expression: Expression = select.expressions[0]
    return expression
