"""Shards whose partitions of one name have other rows: what takes them away pauses before the target loses any."""

from __future__ import annotations

from contextlib import closing

import pytest

from dm.config.scalar import ShardMode
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import read_schema
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.partition_rows import differing_rows
from dm.mysql.sql.context import SourceContext
from dm.task.shard_locks import Decision, decide
from tests.live.syncer.shards.test_shards import merged, subtasks_of, wait_for_rows
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, endpoint_of, running_sync

pytestmark = pytest.mark.live


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize(
    ("mode", "statement"), [("pessimistic", "DROP PARTITION p1"), ("optimistic", "TRUNCATE PARTITION p1")]
)
def test_rows_of_a_partition_that_is_another_one_at_the_target_stay(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, mode: ShardMode, statement: str
) -> None:
    name = schema(upstream, target)
    first = "id INT PRIMARY KEY, v INT) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1"
    (subtask,) = subtasks_of(name, [upstream], target, columns=f"{first} VALUES LESS THAN (100)")
    upstream.execute(
        f"ALTER TABLE {name}.s2 REORGANIZE PARTITION p1 INTO (PARTITION p2 VALUES LESS THAN (50),"
        " PARTITION p1 VALUES LESS THAN (100))",
        f"ALTER TABLE {name}.s2 REORGANIZE PARTITION p0, p2 INTO (PARTITION p0 VALUES LESS THAN (50))",
    )
    subtask = subtask.model_copy(update={"shard_mode": mode})
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(
            f"INSERT INTO {name}.s1 VALUES (1, 1), (20, 1), (60, 1)", f"INSERT INTO {name}.s2 VALUES (2, 2), (30, 2)"
        )
        wait_for_rows(target, name, 5, sync)
    upstream.execute(f"ALTER TABLE {name}.s1 {statement}", f"ALTER TABLE {name}.s2 {statement}")
    ended = RunningSync(subtask, None).wait_ended()
    assert isinstance(ended, DMError)
    assert (ended.name, bool(ended.position)) == ("shard-partitions-differ", True)
    assert "50" in ended.message
    assert len(target.query(f"SELECT id FROM {name}.t")) == 5
    again = RunningSync(subtask, None).wait_ended()
    assert isinstance(again, DMError)
    assert (again.name, again.position) == (ended.name, ended.position)
    assert decide(subtask, Decision(f"{name}-`{name}`.`t`", skip=True)) == ""
    upstream.execute(f"INSERT INTO {name}.s1 VALUES (3, 3)", f"INSERT INTO {name}.s2 VALUES (4, 4)")
    with running_sync(subtask) as sync:
        wait_for_rows(target, name, 7, sync)
        sync.wait_synced()


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("mode", ["pessimistic", "optimistic"])
def test_values_that_the_server_computes_are_computed_before_they_are_compared(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, mode: ShardMode
) -> None:
    name = schema(upstream, target)
    days = "PARTITION p{0} VALUES LESS THAN (TO_DAYS('2026-0{0}-01'))"
    columns = f"id INT, k DATE, PRIMARY KEY (id, k)) PARTITION BY RANGE (TO_DAYS(k)) ({days.format(1)}"
    (subtask,) = subtasks_of(name, [upstream], target, columns=columns)
    with running_sync(subtask.model_copy(update={"shard_mode": mode})) as sync:
        sync.wait_synced()
        for number in (1, 2):
            upstream.execute(
                f"ALTER TABLE {name}.s{number} ADD PARTITION ({days.format(2)}, {days.format(3)})",
                f"INSERT INTO {name}.s{number} VALUES ({number}, '2026-01-05'), ({number}, '2026-02-05')",
            )
        wait_for_rows(target, name, 4, sync)
        upstream.execute(f"ALTER TABLE {name}.s1 DROP PARTITION p2", f"ALTER TABLE {name}.s2 DROP PARTITION p2")
        wait_for_rows(target, name, 2, sync)
        sync.wait_synced()
    merged([upstream], target, name)


CLAUSES = (
    "RANGE (id) (PARTITION p0 VALUES LESS THAN (-10), PARTITION p1 VALUES LESS THAN (2 * 10),"
    " PARTITION p2 VALUES LESS THAN MAXVALUE)",
    "RANGE (YEAR(k)) (PARTITION p0 VALUES LESS THAN (2020) COMMENT 'a, b', PARTITION p1 VALUES LESS THAN (2030))",
    "RANGE (TO_DAYS(k)) (PARTITION p0 VALUES LESS THAN (TO_DAYS('2026-01-01')))",
    "RANGE COLUMNS (c, id) (PARTITION p0 VALUES LESS THAN ('x''y', 5), PARTITION p1 VALUES LESS THAN ('z', MAXVALUE))",
    "RANGE COLUMNS (k) (PARTITION p0 VALUES LESS THAN ('2026-01-01'), PARTITION p1 VALUES LESS THAN (MAXVALUE))",
    "LIST (id) (PARTITION p0 VALUES IN (1, 2), PARTITION p1 VALUES IN (NULL, -3))",
    "LIST COLUMNS (c) (PARTITION p0 VALUES IN ('a', 'B'), PARTITION p1 VALUES IN ('it''s'))",
    "HASH (id) PARTITIONS 3",
    "KEY (id) PARTITIONS 3",
)


@pytest.mark.parametrize("kind", ["mysql", "mariadb", pytest.param("tidb", marks=pytest.mark.tidb)])
def test_what_a_server_prints_of_partitions_is_what_it_was_told(
    request: pytest.FixtureRequest, schema: SchemaFactory, kind: str
) -> None:
    server: PrivateServer = request.getfixturevalue(kind)
    name = schema(server)

    with closing(TargetConnection(endpoint_of(server))) as connection:

        def number(expression: str) -> int | None:
            found = connection.query(f"SELECT {expression}")[0][0]
            return found if isinstance(found, int) else None

        for at, clause in enumerate(CLAUSES):
            table = TableName(name, f"t{at}")
            text = f"CREATE TABLE {table.sql} (id INT, k DATE, c VARCHAR(20)) PARTITION BY {clause}"
            server.execute(text)
            own, shown = (
                parse_create_table(text, SourceContext(server.flavor, 101100, name)),
                read_schema(connection, table),
            )
            assert shown is not None
            assert own.partitions, clause
            assert differing_rows(own, shown, own.partitions, number) == "", clause
