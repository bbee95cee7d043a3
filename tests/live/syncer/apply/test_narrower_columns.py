"""Columns of the target that may change values: the task pauses before it writes one, or a person accepts it."""

from __future__ import annotations

import pytest

from dm.config.rules import RouteRule
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, running_sync, subtask_for

pytestmark = pytest.mark.live

SOURCE = "id INT PRIMARY KEY, price DECIMAL(10,4), made DATETIME(6), name VARCHAR(20), n INT, c CHAR(4) AS (n) STORED"
TARGET = "id BIGINT PRIMARY KEY, price DECIMAL(10,2), made DATETIME, name TEXT, n TINYINT, c CHAR(1) AS ('c') STORED"
ROW = "(1, 1.0051, '2024-01-02 03:04:05.600000', 'a ', 1, DEFAULT)"


def _create(upstream: ThrowawayServer, target: ThrowawayServer, name: str) -> None:
    upstream.execute(f"CREATE TABLE {name}.t ({SOURCE}) DEFAULT CHARSET utf8mb4")
    target.execute(f"CREATE TABLE {name}.t ({TARGET}) DEFAULT CHARSET utf8mb4")


@pytest.mark.ci_flavor("mariadb")
def test_the_task_pauses_before_the_first_row_and_goes_on_when_there_is_room(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    _create(upstream, target, name)
    subtask = subtask_for(upstream, target, name, task=name)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    upstream.execute(f"INSERT INTO {name}.t VALUES {ROW}")
    error = RunningSync(subtask, None).wait_ended()
    assert isinstance(error, DMError)
    assert (error.name, error.retryable) == ("columns-narrower", False)
    # All that don't fit, and neither those that are wide enough or refused by the server, nor what is computed there.
    columns = "price (decimal(10,4) into decimal(10,2)), made (datetime(6) into datetime)"
    assert error.message.startswith(
        f"columns of target table {name}.t may silently store other values than source table {name}.t has: {columns}"
    )
    assert error.position is not None
    assert error.position in error.message
    assert target.query(f"SELECT COUNT(*) FROM {name}.t") == ((0,),)
    target.execute(f"ALTER TABLE {name}.t MODIFY price DECIMAL(12,4), MODIFY made DATETIME(6)")
    with running_sync(subtask) as sync:
        sync.wait_synced()
    rows = f"SELECT id, price, made, name, n FROM {name}.t"
    assert target.query(rows) == upstream.query(rows)


def test_null_that_would_become_the_present_moment_pauses_the_task(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    upstream.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, ts TIMESTAMP NULL, n INT)")
    target.execute(
        f"CREATE TABLE {name}.t (id INT PRIMARY KEY, ts TIMESTAMP NOT NULL DEFAULT '2024-01-02 03:04:05',"
        " n INT AUTO_INCREMENT UNIQUE)"
    )
    subtask = subtask_for(upstream, target, name, task=name)
    # MariaDB needs no such setting.
    session = {"explicit_defaults_for_timestamp": "0"} if target.flavor == "mysql" else {}
    subtask = subtask.model_copy(update={"target": subtask.target.model_copy(update={"session": session})})
    with running_sync(subtask) as sync:
        sync.wait_synced()
    upstream.execute(f"INSERT INTO {name}.t VALUES (1, NULL, NULL), (2, '2024-01-02 03:04:05', 1)")
    error = RunningSync(subtask, None).wait_ended()
    assert isinstance(error, DMError)
    assert error.name == "columns-narrower"
    for why in (
        "ts (timestamp into timestamp NOT NULL: NULL becomes the present moment)",
        " AUTO_INCREMENT: NULL becomes the next number)",
    ):
        assert why in error.message
    target.execute(f"ALTER TABLE {name}.t MODIFY ts TIMESTAMP NULL, MODIFY n INT NULL")
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"UPDATE {name}.t SET ts = NULL WHERE id = 2")
        sync.wait_synced()
    rows = f"SELECT id, ts, n FROM {name}.t"
    assert target.query(rows) == upstream.query(rows) == ((1, None, None), (2, None, 1))


def test_null_that_the_target_refuses_is_no_narrower_column(mysql: ThrowawayServer, schema: SchemaFactory) -> None:
    name, there = schema(mysql), schema(mysql)
    mysql.execute(
        f"CREATE TABLE {name}.t (id INT PRIMARY KEY, ts TIMESTAMP NULL)",
        f"CREATE TABLE {there}.t (id INT PRIMARY KEY, ts TIMESTAMP NOT NULL)",
    )
    route = RouteRule(name="there", schema_pattern=name, target_schema=there)
    subtask = subtask_for(mysql, mysql, name, task=name, routes=(route,))
    with running_sync(subtask) as sync:
        sync.wait_synced()
        mysql.execute(f"INSERT INTO {name}.t VALUES (1, '2024-01-02 03:04:05')")
        sync.wait_synced()
    mysql.execute(f"INSERT INTO {name}.t VALUES (2, NULL)")
    error = RunningSync(subtask, None).wait_ended()
    assert isinstance(error, DMError)
    assert error.cause.startswith("1048 ")
    assert mysql.query(f"SELECT id FROM {there}.t") == ((1,),)


@pytest.mark.ci_flavor("mysql")
def test_what_the_target_makes_of_values_can_be_accepted(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    _create(upstream, target, name)
    subtask = subtask_for(upstream, target, name, task=name, narrower_columns="accept")
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"INSERT INTO {name}.t VALUES {ROW}")
        sync.wait_synced()
    assert target.query(f"SELECT price * 100, name FROM {name}.t") == ((101, "a "),)


def test_the_json_of_mariadb_is_not_the_json_of_mysql(
    mariadb: ThrowawayServer, mysql: ThrowawayServer, schema: SchemaFactory
) -> None:
    """MySQL takes each text that MariaDB's check admits, and rounds numbers in it without a word."""
    name = schema(mariadb, mysql)
    for server in (mariadb, mysql):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, j JSON)")
    subtask = subtask_for(mariadb, mysql, name, task=name)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    mariadb.execute(f"INSERT INTO {name}.t VALUES (1, '[12345678901234567890123]')")
    error = RunningSync(subtask, None).wait_ended()
    assert isinstance(error, DMError)
    assert error.name == "columns-narrower"
    assert "LONGTEXT with CHECK (json_valid(..))" in error.workaround
    accepting = subtask.syncer.model_copy(update={"narrower_columns": "accept"})
    with running_sync(subtask.model_copy(update={"syncer": accepting})) as sync:
        sync.wait_synced()
    assert mysql.query(f"SELECT CAST(j AS CHAR) FROM {name}.t") == (("[1.2345678901234568e22]",),)
    mysql.execute(f"ALTER TABLE {name}.t MODIFY j LONGTEXT CHECK (JSON_VALID(j))")
    mariadb.execute(f"UPDATE {name}.t SET j = '[12345678901234567890124]'")
    with running_sync(subtask) as sync:
        sync.wait_synced()
    assert mysql.query(f"SELECT j FROM {name}.t") == (("[12345678901234567890124]",),)
