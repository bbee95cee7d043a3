"""What a TiDB computes of rows is what the source has, whatever zone and digits the source's server has."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from tests.live.syncer.apply.test_computing import utc
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import running_sync, subtask_for
from tests.testbed.tidb import TidbServer
from tests.testbed.zones import globally

pytestmark = [pytest.mark.live, pytest.mark.tidb]


def test_a_tidb_computes_as_the_sources_server(mysql: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory) -> None:
    settings = {
        "time_zone": "'+05:00'",
        "sql_mode": "'STRICT_TRANS_TABLES,NO_UNSIGNED_SUBTRACTION'",
        "div_precision_increment": "7",
    }
    with globally(mysql, **settings):
        name = schema(mysql, tidb)
        table = (
            f"CREATE TABLE {name}.t (id INT PRIMARY KEY, ts TIMESTAMP(3) NULL, a INT UNSIGNED, b INT UNSIGNED,"
            " h INT AS (HOUR(ts)) STORED, d DATE AS (DATE(ts)) VIRTUAL, UNIQUE KEY (d), m BIGINT AS (a - b) STORED,"
            " q VARCHAR(40) AS (a / b) STORED)"
        )
        mysql.execute(table)
        tidb.execute(table)
        task = subtask_for(mysql, tidb, name, task=name)
        with running_sync(task) as sync:
            sync.wait_synced(120)
        # In UTC the two would be of one day.
        mysql.execute(
            f"INSERT INTO {name}.t (id, ts, a, b) VALUES (1, '2020-07-01 23:30:00', 1, 3),"
            " (2, '2020-07-02 00:30:00', 2, 3)",
            f"UPDATE {name}.t SET ts = ts + INTERVAL 90 MINUTE WHERE id = 2",
        )
        with running_sync(task) as sync:
            sync.wait_synced(120)
        columns = "id, ts, h, m, q"
        rows = utc(tidb, f"SELECT {columns} FROM {name}.t")
        assert rows == utc(mysql, f"SELECT {columns} FROM {name}.t")
        assert [row[2:] for row in rows] == [(23, -2, "0.3333333"), (2, -1, "0.6666667")]
