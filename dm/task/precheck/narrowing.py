"""Columns of the target that may take values for others: the syncer would pause at the table's first row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dm.changes.narrowing import refuse_narrower
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.ident import TableName
from dm.schema.parse import parse_create_table
from dm.schema.table import TableSchema
from dm.sql.context import SourceContext
from dm.task.precheck.context import Answers, Context
from dm.task.precheck.result import CheckResult
from dm.task.precheck.server import Server
from dm.upstream.facts import read_structure

_TYPES: Final = (
    "SELECT table_schema, table_name, column_name, column_type, character_set_name, is_nullable, extra"
    " FROM information_schema.columns WHERE 1 = 1"
)
_Types = dict[str, tuple[object, ...]]


def narrower_columns(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """A finding for each table whose values the target may change without an error."""
    if not context.syncs or context.config.syncer.narrower_columns == "accept":
        return
    here = _types(context.source, context.schemas)
    there = _types(context.target, tuple({context.destination(table).schema for table in context.tables}))
    targets = TargetSchemas(lambda: TargetConnection(context.config.target))
    try:
        for table in context.tables:
            target = context.destination(table)
            if not _differ(here.get(table, {}), there.get(target, {})):
                continue  # structures are read one by one
            try:
                _refuse(context, targets, table)
            except DMError as error:
                if error.retryable:
                    raise
                if context.begins_behind:
                    told = f"{error.message}; an ALTER behind the start may still mend that"
                    yield answers.warning(told, f"nothing; if the task then stops: {error.workaround}")
                else:
                    yield answers.failure(error.message, error.workaround)
    finally:
        targets.close()


def _refuse(context: Context, targets: TargetSchemas, table: TableName) -> None:
    """Raise DMError where the syncer would, before it writes the first row of the table."""
    target = context.destination(table)
    found = targets.read(target)
    if found is None:
        return
    columns = [
        (column, place)
        for column in _structure(context, table).columns
        if (place := found.column(column.name)) is not None
    ]
    refuse_narrower(table, target, columns, null_is_now=targets.null_is_now)


def _types(server: Server, schemas: tuple[str, ...]) -> dict[TableName, _Types]:
    tables: dict[TableName, _Types] = {}
    for schema, table, column, *told in server.of_schemas(_TYPES, "table_schema", schemas):
        tables.setdefault(TableName(str(schema), str(table)), {})[str(column).lower()] = tuple(told)
    return tables


def _differ(here: _Types, there: _Types) -> bool:
    return any(name in there and told != there[name] for name, told in here.items())


def _structure(context: Context, table: TableName) -> TableSchema:
    facts = context.source.facts
    text = read_structure(context.source.connection, table)
    return parse_create_table(text, SourceContext(facts.flavor, facts.version, table.schema))
