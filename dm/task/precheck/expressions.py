"""Expression filters against the tables as they are: what would stop the task at a table's first row, or do nothing."""

from __future__ import annotations

from collections.abc import Iterator

from dm.config.expression import ExpressionFilter, columns_of, parse_expression
from dm.errors import DMError
from dm.ident import TableName
from dm.rules.row_filter import RowFilter
from dm.rules.texts import Question
from dm.schema.parse import parse_create_table
from dm.schema.table import TableSchema
from dm.sql.context import SourceContext
from dm.task.precheck.context import Answers, Context
from dm.task.precheck.result import CheckResult
from dm.upstream.facts import read_structure


class _Syncer:
    """Stands for the target, whom the syncer will ask about texts; nothing is asked before there are rows."""

    def holds(
        self, question: Question, text: bytes, charset: str, other: bytes, other_charset: str, collation: str
    ) -> bool | None:
        raise AssertionError(f"asked about {collation} before there is a row")


def expression_filters(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """A failure for what can't be evaluated on its table, a warning for what would leave nothing out."""
    if not context.syncs:
        return
    for rule in context.config.expression_filters:
        tables = [table for table in context.tables if context.rules.concerns(rule, table)]
        if not tables:
            yield answers.warning(
                f"expression filter {rule.name} is for {rule.schema_name}.{rule.table}, and no such table takes part",
                "correct `schema` and `table` of the filter, which take no patterns, or remove it",
            )
        for table in tables:
            yield from _findings(context, answers, rule, table)


def _findings(context: Context, answers: Answers, rule: ExpressionFilter, table: TableName) -> Iterator[CheckResult]:
    structure = _structure(context, table)
    lacking = sorted(name for name in _columns(rule) if structure.column(name) is None)
    if lacking:
        yield answers.warning(
            f"expression filter {rule.name} names columns that {table} does not have: {', '.join(lacking)}; it leaves"
            " nothing out",
            "correct the expression, or remove the filter",
        )
    try:
        RowFilter.compile([rule], structure.columns, _Syncer(), context.config.timezone)
    except DMError as error:
        yield answers.failure(f"{error.message} (table {table})", error.workaround)


def _structure(context: Context, table: TableName) -> TableSchema:
    facts = context.source.facts
    text = read_structure(context.source.connection, table)
    return parse_create_table(text, SourceContext(facts.flavor, facts.version, table.schema))


def _columns(rule: ExpressionFilter) -> frozenset[str]:
    texts = (rule.insert_value_expr, rule.update_old_value_expr, rule.update_new_value_expr, rule.delete_value_expr)
    return frozenset().union(*(columns_of(parse_expression(text)) for text in texts if text.strip()))
