"""What a TiDB does not take pauses by the code that docs/tidb.md lists, and goes on where a person has helped."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, running_sync, subtask_for
from tests.testbed.tidb import TidbServer

pytestmark = [pytest.mark.live, pytest.mark.tidb]


def pause_of(sync: RunningSync) -> DMError:
    """The error that ends a run."""
    error = sync.wait_ended()
    sync.stop()
    assert isinstance(error, DMError), error
    return error


@pytest.mark.parametrize(
    "operations",
    ["CHANGE a b INT, CHANGE b a INT", "DROP PRIMARY KEY", "ADD p POINT", "DROP COLUMN a, ADD COLUMN a INT DEFAULT 3"],
)
def test_an_alter_that_it_refuses_pauses(
    mysql: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory, operations: str
) -> None:
    name = schema(mysql, tidb)
    sync = RunningSync(subtask_for(mysql, tidb, name, task=name), None)
    sync.wait_synced()
    mysql.execute(
        f"CREATE TABLE {name}.t (id INT PRIMARY KEY, a INT, b INT, KEY two (a, b))",
        f"INSERT INTO {name}.t VALUES (1, 2, 3)",
        f"ALTER TABLE {name}.t {operations}",
    )
    error = pause_of(sync)
    assert error.name == "ddl-failed", error
    assert tidb.query(f"SELECT id, a, b FROM {name}.t") == ((1, 2, 3),)


def test_a_row_beyond_its_limit_pauses_and_comes_when_the_limit_is_raised(
    mysql: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory
) -> None:
    name = schema(mysql, tidb)
    for server in (mysql, tidb):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, b LONGBLOB)")
    subtask = subtask_for(mysql, tidb, name, task=name)
    sync = RunningSync(subtask, None)
    sync.wait_synced()
    mysql.execute(f"INSERT INTO {name}.t VALUES (1, 'small')", f"INSERT INTO {name}.t VALUES (2, REPEAT('x', 7000000))")
    error = pause_of(sync)
    assert error.name == "target-limit", error
    assert "tidb_txn_entry_size_limit" in error.workaround
    tidb.execute(f"SET GLOBAL tidb_txn_entry_size_limit = {20 << 20}")
    try:
        with running_sync(subtask) as again:
            again.wait_synced()
    finally:
        tidb.execute("SET GLOBAL tidb_txn_entry_size_limit = 0")
    report = compare(pair_tables([mysql], [name]), tidb)
    assert report.identical, str(report)


BIG = "WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < 400) SELECT i, REPEAT('x', 8000) FROM n"


@pytest.mark.parametrize("atomic", [False, True])
def test_a_transaction_beyond_its_limit(
    mysql: ThrowawayServer, tmp_path: Path, schema: SchemaFactory, *, atomic: bool
) -> None:
    """It goes by batches, which are smaller; where it has to stay one, it pauses until the limit is raised."""
    name = schema(mysql)
    limit = {"txn-total-size-limit": 1 << 20}
    with TidbServer(tmp_path / "tidb", performance=limit) as small:
        small.execute(f"CREATE DATABASE {name}")
        for server in (mysql, small):
            server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v VARCHAR(9000))")
        subtask = subtask_for(mysql, small, name, task=name, atomic_transactions=atomic)
        sync = RunningSync(subtask, None)
        sync.wait_synced()
        mysql.execute(f"INSERT INTO {name}.t VALUES (0, 'before')", f"INSERT INTO {name}.t {BIG}")
        if atomic:
            error = pause_of(sync)
            assert error.name == "target-limit", error
            assert "txn-total-size-limit" in error.workaround
            assert small.query(f"SELECT COUNT(*) FROM {name}.t WHERE id > 0") == ((0,),)
            limit["txn-total-size-limit"] = 100 << 20
            small.restart()
            with running_sync(subtask) as again:
                again.wait_synced()
        else:
            sync.wait_synced()
            sync.stop()
        report = compare(pair_tables([mysql], [name]), small, structures=False)
        assert report.identical, str(report)


def test_a_statement_beyond_its_memory_pauses_and_comes_when_it_has_more(
    mysql: ThrowawayServer, own_tidb: TidbServer, schema: SchemaFactory
) -> None:
    name = schema(mysql, own_tidb)
    for server in (mysql, own_tidb):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v LONGTEXT)")
    subtask = subtask_for(mysql, own_tidb, name, task=name)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    own_tidb.execute(f"SET GLOBAL tidb_mem_quota_query = {1 << 20}")
    sync = RunningSync(subtask, None)
    mysql.execute(f"INSERT INTO {name}.t VALUES (1, 'small')", f"INSERT INTO {name}.t VALUES (2, REPEAT('x', 5000000))")
    error = pause_of(sync)
    assert error.name == "target-limit", error
    assert "tidb_mem_quota_query" in error.workaround
    own_tidb.execute("SET GLOBAL tidb_mem_quota_query = DEFAULT")
    with running_sync(subtask) as again:
        again.wait_synced()
    report = compare(pair_tables([mysql], [name]), own_tidb, structures=False)
    assert report.identical, str(report)


def test_a_decimal_in_a_document_is_a_double_there(
    mysql: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory
) -> None:
    name = schema(mysql, tidb)
    with running_sync(subtask_for(mysql, tidb, name, task=name)) as sync:
        sync.wait_synced()
        mysql.execute(
            f"CREATE TABLE {name}.t (id INT PRIMARY KEY, j JSON)",
            f"INSERT INTO {name}.t VALUES (1, JSON_OBJECT('d', CAST(1.50 AS DECIMAL(9,2)), 'n', 7))",
        )
        sync.wait_synced()
    types = f"SELECT JSON_TYPE(JSON_EXTRACT(j, '$.d')), JSON_TYPE(JSON_EXTRACT(j, '$.n')) FROM {name}.t"
    assert (mysql.query(types), tidb.query(types)) == ((("DECIMAL", "INTEGER"),), (("DOUBLE", "INTEGER"),))
    report = compare(pair_tables([mysql], [name]), tidb)
    assert report.identical, str(report)


def test_what_it_computes_is_not_written(upstream: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory) -> None:
    name = schema(upstream, tidb)
    with running_sync(subtask_for(upstream, tidb, name, task=name)) as sync:
        sync.wait_synced()
        upstream.execute(
            f"CREATE TABLE {name}.t (a INT PRIMARY KEY, v INT AS (a + 1) VIRTUAL, s INT AS (b * 2) STORED, b INT,"
            " UNIQUE KEY (s))",
            f"INSERT INTO {name}.t (a, b) VALUES (1, 10), (2, 20), (3, NULL)",
            f"UPDATE {name}.t SET b = 11 WHERE v = 2",
            f"DELETE FROM {name}.t WHERE s = 40",
            f"ALTER TABLE {name}.t ADD COLUMN w INT AS (b - 1) VIRTUAL",
            f"INSERT INTO {name}.t (a, b) VALUES (4, 4)",
        )
        sync.wait_synced()
    report = compare(pair_tables([upstream], [name]), tidb)
    assert report.identical, str(report)
