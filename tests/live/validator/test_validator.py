"""Rows that are wrong at the target are found, and no others."""

from __future__ import annotations

import threading
from typing import Any
from unittest.mock import patch

import pytest

from dm.config.rules import FilterRule, RouteRule
from dm.demo.servers import ThrowawayServer
from dm.tools.validator.throttle import Throttle
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import running_sync, subtask_for, wait_until
from tests.testbed.validation import errors_of, running_validator, tables_of, validated

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


def column(server: ThrowawayServer, sql: str) -> list[Any]:
    return [row[0] for row in server.query(sql)]


@pytest.mark.ci_flavor("mysql")
def test_wrong_rows_are_found_and_no_others(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    keyed = f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v VARCHAR(20), d DOUBLE, j JSON, e ENUM('x','y'), b BLOB)"
    other = f"CREATE TABLE {name}.bare (v INT)"
    upstream.execute(keyed, other)
    subtask = validated(subtask_for(upstream, target, name, task=name))
    with running_sync(subtask) as sync:
        target.execute(keyed, other)
        sync.wait_synced()
        with running_validator(subtask) as validator:
            validator.wait("0/0/0")
        upstream.execute(
            *(
                f"INSERT INTO {name}.t VALUES ({n}, 'row {n}', {n} / 3, '{{\"n\": {n}}}', 'y', x'00FF')"
                for n in range(1, 11)
            ),
            f"UPDATE {name}.t SET v = 'changed' WHERE id = 2",
            f"DELETE FROM {name}.t WHERE id = 3",
            f"UPDATE {name}.t SET id = 40 WHERE id = 4",
            f"INSERT INTO {name}.bare VALUES (1)",
        )
        sync.wait_synced()
        target.execute(
            f"DELETE FROM {name}.t WHERE id = 1",
            f"UPDATE {name}.t SET v = 'Changed' WHERE id = 2",
            f"INSERT INTO {name}.t VALUES (3, 'back', 0, NULL, NULL, NULL)",
            f"UPDATE {name}.t SET d = d + 1e-15 WHERE id = 5",
            f"UPDATE {name}.t SET v = 'row 6 ' WHERE id = 6",
        )
        with running_validator(subtask) as validator:
            validator.wait("11/1/2")
            assert validator.status()["errorRowsStatus"] == "new/ignored/resolved: 5/0/0"
    found = {(each.row.kind, each.row.message.partition(":")[0]): each.row for each in errors_of(subtask)}
    assert sorted(found) == [
        ("deleted", "id=3"), ("different", "id=2"), ("different", "id=5"), ("different", "id=6"), ("missing", "id=1"),
    ]  # fmt: skip
    assert found["different", "id=2"].message == "id=2: v: changed at the source, Changed at the target"
    stages = {table: (each.stage, each.message) for table, each in tables_of(subtask).items()}
    assert stages == {"t": ("Running", ""), "bare": ("Stopped", "no primary key")}
    target.execute(*(each.fix for each in found.values()))
    order = f"SELECT id, v, d, j, e, b FROM {name}.t ORDER BY id"
    assert target.query(order) == upstream.query(order)


@pytest.mark.ci_flavor("mysql")
def test_a_fix_leaves_alone_what_only_the_target_has(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    columns = "k VARCHAR(9) PRIMARY KEY, v INT, j JSON"
    own = "own INT DEFAULT 7, seen TIMESTAMP NOT NULL DEFAULT '2020-01-01 00:00:00' ON UPDATE CURRENT_TIMESTAMP"
    upstream.execute(f"CREATE TABLE {name}.t ({columns})")
    target.execute(f"CREATE TABLE {name}.t ({columns}, {own})")
    subtask = validated(subtask_for(upstream, target, name, task=name))
    with running_sync(subtask) as sync:
        sync.wait_synced()
        with running_validator(subtask) as validator:
            validator.wait("0/0/0")
        values = "('a', 1, '[1.0]'), ('b', 2, '[2.0]'), ('c', 3, '[3.0]'), ('d', 4, '[4.0]')"
        upstream.execute(f"INSERT INTO {name}.t VALUES {values}")
        sync.wait_synced()
        target.execute(
            f"UPDATE {name}.t SET own = 70",
            f"UPDATE {name}.t SET v = 0 WHERE k = 'a'",
            f"UPDATE {name}.t SET k = 'B' WHERE k = 'b'",
            f"UPDATE {name}.t SET j = '[0]' WHERE k = 'c'",  # for a MySQL, [3] is not another one than [3.0]
            f"UPDATE {name}.t SET j = '[3]' WHERE k = 'c'",
            f"DELETE FROM {name}.t WHERE k = 'd'",
            f"UPDATE {name}.t SET seen = '2020-01-01 00:00:00'",
        )
        with running_validator(subtask) as validator:
            validator.wait("4/0/0")
    fixes = [statement for each in errors_of(subtask) for statement in each.row.fix.split(";\n")]
    updates = 3 if upstream.flavor == "mariadb" else 4  # a document is made another one first
    assert sorted(fix.split(" ")[0] for fix in fixes) == ["INSERT", *["UPDATE"] * updates]
    target.execute(*fixes)
    read = f"SELECT k, v, CAST(j AS CHAR) FROM {name}.t ORDER BY k"
    assert target.query(read) == upstream.query(read)
    seen = target.query(f"SELECT k, own, CAST(seen AS CHAR) FROM {name}.t ORDER BY k")
    at = "2020-01-01 00:00:00"
    assert seen == (("a", 70, at), ("b", 70, at), ("c", 70, at), ("d", 7, at))


@pytest.mark.ci_flavor("mysql")
def test_ddl_routes_and_event_filters(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    """Rows that are older than a DDL, tables under other names, and changes that are not to be at the target."""
    name = schema(upstream, target)
    routed = f"r_{name}"
    target.execute(f"CREATE DATABASE {routed}")
    keyed = "CREATE TABLE {}.t (id INT, k CHAR(3), v INT, w INT, PRIMARY KEY (id, k))"
    kept = "CREATE TABLE {}.kept (id INT PRIMARY KEY, v INT)"
    upstream.execute(keyed.format(name), kept.format(name))
    target.execute(keyed.format(routed), kept.format(routed))
    routes = (RouteRule(name="r", schema_pattern=name, target_schema=routed),)
    inserts = FilterRule(
        name="f", schema_pattern=name, table_pattern="kept", events=("update", "delete"), action="Ignore"
    )
    plain = subtask_for(upstream, target, name, task=name, routes=routes)
    subtask = validated(plain.model_copy(update={"filters": (inserts,)}))
    try:
        with running_sync(subtask) as sync:
            sync.wait_synced()
            with running_validator(subtask) as validator:
                validator.wait("0/0/0")
            upstream.execute(
                f"INSERT INTO {name}.t VALUES (1, 'a', 1, 1), (2, 'b', 2, 2), (3, 'c', 3, 3)",
                f"ALTER TABLE {name}.t ADD COLUMN x INT DEFAULT 7, DROP COLUMN w, MODIFY v BIGINT",
                f"INSERT INTO {name}.t VALUES (4, 'd', 4, 4)",
                f"CREATE TABLE {name}.u (id INT PRIMARY KEY)",
                f"INSERT INTO {name}.u VALUES (1), (2)",
                f"RENAME TABLE {name}.u TO {name}.renamed",
                f"CREATE TABLE {name}.gone (id INT PRIMARY KEY)",
                f"INSERT INTO {name}.gone VALUES (1), (2)",
                f"TRUNCATE TABLE {name}.gone",
                f"INSERT INTO {name}.gone VALUES (9)",
                f"INSERT INTO {name}.kept VALUES (1, 1), (2, 2), (3, 3), (4, 4)",
                f"DELETE FROM {name}.kept WHERE id = 1",
                f"UPDATE {name}.kept SET v = 20 WHERE id = 2",
            )
            sync.wait_synced()
            assert target.query(f"SELECT id, v FROM {routed}.kept ORDER BY id") == ((1, 1), (2, 2), (3, 3), (4, 4))
            target.execute(
                f"DELETE FROM {routed}.kept WHERE id = 4",
                f"DELETE FROM {routed}.t WHERE id = 2",
                f"UPDATE {routed}.t SET x = 5 WHERE id = 4",
                f"DELETE FROM {routed}.renamed WHERE id = 2",
            )
            with running_validator(subtask) as validator:
                validator.wait("13/0/0")
        found = sorted((each.row.target.table, each.row.kind, each.row.message) for each in errors_of(subtask))
        assert [(table, kind) for table, kind, _ in found] == [
            ("kept", "missing"), ("renamed", "missing"), ("t", "different"), ("t", "missing"),
        ]  # fmt: skip
        assert found[2][2] == "id=4, k=d: x: 4 at the source, 5 at the target"
    finally:
        target.execute(f"DROP DATABASE {routed}")


@pytest.mark.ci_flavor("mysql")
def test_a_run_goes_on_where_the_last_one_stored(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    """What waits when a run ends waits in the next one; nothing more is read than the quota has room for."""
    name = schema(upstream, target)
    upstream.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)")
    target.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)")
    subtask = validated(subtask_for(upstream, target, name, task=name), row_error_delay=3600.0, max_pending_row_count=3)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        with running_validator(subtask) as validator:
            validator.wait("0/0/0")
        upstream.execute(*(f"INSERT INTO {name}.t VALUES ({n}, {n})" for n in range(1, 9)))
        sync.wait_synced()
        target.execute(f"UPDATE {name}.t SET v = -1 WHERE id <= 3")
        with running_validator(subtask) as validator:
            wait_until(lambda: "max-pending-row-count" in str(validator.status().get("detail")), "it rests")
            validator.wait("3/0/0", "3/0/0")
        with running_validator(subtask) as validator:
            wait_until(lambda: "max-pending-row-count" in str(validator.status().get("detail")), "it rests again")
            validator.wait("3/0/0", "3/0/0")
            target.execute(f"UPDATE {name}.t SET v = id")
            validator.wait("8/0/0")
    assert errors_of(subtask) == []


@pytest.mark.ci_flavor("mariadb")
def test_a_transaction_that_is_read_again_is_counted_once(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    """A run ends inside a transaction, whose rows the next one reads from the first on."""
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)")
    subtask = validated(subtask_for(upstream, target, name, task=name), row_error_delay=3600.0, max_pending_row_count=3)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        with running_validator(subtask) as validator:
            validator.wait("0/0/0")
        rows = (f"INSERT INTO {name}.t VALUES ({n}, {n})" for n in range(2, 9))
        upstream.execute(f"INSERT INTO {name}.t VALUES (1, 1)", "BEGIN", *rows, "COMMIT")
        sync.wait_synced()
        target.execute(f"UPDATE {name}.t SET v = -1 WHERE id IN (2, 3, 4)")
        with running_validator(subtask) as validator:
            validator.wait("4/0/0", "3/0/0")  # and no more: the quota is used up
        with running_validator(subtask) as validator:
            target.execute(f"UPDATE {name}.t SET v = id")
            validator.wait("8/0/0")


@pytest.mark.ci_flavor("mysql")
def test_looks_give_way_until_the_syncer_is_known_to_keep_up(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    upstream.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
    target.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
    subtask = validated(subtask_for(upstream, target, name, task=name), row_error_delay=3600.0)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        with running_validator(subtask) as validator:
            validator.wait("0/0/0")
        upstream.execute(f"INSERT INTO {name}.t VALUES (1), (2)")
        sync.wait_synced()
        target.execute(f"DELETE FROM {name}.t WHERE id = 2")
        rest, resting = Throttle.rest, set[str]()

        def rests(pace: Throttle, worked: float) -> None:
            resting.add(threading.current_thread().name.partition("_")[0])
            rest(pace, worked)

        at_once = patch("dm.tools.validator.unit._READS_SECONDS", 0.0)
        with patch.object(Throttle, "rest", rests), at_once, running_validator(subtask) as validator:
            wait_until(
                lambda: str(validator.status().get("detail", "")).startswith("gives way"), "the validator gives way"
            )
            validator.wait("2/0/0", "1/0/0")
            wait_until(lambda: validator.status()["detail"] == "", "nobody gives way any more")
            assert validator.status()["pendingRows"] == 1
            assert resting == {"validator", "look"}
