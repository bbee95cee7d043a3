"""DROP DATABASE where routes lead tables of the schema into other schemas of the target.

The target drops the one schema that the schema itself is routed to. What the source lost elsewhere would stay, and come
back to life with a table of the same name: nothing in the binlog names those tables. So the task pauses while the
target has one of them.
"""

from __future__ import annotations

from dm.errors import DMError
from dm.sql.operation import DropDatabase
from dm.syncer.ddl.checks.checked_step import CheckedStep


def refuse_leaving_tables(checked: CheckedStep) -> None:
    """Raise DMError where the target would keep tables of the schema that the piece drops."""
    operation, rules = checked.piece.operation, checked.source.rules
    if checked.step.by_hand or not isinstance(operation, DropDatabase):
        return
    gone = rules.route(operation.name).schema
    routed = {
        rules.route(table)
        for table in checked.source.tracker.tables()
        if table.schema == operation.name.schema and rules.wanted(table)
    }
    read_target = checked.target.schemas.read
    left = [table for table in sorted(routed) if table.schema != gone and read_target(table) is not None]
    if left:
        tables = ", ".join(table.sql for table in left)
        raise DMError("ddl-schema-elsewhere", tables=tables, statement=checked.piece.text, position=checked.position)
