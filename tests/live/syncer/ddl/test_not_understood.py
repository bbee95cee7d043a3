"""Statements without an operation that we know: executed as they stand, passed over, or a pause."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, running_sync, subtask_for

pytestmark = pytest.mark.live

WITHOUT_OPERATION = [
    "ALTER TABLE {}.t",
    "ALTER TABLE {}.t ALGORITHM=COPY",
    "ALTER TABLE {}.t PARTITION BY HASH (id) PARTITIONS 2",
    "ALTER TABLE {}.t ADD PARTITION PARTITIONS 1",
    "ALTER TABLE {}.t COALESCE PARTITION 1",
    "ALTER TABLE {}.t REBUILD PARTITION ALL",
    "ALTER TABLE {}.t REMOVE PARTITIONING",
    "ALTER TABLE {}.t FORCE",
]


@pytest.mark.ci_flavor("mysql")
def test_an_alter_without_an_operation_is_executed(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, a INT)")
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        for number, statement in enumerate(WITHOUT_OPERATION):
            upstream.execute(statement.format(name), f"INSERT INTO {name}.t VALUES ({number}, {number})")
            sync.wait_synced()
            assert target.query(f"SHOW CREATE TABLE {name}.t") == upstream.query(f"SHOW CREATE TABLE {name}.t")
    assert target.query(f"SELECT COUNT(*) FROM {name}.t") == ((len(WITHOUT_OPERATION),),)


def test_what_mariadb_has_alone_is_passed_over_where_nobody_wants_it(
    mariadb: ThrowawayServer, mysql: ThrowawayServer, schema: SchemaFactory
) -> None:
    name, other = schema(mariadb, mysql), schema(mariadb)
    mariadb.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
    mysql.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
    with running_sync(subtask_for(mariadb, mysql, name, task=name)) as sync:
        sync.wait_synced()
        mariadb.execute(
            f"CREATE SEQUENCE {other}.s",
            f"DO NEXT VALUE FOR {other}.s",
            f"ALTER SEQUENCE {other}.s RESTART 9",
            f"CREATE TABLE {other}.h (id INT PRIMARY KEY, a INT) WITH SYSTEM VERSIONING",
            f"INSERT INTO {other}.h VALUES (1, 1)",
            f"UPDATE {other}.h SET a = 2",
            "SET SESSION system_versioning_alter_history = 1",
            f"ALTER TABLE {other}.h ADD COLUMN b INT, DROP SYSTEM VERSIONING",
            f"CREATE TABLE {other}.p (a DATE, b DATE, PERIOD FOR of_time (a, b))",
            f"ALTER TABLE {other}.p DROP PERIOD FOR of_time",
            f"DROP SEQUENCE {other}.s",
            f"INSERT INTO {name}.t VALUES (1)",
        )
        sync.wait_synced()
        assert mysql.query(f"SELECT id FROM {name}.t") == ((1,),)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE SEQUENCE {}.s",
        "CREATE TABLE {}.h (id INT PRIMARY KEY) WITH SYSTEM VERSIONING",
        "CREATE TABLE {}.p (a DATE, b DATE, PERIOD FOR of_time (a, b))",
    ],
)
def test_and_pauses_where_the_lists_want_it(
    mariadb: ThrowawayServer, mysql: ThrowawayServer, schema: SchemaFactory, statement: str
) -> None:
    name = schema(mariadb, mysql)
    subtask = subtask_for(mariadb, mysql, name, task=name)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    mariadb.execute(statement.format(name))
    error = RunningSync(subtask, None).wait_ended()
    assert isinstance(error, DMError)
    assert (error.name, error.retryable) == ("ddl-not-understood", False)
    assert statement.partition("{")[0] in error.message
    assert error.position is not None
