"""What the nodes of an expression become: functions of a row, each with the kind of its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from dm.mysql.binlog.value import Row
from dm.mysql.schema.table import Column

Kind = Literal[
    "null", "integer", "decimal", "float", "year", "text", "constant text", "date", "datetime", "timestamp", "time",
    "other",
]  # fmt: skip
Result = None | int | float | Decimal | str | bytes
Function = Callable[[Row], Result]

NUMBERS: tuple[Kind, ...] = ("integer", "decimal", "float")


class InexactError(ValueError):
    """Raised for what can't be evaluated with the server's exact result."""


class UnknownColumnError(ValueError):
    """Raised for a column that the table does not have."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A node with its kind; `column` for columns, `constant` for constants."""

    kind: Kind
    function: Function
    column: Column | None = None
    constant: Result = None
    unsigned: bool = False

    @property
    def shown(self) -> str:
        """The node in messages."""
        return f"column `{self.column.name}` ({self.column.base})" if self.column else f"a {self.kind}"
