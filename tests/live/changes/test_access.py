"""No statement that changes rows by key reads a whole table: MariaDB does for some ways to say the same."""

from __future__ import annotations

import pytest

from dm.changes.grouped import grouped
from dm.changes.plan import PlanOptions, TablePlan
from dm.changes.row_change import ChangeKind, RowChange
from dm.downstream.connection import TargetConnection
from dm.downstream.filter_session import ServerWeights
from dm.ident import TableName
from dm.mysql.binlog.value import Row
from dm.mysql.dialect import FLAVORS, Flavor
from dm.mysql.schema.table import Column
from tests.live.changes.tables import Shape, endpoint_of, primary, unique
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark

pytestmark = pytest.mark.live

COLUMNS = (Column("a", "bigint", nullable=False), Column("b", "int", nullable=False), Column("u", "int"))
SHAPES = {
    "one column": Shape("a BIGINT NOT NULL, b INT NOT NULL, u INT, PRIMARY KEY (a)", COLUMNS, (primary("a"),)),
    "two columns": Shape("a BIGINT NOT NULL, b INT NOT NULL, u INT, PRIMARY KEY (a, b)", COLUMNS, (primary("a", "b"),)),
    "two keys": Shape(
        "a BIGINT NOT NULL, b INT NOT NULL, u INT, PRIMARY KEY (a, b), UNIQUE KEY u (u, b)",
        COLUMNS,
        (primary("a", "b"), unique("u", "u", "b")),
    ),
}
ROWS = 5000


def changes_of(plan: TablePlan, count: int, *, safe: bool) -> list[RowChange]:
    """Some rows deleted; others moved to another key."""
    deletes = [RowChange(plan, ChangeKind.DELETE, row(number), None, safe) for number in range(count)]
    moves = [
        RowChange(plan, ChangeKind.UPDATE, row(number), row(number + ROWS), safe) for number in range(500, 500 + count)
    ]
    return deletes + moves


def row(number: int) -> Row:
    """A row of the table."""
    return (number, number % 7, number)


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("flavor", FLAVORS)
def test_rows_are_found_by_a_key(park: ServerPark, schema: SchemaFactory, flavor: Flavor, shape: str) -> None:
    server = park.shared(flavor, "target")
    table = TableName(schema(server), "t")
    SHAPES[shape].create(server, table)
    values = ",".join(str(row(number)) for number in range(ROWS))
    server.execute(f"INSERT INTO {table.sql} VALUES {values}", f"ANALYZE TABLE {table.sql}")
    explain = "EXPLAIN FORMAT=TRADITIONAL " if flavor == "mysql" else "EXPLAIN "
    type_at = 4 if flavor == "mysql" else 3  # MySQL's answer has a column `partitions`
    weights = ServerWeights(lambda: TargetConnection(endpoint_of(server)))
    try:
        plan = SHAPES[shape].plan(table, PlanOptions(flavor, weights))
        for safe in (False, True):
            for count in (1, 2, 40):
                statements = [statement.sql.decode() for statement in grouped(changes_of(plan, count, safe=safe))]
                searching = [sql for sql in statements if not sql.startswith(("INSERT", "REPLACE"))]
                assert searching
                for sql in searching:
                    assert [found[type_at] for found in server.query(explain + sql)] == ["range"], sql
    finally:
        weights.close()
