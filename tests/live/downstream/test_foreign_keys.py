"""Tables with foreign keys that the target checks."""

from __future__ import annotations

from functools import partial

import pytest

from dm.changes.keys import keys_of
from dm.changes.plan import PlanOptions, TablePlan, build_plan
from dm.changes.row_change import ChangeKind, RowChange
from dm.demo.servers import ThrowawayServer
from dm.downstream.apply import apply_batch
from dm.downstream.connection import TargetConnection
from dm.downstream.filter_session import ServerWeights
from dm.downstream.target_schema import TargetSchemas
from dm.ident import TableName
from dm.mysql.schema.table import TableSchema
from tests.live.changes.tables import contents, endpoint_of
from tests.testbed.fixtures import SchemaFactory

pytestmark = pytest.mark.live


def _plan(schemas: TargetSchemas, table: TableName, options: PlanOptions) -> TablePlan:
    target = schemas.get(table)
    assert target is not None
    source = TableSchema(TableName("s", table.table), target.schema.columns)
    return build_plan(source, source.columns, target, options)


def test_a_parent_is_replayed_without_losing_its_children(target: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(target)
    parent, child = TableName(name, "parent"), TableName(name, "child")
    target.execute(
        f"CREATE TABLE {parent.sql} (code VARCHAR(9) PRIMARY KEY, v INT) DEFAULT CHARSET=utf8mb4",
        f"CREATE TABLE {child.sql} (id INT PRIMARY KEY, p VARCHAR(9), FOREIGN KEY (p) REFERENCES {parent.sql} (code)"
        " ON DELETE CASCADE) DEFAULT CHARSET=utf8mb4",
    )
    connect = partial(TargetConnection, endpoint_of(target), foreign_key_checks=True)
    schemas, weights = TargetSchemas(connect, foreign_key_checks=True), ServerWeights(connect)
    options = PlanOptions(target.flavor, weights, foreign_key_checks=True)
    parents, children = _plan(schemas, parent, options), _plan(schemas, child, options)
    assert parents.upsert
    assert not children.upsert
    changes = [
        RowChange(parents, ChangeKind.INSERT, None, (b"x", 1), safe=True),
        RowChange(children, ChangeKind.INSERT, None, (1, b"X"), safe=True),
        RowChange(parents, ChangeKind.UPDATE, (b"x", 1), (b"x", 2), safe=True),
    ]
    assert set(keys_of(changes[0])) & set(keys_of(changes[1]))
    with connect() as connection:
        for _ in range(2):
            apply_batch(connection, changes)
            assert contents(connection, parent) == [("x", 2)]
            assert contents(connection, child) == [(1, "X")]
    schemas.close()
    weights.close()


def test_without_checks_parents_are_rows_like_others(target: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(target)
    parent, child = TableName(name, "parent"), TableName(name, "child")
    target.execute(
        f"CREATE TABLE {parent.sql} (id INT PRIMARY KEY, v INT)",
        f"CREATE TABLE {child.sql} (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES {parent.sql} (id)"
        " ON DELETE CASCADE)",
    )
    connect = partial(TargetConnection, endpoint_of(target))
    schemas = TargetSchemas(connect)
    plan = _plan(schemas, parent, PlanOptions(target.flavor))
    child_plan = _plan(schemas, child, PlanOptions(target.flavor))
    assert not plan.upsert
    with connect() as connection:
        apply_batch(connection, [RowChange(child_plan, ChangeKind.INSERT, None, (1, 1), safe=False)])
        for _ in range(2):
            apply_batch(connection, [RowChange(plan, ChangeKind.INSERT, None, (1, 1), safe=True)])
        apply_batch(connection, [RowChange(plan, ChangeKind.DELETE, (1, 1), None, safe=False)])
        assert contents(connection, child) == [(1, 1)]
    schemas.close()
