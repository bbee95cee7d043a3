"""A grouped DELETE looks at its own rows only, also where the server takes the table for a small one."""

from __future__ import annotations

import pytest

from dm.changes.grouped import grouped
from dm.changes.plan import PlanOptions, build_plan
from dm.changes.row_change import ChangeKind, RowChange
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import TargetSchemas
from dm.ident import TableName
from tests.live.changes.tables import endpoint_of
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark

pytestmark = pytest.mark.live

ROWS = 2000


def way_of(connection: TargetConnection, statement: bytes) -> object:
    """How the server reads the table: the join type of EXPLAIN."""
    return connection.query(b"EXPLAIN FORMAT=TRADITIONAL " + statement)[0][4]


def test_old_statistics_do_not_make_it_read_and_lock_the_whole_table(park: ServerPark, schema: SchemaFactory) -> None:
    server = park.shared("mysql", "target")
    name = schema(server)
    table = TableName(name, "filled")
    rows = ",".join(f"({number}, 0)" for number in range(10, ROWS))
    server.execute(
        f"CREATE TABLE {name}.new (id INT PRIMARY KEY, v INT) STATS_AUTO_RECALC=0",
        f"INSERT INTO {name}.new VALUES (1, 0), (2, 0), (3, 0)",
        f"ANALYZE TABLE {name}.new",
        f"INSERT INTO {name}.new VALUES {rows}",
        f"RENAME TABLE {name}.new TO {table.sql}",  # what is known is read anew: three rows
    )
    targets = TargetSchemas(lambda: TargetConnection(endpoint_of(server)))
    with TargetConnection(endpoint_of(server)) as connection:
        target = targets.get(table)
        assert target is not None
        plan = build_plan(target.schema, target.schema.columns, target, PlanOptions("mysql"))
        changes = [RowChange(plan, ChangeKind.DELETE, (number, 0), None, False) for number in range(20, 60)]
        (statement,) = grouped(changes)
        plain = statement.sql.replace(b"/*+ INDEX(`filled` `PRIMARY`) */ ", b"")
        assert plain != statement.sql
        assert way_of(connection, plain) == "ALL", "the trap is not there any more"
        assert way_of(connection, statement.sql) == "range"
        assert connection.execute(statement.sql) == len(changes)
    targets.close()
