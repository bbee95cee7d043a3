"""A condition that a server evaluates, and who asks it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from dm.config.server_expression import ServerExpression
from dm.mysql.binlog.value import Absent, Row
from dm.mysql.schema.table import Column
from dm.rules.compiled import InexactError
from dm.rules.texts import TextOracle


@dataclass(frozen=True, slots=True)
class ServerCondition:
    """An expression over some columns of a row."""

    rule: str
    text: str
    columns: tuple[tuple[int, Column], ...]  # with their places in the row
    zone: str  # the time zone of the session; "" where nothing depends on it


class ConditionServer(Protocol):
    """A server that evaluates conditions."""

    def holds(self, condition: ServerCondition, rows: Sequence[Row], moment: int) -> list[bool]:
        """For each row whether the condition is true, at that moment (seconds since 1970); raises DMError."""
        ...


@dataclass(frozen=True, slots=True)
class Judges:
    """Who is asked about what can't be computed here."""

    texts: TextOracle | None = None
    conditions: ConditionServer | None = None
    zone: str = ""  # the target's global one, for a task that names none


def server_condition(rule: str, expression: ServerExpression, columns: Sequence[Column], zone: str) -> ServerCondition:
    """The condition on a table of these columns; raises InexactError where only a time zone could tell the result."""
    names = expression.columns | expression.perhaps
    used = tuple((at, column) for at, column in enumerate(columns) if column.name.lower() in names)
    moments = [column for _, column in used if column.type.is_moment]
    if not zone and (expression.zoned or moments):
        what = f"column `{moments[0].name}` (timestamp)" if moments else "a function that tells the time"
        raise InexactError(f"{what} depends on a time zone: set `timezone` in the task")
    return ServerCondition(rule, expression.text, used, zone)


def demand_whole(condition: ServerCondition, rows: Sequence[Row]) -> None:
    """Raise InexactError where a row image lacks a column of the condition."""
    for at, column in condition.columns:
        if any(isinstance(row[at], Absent) for row in rows):
            raise InexactError(f"the row image lacks column `{column.name}`")
