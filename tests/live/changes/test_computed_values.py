"""Tables that compute in the source's zone leave the session of other tables as it was."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

import pytest

from dm.changes.computing import Computing
from dm.changes.plan import PlanOptions, TablePlan, build_plan
from dm.downstream import apply, exchange
from dm.downstream.connection import TargetConnection
from dm.downstream.exchange import computed_checks
from dm.downstream.target_schema import TargetSchemas
from dm.ident import TableName
from dm.mysql.binlog.value import ABSENT
from dm.mysql.schema.table import Column, TableSchema
from tests.live.changes.tables import endpoint_of
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark
from tests.testbed.zones import BACK, SUMMER, know_summer
from tests.unit.changes.plans import insert, update

pytestmark = pytest.mark.live

OPTIONS = PlanOptions("mysql", computing=Computing(zone="+02:00", offset_literals=True))
SUMMERS = PlanOptions("mysql", computing=Computing(zone=SUMMER, offset_literals=True))
ID, TS = Column("id", "int", nullable=False), Column("ts", "timestamp", nullable=True)
HOUR = Column("h", "int", nullable=True, generated="stored", expression="hour(`ts`)")


def test_a_large_transaction_row_by_row_changes_zones_only_for_the_tables_that_need_it(
    park: ServerPark, schema: SchemaFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = park.shared("mysql", "target")
    connect = partial(TargetConnection, endpoint_of(server), several=True)
    name, connection, schemas = schema(server), connect(), TargetSchemas(connect)

    def plan(table: str, *columns: Column) -> TablePlan:
        target = schemas.get(TableName(name, table))
        assert target is not None
        return build_plan(TableSchema(TableName("s", table), columns), columns, target, OPTIONS)

    def refused(*_: object) -> int:
        raise exchange.Unexpected(None, "the attempt with groups")

    try:
        server.execute(
            f"CREATE TABLE {name}.zoned (id INT PRIMARY KEY, ts TIMESTAMP NULL, h INT AS (HOUR(ts)) STORED)",
            f"CREATE TABLE {name}.plain (id INT PRIMARY KEY, ts TIMESTAMP NULL)",
        )
        zoned, plain = plan("zoned", ID, TS, HOUR), plan("plain", ID, TS)
        assert zoned.computed
        assert not plain.computed
        parts = [[insert(zoned, 1, "2021-01-01 00:00:00", 2)], [insert(plain, 1, "2021-01-01 00:00:00")]]
        monkeypatch.setattr(apply, "_grouped", refused)
        assert apply.apply_parts(connection, lambda: parts).row_by_row
        moments = connection.query(
            f"SELECT UNIX_TIMESTAMP(ts) FROM {name}.zoned UNION ALL SELECT UNIX_TIMESTAMP(ts) FROM {name}.plain"
        )
        assert [int(moment) for (moment,) in moments] == [1609459200] * 2

        # An image after an UPDATE may lack the key.
        change = update(zoned, (1, "2021-01-01 00:00:00", 2), (ABSENT, "2021-01-01 01:00:00", 3))
        (check,) = computed_checks([change])
        assert b"`id`=1" in check.sql
    finally:
        connection.close()
        schemas.close()


def test_updates_of_several_rows_keep_moments_that_local_clocks_show_twice(
    park: ServerPark, schema: SchemaFactory
) -> None:
    server = park.shared("mysql", "target")
    know_summer(server)
    connect = partial(TargetConnection, endpoint_of(server), several=True)
    name, connection, schemas = schema(server), connect(), TargetSchemas(connect)
    try:
        server.execute(
            f"CREATE TABLE {name}.t (id INT PRIMARY KEY, ts TIMESTAMP NULL, h INT AS (HOUR(ts)) STORED, v INT)"
        )
        target = schemas.get(TableName(name, "t"))
        assert target is not None
        columns = (ID, TS, HOUR, Column("v", "int", nullable=True))
        into = build_plan(TableSchema(TableName("s", "t"), columns), columns, target, SUMMERS)
        moments = [BACK - 1800, BACK + 1800, BACK + 1800, BACK - 1800]
        texts = [f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M:%S}" for moment in moments]
        rows = [(number, text, 2, 0) for number, text in enumerate(texts)]
        apply.apply_batch(connection, [insert(into, *row) for row in rows])
        done = apply.apply_batch(connection, [update(into, row, (*row[:3], 1)) for row in rows])
        assert not done.row_by_row
        found = connection.query(f"SELECT UNIX_TIMESTAMP(ts), h, v FROM {name}.t ORDER BY id")
        assert [(int(moment), h, v) for moment, h, v in found] == [(moment, 2, 1) for moment in moments]
    finally:
        connection.close()
        schemas.close()
