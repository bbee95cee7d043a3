"""Whether the rows of a source table can be told apart at the target.

A keyed table may be read while it changes, because the syncer repeats changes of rows that it finds by key. The
target's table decides which key that is. The syncer's own plan for the table answers the question, so dump, load and
syncer always agree.
"""

from __future__ import annotations

from collections.abc import Sequence

from dm.changes.column_map import constant_columns
from dm.changes.plan import PlanOptions, build_plan
from dm.changes.row_keys import TargetTable
from dm.mysql.dialect import Flavor
from dm.mysql.schema.table import TableSchema, wire_columns
from dm.rules import ExtractedColumn


def is_keyed(
    source: TableSchema, target: TableSchema, flavor: Flavor, extracted: Sequence[ExtractedColumn] = ()
) -> bool:
    """Whether the target has a key whose columns all come unchanged from the source's rows or names."""
    names = {column.name.lower() for column in target.columns}
    # The load refuses a column that the target lacks; here the table counts as one without a key.
    wire = tuple(column for column in wire_columns(source, flavor) if column.name.lower() in names)
    constants = constant_columns(source.name, [column.name for column in wire], target, extracted)
    # Load and syncer refuse values that the target may change.
    options = PlanOptions(flavor, narrower_columns="accept")
    return build_plan(source, wire, TargetTable(target), options, constants).keyed
