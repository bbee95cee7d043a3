"""Whether the rows of a source table can be told apart at the target.

A keyed table may be read while it changes, because the syncer repeats changes of rows it finds by key. Which key that
is depends on the target's table. The question is answered by the syncer's own plan for the table, so that dump, load
and syncer always agree.
"""

from __future__ import annotations

from collections.abc import Sequence

from dm.changes.constant import constant_columns
from dm.changes.plan import PlanOptions, build_plan
from dm.changes.target_table import TargetTable
from dm.flavor import Flavor
from dm.rules import ExtractedColumn
from dm.schema.table import TableSchema
from dm.schema.wire import wire_columns


def is_keyed(
    source: TableSchema, target: TableSchema, flavor: Flavor, extracted: Sequence[ExtractedColumn] = ()
) -> bool:
    """Whether the target has a key whose columns all come from the source's rows, or names, as they are."""
    names = {column.name.lower() for column in target.columns}
    # A column that the target lacks is for the load to refuse; here it is as good as no key.
    wire = tuple(column for column in wire_columns(source, flavor) if column.name.lower() in names)
    constants = constant_columns(source.name, [column.name for column in wire], target, extracted)
    # Values that the target may change are for load and syncer to refuse.
    options = PlanOptions(flavor, narrower_columns="accept")
    return build_plan(source, wire, TargetTable(target), options, constants).keyed
