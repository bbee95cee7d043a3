"""Whether the rows of a source table have an identity at the target: what decides how the table is read.

A keyed table may be read while it changes, because the syncer repeats changes of rows it finds by key. Which key that
is depends on the target's table; where it exists already, it may have other keys than the source's, or none. The
question is answered by the syncer's own plan for the table, so that both always agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dm.changes.constant import constant_columns
from dm.changes.plan import PlanOptions, build_plan
from dm.changes.target_table import TargetTable
from dm.config.subtask import SubtaskConfig
from dm.rules import ExtractedColumn, TableRules
from dm.schema.table import TableSchema
from dm.schema.wire import wire_columns
from dm.sql.context import Flavor
from dm.target.connection import TargetConnection
from dm.target.target_schema import TargetSchemas


class TargetKeys:
    """Answers for the tables of one subtask; connects to the target when first asked, unless nothing is loaded."""

    def __init__(self, subtask: SubtaskConfig, rules: TableRules) -> None:
        self._rules = rules
        self._loads = subtask.mode != "dump"
        self._schemas = TargetSchemas(lambda: TargetConnection(subtask.target))

    def keyless(self, source: TableSchema, flavor: Flavor) -> bool:
        """Whether rows of the table can not be told apart at the target."""
        name = self._rules.route(source.name)
        present = self._schemas.read(name) if self._loads else None
        if present is None:
            return not is_keyed(source, replace(source, name=name), flavor)
        return not is_keyed(source, present, flavor, self._rules.extracted(source.name))

    def close(self) -> None:
        """End the session."""
        self._schemas.close()


def is_keyed(
    source: TableSchema, target: TableSchema, flavor: Flavor, extracted: Sequence[ExtractedColumn] = ()
) -> bool:
    """Whether the target has a key whose columns all come from the source's rows, or names, as they are."""
    names = {column.name.lower() for column in target.columns}
    # A column that the target lacks is for the load to refuse; here it is as good as no key.
    wire = tuple(column for column in wire_columns(source, flavor) if column.name.lower() in names)
    constants = constant_columns(source.name, [column.name for column in wire], target, extracted)
    return build_plan(source, wire, TargetTable(target), PlanOptions(flavor), constants).keyed
