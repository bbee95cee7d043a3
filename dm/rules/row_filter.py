"""The expression filters of one table: which row changes are skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from dm.binlog.value import Row
from dm.config.expression import ExpressionFilter, parse_expression
from dm.errors import DMError
from dm.rules.compiled import InexactError, UnknownColumnError
from dm.rules.evaluation import compile_condition
from dm.rules.texts import TextOracle
from dm.schema.table import Column

Kind = Literal["insert", "update", "delete"]
Condition = Callable[[Row], bool]


@dataclass(frozen=True, slots=True)
class _Rule:
    name: str
    kind: Kind
    before: Condition | None
    after: Condition | None

    def skips(self, before: Row | None, after: Row | None) -> bool:
        conditions = ((self.before, before), (self.after, after))
        return all(condition is None or (row is not None and condition(row)) for condition, row in conditions)


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Compiled for one structure of the table; compile again after a DDL."""

    rules: tuple[_Rule, ...]

    def __call__(self, kind: Kind, before: Row | None, after: Row | None) -> bool:
        """Whether the change is skipped; raises DMError where an expression can't be evaluated exactly."""
        for rule in self.rules:
            if rule.kind == kind:
                try:
                    if rule.skips(before, after):
                        return True
                except InexactError as error:
                    raise DMError("expression-inexact", rule=rule.name, why=error) from None
        return False

    @classmethod
    def compile(
        cls,
        filters: Iterable[ExpressionFilter],
        columns: Sequence[Column],
        oracle: TextOracle | None = None,
        zone: str = "",
    ) -> RowFilter | None:
        """Rules that name a column the table lacks skip nothing, as in DM; None when no rule is left."""
        rules: list[_Rule] = []
        for rule in filters:
            try:
                rules.append(_compile(rule, columns, oracle, zone))
            except UnknownColumnError:
                continue
            except InexactError as error:
                raise DMError("expression-inexact", rule=rule.name or rule.table, why=error) from None
        return cls(tuple(rules)) if rules else None


def _compile(rule: ExpressionFilter, columns: Sequence[Column], oracle: TextOracle | None, zone: str) -> _Rule:
    def condition(text: str) -> Condition | None:
        return compile_condition(parse_expression(text), columns, oracle, zone) if text.strip() else None

    name = rule.name or rule.table
    if rule.insert_value_expr:
        return _Rule(name, "insert", None, condition(rule.insert_value_expr))
    if rule.delete_value_expr:
        return _Rule(name, "delete", condition(rule.delete_value_expr), None)
    return _Rule(name, "update", condition(rule.update_old_value_expr), condition(rule.update_new_value_expr))
