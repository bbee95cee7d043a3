"""Tables of the target that are there before a load, and that the load would refuse: told before anything is dumped.

The load itself judges whether rows of the source fit into a table (`dm.loader.target_tables.misfit`); here the same
question is asked of every table at once. What a table lacks altogether is a finding of `dm.task.precheck.tables`.
"""

from __future__ import annotations

from collections.abc import Iterator

from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.loader.target_tables import TargetTables, misfit
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import TableSchema
from dm.task.precheck.context import Answers, Context
from dm.task.precheck.result import CheckResult


def unfit_tables(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """A finding for each table of the source whose rows the load would not write into the target's."""
    if not (context.dumps and context.loads) or context.follows_from_checkpoint:
        return
    there = [table for table in context.tables if context.destination(table) in context.present]
    if not there:
        return
    with TargetConnection(context.config.target) as connection:
        targets = TargetTables.at(connection, wider=context.config.shard_mode == "optimistic")
        for table in there:
            try:
                _demand_fit(context, targets, table)
            except DMError as error:
                if error.retryable:
                    raise
                if error.name == "privilege-missing":
                    continue  # a finding of its own
                say = answers.warning if context.may_meet_alters else answers.failure
                yield say(f"the load would refuse it: {error.message}", error.workaround)


def _demand_fit(context: Context, targets: TargetTables, table: TableName) -> None:
    """Raise DMError as the load would."""
    text = context.structures.get(table)
    if text is None:
        return
    source = parse_create_table(text, context.source_context(table))
    place = context.destination(table)
    structure = targets.structure(place)
    if not structure.upper().startswith("CREATE TABLE"):
        raise DMError("load-table-unsuitable", table=place, source_table=table, why="it is a view")
    found = targets.parsed(place, structure)
    if _lacking(source, found):
        return
    extracted = {each.column.lower() for each in context.rules.extracted(table)}
    why = misfit(source, found, extracted, wider=targets.wider)
    if why is not None:
        raise DMError("load-table-differs", table=place, source_table=table, why=why)


def _lacking(source: TableSchema, target: TableSchema) -> bool:
    return any(target.column(column.name) is None for column in source.columns if column.generated is None)
