"""A task follows a MySQL source into TiDB."""

from __future__ import annotations

import pytest

from dm.demo.compare import compare, pair_tables
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import running_sync, subtask_for
from tests.testbed.tidb import TidbServer

pytestmark = [pytest.mark.live, pytest.mark.tidb]

TABLES = (
    "CREATE TABLE keyed (id INT PRIMARY KEY, u INT UNIQUE, note VARCHAR(40), amount DECIMAL(20,6), at DATETIME(6))",
    "CREATE TABLE keyless (a INT, b VARCHAR(20), c DOUBLE)",
)


def identical(upstream: ThrowawayServer, target: PrivateServer, schema: str) -> None:
    report = compare(pair_tables([upstream], [schema]), target)
    assert report.identical, str(report)


def create(name: str, *servers: PrivateServer) -> None:
    for server in servers:
        # Each server has another default.
        server.execute(f"ALTER DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
        for table in TABLES:
            server.execute(table.replace("CREATE TABLE ", f"CREATE TABLE {name}."))


def test_rows_arrive_and_a_second_run_goes_on(mysql: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory) -> None:
    name = schema(mysql, tidb)
    create(name, mysql, tidb)
    subtask = subtask_for(mysql, tidb, name, task=name)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        mysql.execute(
            f"INSERT INTO {name}.keyed VALUES (1, 10, 'eins', 1.5, '2026-01-02 03:04:05.678'), (2, 20, NULL, -2, NULL)",
            f"INSERT INTO {name}.keyless VALUES (1, 'x', 0.1), (1, 'x', 0.1), (NULL, NULL, NULL)",
            f"UPDATE {name}.keyed SET u = 11, note = 'müde' WHERE id = 1",
            f"UPDATE {name}.keyed SET id = 3 WHERE id = 2",
            f"DELETE FROM {name}.keyless WHERE a = 1 LIMIT 1",
        )
        sync.wait_synced()
    identical(mysql, tidb, name)
    mysql.execute(
        f"INSERT INTO {name}.keyed VALUES (4, 40, 'later', 0, NULL)", f"DELETE FROM {name}.keyed WHERE id = 1"
    )
    with running_sync(subtask) as sync:
        sync.wait_synced()
    identical(mysql, tidb, name)


def test_ddl_arrives(mysql: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory) -> None:
    name = schema(mysql, tidb)
    create(name, mysql, tidb)
    with running_sync(subtask_for(mysql, tidb, name, task=name)) as sync:
        sync.wait_synced()
        mysql.execute(
            f"INSERT INTO {name}.keyed (id, u) VALUES (1, 1), (2, 2)",
            f"ALTER TABLE {name}.keyed ADD COLUMN extra INT NOT NULL DEFAULT 7, ADD INDEX by_note (note)",
            f"INSERT INTO {name}.keyed (id, u, extra) VALUES (3, 3, 3)",
            f"CREATE TABLE {name}.fresh (id BIGINT AUTO_INCREMENT PRIMARY KEY, v JSON)",
            f"INSERT INTO {name}.fresh (v) VALUES ('[1, 2.5, null]')",
            f"ALTER TABLE {name}.keyed DROP COLUMN note",
            f"RENAME TABLE {name}.keyless TO {name}.renamed",
            f"INSERT INTO {name}.renamed VALUES (5, 'five', 5)",
            f"TRUNCATE TABLE {name}.fresh",
        )
        sync.wait_synced()
    identical(mysql, tidb, name)
