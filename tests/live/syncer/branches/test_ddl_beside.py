"""`ddl-beside-rows`: a statement that takes the target long leaves with its table, and the others go on."""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.ident import TableName
from dm.syncer.returning_run import ShareRun
from dm.task.progress import key_of
from tests.testbed.branches import Branching
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.lag_meter import LagMeter
from tests.testbed.sync import endpoint_of, subtask_for, wait_until
from tests.testbed.tidb import TidbServer
from tests.testbed.tidb_jobs import in_use

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

MOST_LAG = 2.0  # seconds, of the other tables
ROWS = ", ".join(f"({number}, {number})" for number in range(1, 41))


@pytest.mark.parametrize(
    "form",
    [
        pytest.param("(id INT PRIMARY KEY, v INT)", id="keyed", marks=pytest.mark.chaos),
        pytest.param("(id INT, v INT)", id="keyless"),
    ],
)
def test_the_others_go_on_while_the_target_is_at_it(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path, form: str
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(
            f"CREATE TABLE {name}.t {form}",
            f"CREATE TABLE {name}.other (id INT PRIMARY KEY)",
            f"INSERT INTO {name}.t VALUES {ROWS}",
        )
    task = Branching(subtask_for(upstream, target, name, task=name, ddl_beside_rows=39), tmp_path)
    with task.main() as main, closing(TargetConnection(endpoint_of(target))) as reader:
        main.wait_synced()
        # The target says that it does this at once, so it stays.
        upstream.execute(f"ALTER TABLE {name}.t ADD COLUMN w INT", f"INSERT INTO {name}.t VALUES (41, 41, 41)")
        main.wait_synced()
        assert not task.branches()
        reader.begin()
        reader.query(
            f"SELECT COUNT(*) FROM {name}.t"
        )  # its lock of the table holds a statement for as long as it likes
        upstream.execute(
            f"ALTER TABLE {name}.t ADD INDEX v (v)",
            f"INSERT INTO {name}.t VALUES (42, 42, 42)",
            f"INSERT INTO {name}.other VALUES (1)",
            f"ALTER TABLE {name}.t ADD INDEX w (w), DROP COLUMN v",
            f"INSERT INTO {name}.t VALUES (43, 43)",
            f"ALTER TABLE {name}.other ADD INDEX few (id)",
            f"INSERT INTO {name}.other VALUES (2)",
        )
        wait_until(lambda: len(target.query(f"SELECT 1 FROM {name}.other")) == 2, "the other table goes on")
        wait_until(lambda: (one := task.of("t")) is not None and one.phase == "undo", "the table has left")
        with task.coming("t") as running:
            upstream.execute(f"INSERT INTO {name}.other VALUES (3)")
            wait_until(lambda: len(target.query(f"SELECT 1 FROM {name}.other")) == 3, "and goes on while it executes")
            assert target.query(f"SELECT COUNT(*) FROM {name}.t") == ((41,),)
            reader.rollback()
            wait_until(lambda: task.of("t") is None, "the table is back", 120)
            running.wait_ended()
        upstream.execute(f"INSERT INTO {name}.t VALUES (44, 44)")
        main.wait_synced()
    query = f"SELECT * FROM {name}.t ORDER BY id"
    assert target.query(query) == upstream.query(query)
    keys = (
        "SELECT index_name, column_name FROM information_schema.statistics WHERE table_schema = %s AND table_name = 't'"
    )
    assert sorted(target.query(keys, [name])) == sorted(upstream.query(keys, [name]))


def test_a_branch_is_near_once_its_statement_is_through(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Main's checkpoint may be where the table left: main would call, and wait for the statement with all others."""
    name, looked, look = schema(upstream, target), list[None](), ShareRun._look

    def noted(*arguments: Any) -> bool:
        looked.append(None)
        return look(*arguments)

    monkeypatch.setattr(ShareRun, "_look", noted)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)", f"INSERT INTO {name}.t VALUES {ROWS}")
    task = Branching(subtask_for(upstream, target, name, task=name, ddl_beside_rows=39), tmp_path)
    with task.main() as main:
        main.wait_synced()
        upstream.execute(f"ALTER TABLE {name}.t ADD INDEX v (v)")
        wait_until(lambda: (one := task.of("t")) is not None and one.phase == "undo", "the table has left")
    branch, key = task.of("t"), key_of(task.subtask)
    assert branch is not None
    own = f"FROM {key.branch(branch.number).checkpoint.sql}"
    target.execute(
        f"UPDATE {key.checkpoint.sql} SET binlog_gtid = (SELECT binlog_gtid {own} LIMIT 1),"
        f" binlog_pos = (SELECT binlog_pos {own} LIMIT 1), binlog_name = (SELECT binlog_name {own} LIMIT 1)"
    )
    with closing(TargetConnection(endpoint_of(target))) as reader:
        reader.begin()
        reader.query(f"SELECT COUNT(*) FROM {name}.t")
        with task.coming("t"):
            waits = (
                "SELECT 1 FROM information_schema.processlist WHERE info LIKE 'ALTER TABLE%' AND state LIKE '%lock%'"
            )
            wait_until(lambda: bool(target.query(waits)), "the statement waits")
            before = len(looked)
            wait_until(lambda: len(looked) >= before + 3, "it has looked at main meanwhile")
            one = task.of("t")
            assert one is not None
            assert one.phase == "undo"
            reader.rollback()
            wait_until(lambda: (one := task.of("t")) is not None and one.phase == "near", "it is near")


@pytest.mark.tidb
@pytest.mark.chaos
def test_at_a_tidb_too(upstream: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory, tmp_path: Path) -> None:
    """A row that is missing, then an index that has to wait; `in_use` is a session that has the table open."""
    name = schema(upstream, tidb)
    for server in (upstream, tidb):
        server.execute(
            f"ALTER DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
            f"CREATE TABLE {name}.t (id INT, v INT)",
            f"CREATE TABLE {name}.other (id INT PRIMARY KEY)",
            f"INSERT INTO {name}.t VALUES {ROWS}",
        )
    task = Branching(subtask_for(upstream, tidb, name, task=name, on_error="table", ddl_beside_rows=30), tmp_path)
    with task.main() as main:
        main.wait_synced()
        tidb.execute(f"DELETE FROM {name}.t WHERE id = 1")
        upstream.execute(f"UPDATE {name}.t SET v = 0 WHERE id < 3", f"INSERT INTO {name}.other VALUES (1)")
        wait_until(lambda: task.rests("t"), "the table is aside")
        wait_until(lambda: len(tidb.query(f"SELECT 1 FROM {name}.other")) == 1, "the other table goes on")
        tidb.execute(f"INSERT INTO {name}.t VALUES (1, 1)")
        task.comes_back("t")
        main.wait_synced()
        with in_use(tidb, TableName(name, "t")):
            upstream.execute(
                f"ALTER TABLE {name}.t ADD INDEX v (v)",
                f"INSERT INTO {name}.t VALUES (50, 50)",
                f"INSERT INTO {name}.other VALUES (2)",
            )
            wait_until(lambda: len(tidb.query(f"SELECT 1 FROM {name}.other")) == 2, "the other table goes on")
            wait_until(lambda: task.of("t") is not None, "the table has left")
        with task.coming("t") as running:
            wait_until(lambda: task.of("t") is None, "the table is back", 120)
            running.wait_ended()
        main.wait_synced()
    query = f"SELECT * FROM {name}.t ORDER BY id"
    assert tidb.query(query) == upstream.query(query)
    assert tidb.query(
        "SELECT 1 FROM information_schema.statistics WHERE table_schema = %s AND index_name = 'v'", [name]
    )


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "form", ["(id INT PRIMARY KEY, v INT, w INT)", "(id INT, v INT, w INT)"], ids=["keyed", "keyless"]
)
def test_an_index_that_takes_long_costs_the_others_less_than_two_seconds(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path, form: str
) -> None:
    """DDL_SECONDS, 15 by default: so long a session that reads the table holds the statement at the target."""
    name, seconds = schema(upstream, target), float(os.environ.get("DDL_SECONDS", "15"))
    for server in (upstream, target):
        server.execute(
            f"CREATE TABLE {name}.t {form}",
            f"CREATE TABLE {name}.other (id INT PRIMARY KEY)",
            f"INSERT INTO {name}.t (id, v) VALUES {ROWS}",
        )
    task = Branching(subtask_for(upstream, target, name, task=name, ddl_beside_rows=39), tmp_path)
    meter = LagMeter(upstream, target, f"{name}.other")
    with task.main() as main, closing(TargetConnection(endpoint_of(target))) as reader, meter.measuring():
        main.wait_synced()
        reader.begin()
        reader.query(f"SELECT COUNT(*) FROM {name}.t")
        upstream.execute(f"ALTER TABLE {name}.t ADD INDEX v (v)", f"INSERT INTO {name}.t VALUES (100, 1, 1)")
        wait_until(lambda: (one := task.of("t")) is not None and one.phase == "undo", "the table has left")
        with task.coming("t") as running:
            end, number = time.monotonic() + seconds, 100
            while time.monotonic() < end:
                number += 1
                upstream.execute(
                    f"INSERT INTO {name}.t VALUES ({number}, {number}, 0)",
                    f"UPDATE {name}.t SET v = v + 1 WHERE id IN ({number - 5}, 7)",
                    f"DELETE FROM {name}.t WHERE id = {number - 9}",
                )
                if number == 110:
                    upstream.execute(f"ALTER TABLE {name}.t ADD INDEX w (w), ADD COLUMN x INT DEFAULT 5, DROP INDEX v")
                    upstream.execute(f"ALTER TABLE {name}.t DROP COLUMN x")
            assert task.of("t") is not None
            reader.rollback()
            wait_until(lambda: task.of("t") is None, "the table is back", 300)
            running.wait_ended()
        main.wait_synced()
        lag = meter.worst
    print(f"held for {seconds:.0f} s, {number - 100} rows written: the other table was {lag:.2f} s late at most")
    query = f"SELECT * FROM {name}.t ORDER BY id, v"
    assert target.query(query) == upstream.query(query)
    assert lag < MOST_LAG
