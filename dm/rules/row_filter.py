"""The expression filters of one table: which row changes are skipped.

An expression is computed here where that gives the server's result for every value. Where its types forbid that, or
where a single row turns out to (a result outside of BIGINT), the target is asked: for all rows of a call at once, since
each question is a way there and back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from dm.config.expression import ExpressionFilter, read_expression
from dm.config.server_expression import ServerExpression
from dm.errors import DMError
from dm.mysql.binlog.value import Absent, Row
from dm.mysql.schema.table import Column
from dm.rules.comparisons import TextOracle
from dm.rules.evaluation import compile_condition
from dm.rules.node import InexactError, UnknownColumnError


@dataclass(frozen=True, slots=True)
class ServerCondition:
    """A condition that a server evaluates: an expression over some columns of a row."""

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


Kind = Literal["insert", "update", "delete"]
Change = tuple[Row | None, Row | None]  # the row before and after

_NOBODY = Judges()


@dataclass(frozen=True, slots=True)
class Condition:
    """One expression of a rule; at least one of the two ways is there."""

    key: str  # of the task file
    after: bool  # it is about the row after the change
    here: Callable[[Row], bool] | None
    why_asked: str  # why it is not computed here; "" where it is
    asked: ServerCondition | None

    def holds(self, rows: Sequence[Row], moment: int, server: ConditionServer | None) -> list[bool]:
        """For each row whether the expression is true; raises InexactError, or DMError."""
        answers = [False] * len(rows)
        left: Sequence[int] = range(len(rows))
        if self.here is not None:
            left = self._compute(rows, answers)
        if left and self.asked is not None and server is not None:
            questions = [rows[number] for number in left]
            demand_whole(self.asked, questions)
            for number, answer in zip(left, server.holds(self.asked, questions, moment), strict=True):
                answers[number] = answer
        return answers

    def _compute(self, rows: Sequence[Row], answers: list[bool]) -> list[int]:
        """Fill in what can be computed; gives the numbers of the other rows."""
        assert self.here is not None
        left: list[int] = []
        for number, row in enumerate(rows):
            try:
                answers[number] = self.here(row)
            except InexactError:
                if self.asked is None:
                    raise
                left.append(number)
        return left


@dataclass(frozen=True, slots=True)
class Rule:
    """One filter; all of its conditions must be true."""

    name: str
    kind: Kind
    conditions: tuple[Condition, ...]

    @property
    def asks(self) -> bool:
        """Whether it is not computed here."""
        return any(condition.here is None for condition in self.conditions)


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Compiled for one structure of the table; compile again after a DDL."""

    rules: tuple[Rule, ...]  # those that are computed here first
    server: ConditionServer | None = None

    @property
    def asks(self) -> bool:
        """Whether changes are best given to it many at a time."""
        return any(rule.asks for rule in self.rules)

    def skipped(self, kind: Kind, changes: Sequence[Change], moment: int) -> list[bool]:
        """For each change whether it is skipped; raises DMError where an expression can't be evaluated exactly.

        `moment` is the time of their event, in seconds.
        """
        skipped = [False] * len(changes)
        for rule in self.rules:
            if rule.kind != kind:
                continue
            left = [number for number, known in enumerate(skipped) if not known]
            try:
                for condition in rule.conditions:
                    rows = [_row(changes[number], condition) for number in left]
                    held = condition.holds(rows, moment, self.server)
                    left = [number for number, holds in zip(left, held, strict=True) if holds]
            except InexactError as error:
                raise DMError("expression-inexact", rule=rule.name, why=error) from None
            for number in left:
                skipped[number] = True
        return skipped

    @classmethod
    def compile(
        cls,
        filters: Iterable[ExpressionFilter],
        columns: Sequence[Column],
        judges: Judges = _NOBODY,
        zone: str = "",
    ) -> RowFilter | None:
        """Rules that name a column the table lacks skip nothing, as in DM; None when no rule is left."""
        rules: list[Rule] = []
        for rule in filters:
            name = rule.name or rule.table
            try:
                rules.append(_Compiling(name, columns, judges, zone).rule(rule))
            except UnknownColumnError:
                continue
            except InexactError as error:
                raise DMError("expression-inexact", rule=name, why=error) from None
        rules.sort(key=lambda rule: rule.asks)
        return cls(tuple(rules), judges.conditions) if rules else None


def _row(change: Change, condition: Condition) -> Row:
    row = change[condition.after]
    assert row is not None  # of this kind of change
    return row


@dataclass(frozen=True, slots=True)
class _Compiling:
    name: str
    columns: Sequence[Column]
    judges: Judges
    zone: str

    def rule(self, rule: ExpressionFilter) -> Rule:
        kind: Kind = "insert" if rule.insert_value_expr else "delete" if rule.delete_value_expr else "update"
        return Rule(self.name, kind, tuple(self._condition(*expression) for expression in rule.expressions))

    def _condition(self, key: str, text: str) -> Condition:
        reading = read_expression(text)
        if not reading.columns <= {column.name.lower() for column in self.columns}:
            raise UnknownColumnError(text)
        here, why_asked = None, reading.why_not_here
        if reading.here is not None:
            try:
                here = compile_condition(reading.here, self.columns, self.judges.texts, self.zone)
            except InexactError as error:
                why_asked = str(error)
        asked, why_not = None, reading.why_not_server
        if reading.server is not None and self.judges.conditions is not None:
            try:
                asked = server_condition(self.name, reading.server, self.columns, self.zone)
            except InexactError as error:
                why_not = str(error)
        if here is None and asked is None:
            reasons = dict.fromkeys(reason for reason in (why_asked, why_not) if reason)
            raise InexactError("; ".join(reasons))
        after = key in ("insert-value-expr", "update-new-value-expr")
        return Condition(key, after, here, why_asked, asked)
