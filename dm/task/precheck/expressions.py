"""Expression filters against the tables as they are: which way each goes, and what would stop the task at a row.

What the target is to evaluate it evaluates here once, on a row of NULLs: whether it knows the functions, the collations
and the time zone, and whether the account may have temporary tables, is its own answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final

from dm.config.expression import ExpressionFilter, read_expression
from dm.downstream.connection import TargetConnection
from dm.downstream.filter_session import FilterSession, SourceSession
from dm.downstream.source_session_settings import filter_zone
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.mysql.dialect.pair import same_server
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import TableSchema, wire_columns
from dm.mysql.sql.context import SourceContext
from dm.rules.comparisons import Question
from dm.rules.row_filter import Condition, Judges, RowFilter, ServerCondition
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.facts import read_structure
from dm.task.precheck.context import Answers, CheckResult, Context

_SOME_MOMENT: Final = 1_700_000_000
_UTC: Final = frozenset({"UTC", "GMT", "Etc/UTC", "+00:00"})


class _Syncer:
    """Stands for the target, whom the syncer will ask about texts; nothing is asked before there are rows."""

    def holds(
        self, question: Question, text: bytes, charset: str, other: bytes, other_charset: str, collation: str
    ) -> bool | None:
        raise AssertionError(f"asked about {collation} before there is a row")


def expression_filters(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """A failure for what can't be evaluated on its table, a warning for what would leave nothing out, else the way."""
    if not context.syncs or not context.config.expression_filters:
        return
    facts = context.source.facts
    source = SourceSession(facts.flavor, facts.sql_mode)
    with closing(FilterSession(lambda: connected(context), context.config.meta_schema, source)) as session:
        for rule in context.config.expression_filters:
            tables = [table for table in context.tables if context.rules.concerns(rule, table)]
            if not tables:
                yield answers.warning(
                    f"expression filter {rule.name} is for {rule.schema_name}.{rule.table}, and no such table takes"
                    " part",
                    "correct `schema` and `table` of the filter, which take no patterns, or remove it",
                )
            for table in tables:
                yield from _findings(context, answers, rule, table, session)


@reads_answers
def connected(context: Context) -> TargetConnection:
    """A session as the syncer has it, with the schema in which its temporary tables are made."""
    connection = TargetConnection(context.config.target, several=True)
    schema = context.config.meta_schema
    try:
        found = connection.query("SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", (schema,))
        if not found:
            connection.execute(f"CREATE DATABASE IF NOT EXISTS {Ident(schema).sql}")
    except DMError:
        connection.close()
        raise
    return connection


def _findings(
    context: Context, answers: Answers, rule: ExpressionFilter, table: TableName, session: FilterSession
) -> Iterator[CheckResult]:
    structure = _structure(context, table)
    lacking = sorted(name for name in _columns(rule) if structure.column(name) is None)
    if lacking:
        yield answers.warning(
            f"expression filter {rule.name} names columns that {table} does not have: {', '.join(lacking)}; it leaves"
            " nothing out",
            "correct the expression, or remove the filter",
        )
        return
    columns = wire_columns(structure, context.source.facts.flavor)
    judges = Judges(_Syncer(), session)
    try:
        try:
            compiled = RowFilter.compile([rule], columns, judges, context.config.timezone)
        except DMError:
            if context.config.timezone:
                raise
            zone = _target_zone(context)
            compiled = RowFilter.compile([rule], columns, judges, zone)
            yield _in_zone(context, answers, rule, zone)
    except DMError as error:
        places = ", ".join(rule.place_of(key) for key, _ in rule.expressions)
        yield answers.failure(f"{error.message} (table {table}, {places})", error.workaround)
        return
    for condition in (condition for each in compiled.rules for condition in each.conditions) if compiled else ():
        yield from _way(context, answers, (rule, table), condition, session)


def _target_zone(context: Context) -> str:
    with closing(TargetConnection(context.config.target)) as target:
        return filter_zone(target)


def _in_zone(context: Context, answers: Answers, rule: ExpressionFilter, zone: str) -> CheckResult:
    """In which zone a filter is evaluated whose task names none."""
    facts = context.source.facts
    what = f"expression filter {rule.name} is evaluated in the target's global time zone ({zone}), as with DM"
    theirs = facts.system_time_zone if facts.time_zone == "SYSTEM" else facts.time_zone
    if theirs in (zone, facts.time_zone if zone == "SYSTEM" else "") or (theirs in _UTC and zone in _UTC):
        return answers.success(what)
    return answers.warning(
        f"{what}; the source's is {theirs}", "write the zone that is meant as `timezone` in the task file"
    )


def _way(
    context: Context,
    answers: Answers,
    of: tuple[ExpressionFilter, TableName],
    condition: Condition,
    session: FilterSession,
) -> Iterator[CheckResult]:
    """Where the expression is evaluated."""
    rule, table = of
    place = rule.place_of(condition.key)
    what = f"`{condition.key}` of expression filter {rule.name} ({place}, table {table})"
    if condition.asked is None or condition.here is not None:
        yield answers.success(f"{what} is computed by dm")
        return
    try:
        _try_out(condition.asked, session)
    except DMError as error:
        message = f"{error.message}: {error.cause}" if error.cause else error.message
        yield answers.failure(f"{message} (table {table}, {place})", error.workaround)
        return
    source, target = context.source.facts, context.target.facts
    if not same_server(source.flavor, target.flavor):
        yield answers.warning(
            f"{what} is evaluated by the target ({condition.why_asked}): its functions are {target.base_flavor}'s,"
            f" which may have other results than {source.base_flavor}'s",
            "compare the results of the expression on both servers, or write it without functions",
        )
    else:
        yield answers.success(f"{what} is evaluated by the target: {condition.why_asked}")


def _try_out(condition: ServerCondition, session: FilterSession) -> None:
    width = 1 + max((at for at, _ in condition.columns), default=0)
    session.holds(condition, [(None,) * width], _SOME_MOMENT)


def _structure(context: Context, table: TableName) -> TableSchema:
    facts = context.source.facts
    text = read_structure(context.source.connection, table)
    return parse_create_table(text, SourceContext(facts.flavor, facts.version, table.schema))


def _columns(rule: ExpressionFilter) -> frozenset[str]:
    return frozenset().union(*(read_expression(text).columns for _, text in rule.expressions))
