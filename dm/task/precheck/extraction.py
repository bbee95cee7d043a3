"""The columns that routes extract into: there, of a type that takes text, and long enough."""

from __future__ import annotations

from collections.abc import Iterator

from dm.changes.constant import constant_columns
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.ident import TableName
from dm.rules.router import table_missing
from dm.schema.table import TableSchema
from dm.task.precheck.context import Answers, Context
from dm.task.precheck.result import CheckResult


def extracted_columns(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """A failure for each source table whose extracted columns the target can't take."""
    gathered = [(table, extracted) for table in context.tables if (extracted := context.rules.extracted(table))]
    if not gathered or not (context.loads or context.syncs):
        return
    here = _source_columns(context, {table.schema for table, _ in gathered})
    there: dict[TableName, TableSchema | None] = {}
    targets = TargetSchemas(lambda: TargetConnection(context.config.target))
    try:
        for table, extracted in gathered:
            target = context.destination(table)
            if target not in there:
                there[target] = targets.read(target)
            found = there[target]
            try:
                if found is None:
                    raise table_missing(table, target, extracted)
                constant_columns(table, here.get(table, ()), found, extracted)
            except DMError as error:
                yield answers.failure(error.message, error.workaround)
    finally:
        targets.close()


def _source_columns(context: Context, schemas: set[str]) -> dict[TableName, list[str]]:
    columns: dict[TableName, list[str]] = {}
    for name in sorted(schemas):
        rows = context.source.query(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = %s", name
        )
        for table, column in rows:
            columns.setdefault(TableName(name, str(table)), []).append(str(column))
    return columns
