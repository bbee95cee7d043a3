"""Rows whose keys hold ENUM, SET and BIT: their values are numbers for us, and not for every comparison of a server."""

from __future__ import annotations

import pytest

from dm.changes.plan import PlanOptions, build_plan
from dm.changes.row_change import ChangeKind, RowChange
from dm.downstream.apply import BatchResult, apply_batch
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import TargetSchemas
from dm.ident import TableName
from dm.mysql.binlog.value import Row, Value
from dm.mysql.dialect import FLAVORS, Flavor
from tests.live.changes.tables import endpoint_of
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark
from tests.testbed.serial_apply import apply_serially

pytestmark = pytest.mark.live

_LABELS = ", ".join(f"'m{number}'" for number in range(64))
_TOP = 1 << 63
_LONG = (1, 1 << 52, 1 << 53, (1 << 53) + 1, (1 << 60) + 1, 1 << 60, _TOP, _TOP + 1, (1 << 64) - 1)
CASES: dict[str, tuple[Value, ...]] = {
    "ENUM('a', 'b', 'c')": (1, 2, 3),
    "ENUM('2', '1')": (1, 2),
    "SET('a', 'b', 'c')": (0, 1, 6, 7),
    "SET('', 'b')": (0, 1, 2),
    f"SET({_LABELS})": _LONG,
    "BIT(12)": (0, 1, 4095),
    "BIT(64)": _LONG,
}
KEYS = (
    "PRIMARY KEY (v, n)",
    "PRIMARY KEY (n, v)",
    "PRIMARY KEY (v)",
    "PRIMARY KEY (n), UNIQUE KEY v (v, w)",
    "KEY (n)",
)


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("flavor", FLAVORS)
def test_rows_are_found_by_their_numbers(park: ServerPark, flavor: Flavor, schema: SchemaFactory, keys: str) -> None:
    server = park.shared(flavor, "target")
    name = schema(server)
    for number, (definition, values) in enumerate(CASES.items()):
        table = TableName(name, f"t{number}")
        rows: list[Row] = [(value, at, at % 2, at) for at, value in enumerate(values)]
        if keys.startswith("KEY"):
            rows = [(value, 1, 1, 1) for value in values]  # nothing but the value tells rows without a key apart
        server.execute(f"CREATE TABLE {table.sql} (v {definition} NOT NULL, n INT NOT NULL, w INT, x INT, {keys})")
        targets = TargetSchemas(lambda: TargetConnection(endpoint_of(server)))
        with TargetConnection(endpoint_of(server)) as connection:
            target = targets.get(table)
            assert target is not None
            plan = build_plan(target.schema, target.schema.columns, target, PlanOptions(flavor))
            inserts = [RowChange(plan, ChangeKind.INSERT, None, row, False) for row in rows]
            for safe in (False, plan.keyed):
                for apply in (apply_batch, apply_serially):
                    for stays in range(len(rows)):
                        connection.execute(f"DELETE FROM {table.sql}")
                        apply_batch(connection, inserts)
                        changed: Row = (*rows[stays][:3], 77)
                        changes = [RowChange(plan, ChangeKind.UPDATE, rows[stays], changed, safe)]
                        changes += [
                            RowChange(plan, ChangeKind.DELETE, row, None, safe)
                            for at, row in enumerate(rows)
                            if at != stays
                        ]
                        done = apply(connection, changes)
                        left = connection.query(f"SELECT v | 0, n, w, x FROM {table.sql}")
                        assert [tuple(map(int, row)) for row in left] == [changed], (definition, safe, stays)
                        assert not (isinstance(done, BatchResult) and done.row_by_row), (definition, safe)
        targets.close()
