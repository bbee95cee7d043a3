"""What the target makes of rows by itself: its tables' triggers, and generated columns that are not the source's.

A trigger acts on each row that the load or the syncer writes, and a generated column takes no value; so the target has
other rows than the source, and no error tells. Both may be wanted, so they are no failures. Servers of one flavour
print equal expressions alike; those of different flavours can't be compared.
"""

from __future__ import annotations

from collections.abc import Iterator

from dm.ident import Ident, TableName
from dm.mysql.dialect.pair import same_server
from dm.mysql.schema.expressions import UNTOLD, computes_otherwise
from dm.session.answers import reads_answers
from dm.task.precheck.context import Answers, CheckResult, Context, Server, some


def computed_values(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Warnings of triggers and generated columns by which the target's rows become other ones."""
    if context.loads or context.syncs:
        yield from _zone(context, answers)
        yield from _triggers(context, answers)
        yield from _generated(context, answers)


@reads_answers
def _zone(context: Context, answers: Answers) -> Iterator[CheckResult]:
    zone = context.config.timezone
    if zone and context.target.query("SELECT CONVERT_TZ('2020-01-01 00:00:00', '+00:00', %s)", zone)[0][0] is None:
        yield answers.warning(
            f"the target does not know `timezone: {zone}`; the task pauses at a table of the target with a column of"
            " its own that is filled with the local time",
            "`mysql_tzinfo_to_sql /usr/share/zoneinfo | mysql -u root mysql` there, or an offset such as `+08:00`",
        )


def _triggers(context: Context, answers: Answers) -> Iterator[CheckResult]:
    targets = {context.destination(table) for table in context.tables}
    rows = context.target.of_schemas(
        "SELECT event_object_schema, event_object_table, trigger_schema, trigger_name, action_timing,"
        " event_manipulation FROM information_schema.triggers WHERE 1 = 1",
        "event_object_schema",
        _target_schemas(context),
    )
    found = [
        (TableName(schema, name), Ident(place).sql + "." + Ident(trigger).sql, f"{timing} {event}")
        for schema, name, place, trigger, timing, event in (map(str, row) for row in rows)
        if TableName(schema, name) in targets
    ]
    if found:
        listed = some(f"{trigger} ({when} ON {table})" for table, trigger, when in sorted(found))
        yield answers.warning(
            f"triggers of the target act on every row that the task writes, and what they change the source does not"
            f" have: {listed}",
            "; ".join(f"DROP TRIGGER {trigger}" for _, trigger, _ in sorted(found)),
        )


def _generated(context: Context, answers: Answers) -> Iterator[CheckResult]:
    here = _expressions(context.source, context.schemas)
    there = _expressions(context.target, _target_schemas(context))
    facts = context.target.facts
    # A TiDB prints an expression in words of its own.
    comparable = same_server(context.source.facts.flavor, facts.flavor)
    others: list[str] = []
    for table in context.tables:
        target = context.destination(table)
        own = here.get(table, {})
        for column, expression in there.get(target, {}).items():
            of = own.get(column)
            if of is not None and computes_otherwise(of, expression, comparable=comparable):
                others.append(f"{target}.{column} is {expression}, and {of or 'stored'} at the source")
    if others:
        yield answers.warning(
            f"the target computes columns otherwise than the source: {some(others)}",
            "ALTER TABLE .. DROP COLUMN .., ADD COLUMN .. as the source defines it (at the target)",
        )


def _target_schemas(context: Context) -> tuple[str, ...]:
    return tuple({context.destination(table).schema for table in context.tables})


def _expressions(server: Server, schemas: tuple[str, ...]) -> dict[TableName, dict[str, str]]:
    """By table and column; empty for a column that is not generated."""
    told = server.facts.dialect.tells_generation_expressions
    expression = "generation_expression" if told else f"IF(extra IN ('VIRTUAL', 'PERSISTENT'), '{UNTOLD}', '')"
    query = f"SELECT table_schema, table_name, column_name, {expression} FROM information_schema.columns WHERE 1 = 1"
    tables: dict[TableName, dict[str, str]] = {}
    for schema, table, column, expression in server.of_schemas(query, "table_schema", schemas):
        tables.setdefault(TableName(str(schema), str(table)), {})[str(column).lower()] = str(expression or "")
    return tables
