"""Shard merge with columns that hold parts of names: shards with the same keys, altered one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dm.config.rules import RouteRule, SourceExtraction, TableExtraction
from dm.config.scalar import ShardMode
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.ident import TableName
from dm.syncer.operators import EventPlace, Request
from dm.task.binlog_verbs import StructureRequest, change_structure, operate_on_event
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, running_sync, subtask_for, wait_until

pytestmark = pytest.mark.live

_CHAOS = pytest.mark.chaos
Rows = list[tuple[object, ...]]


def gathering(
    mode: ShardMode, name: str, upstreams: Sequence[ThrowawayServer], target: ThrowawayServer
) -> list[SubtaskConfig]:
    """Tables s1 and s2 of each source become t, whose rows say where they are from; the sources' keys are the same."""
    for server in upstreams:
        server.execute(*(f"CREATE TABLE {name}.s{number} (id INT PRIMARY KEY, v INT)" for number in (1, 2)))
    target.execute(
        f"CREATE TABLE {name}.t (shard VARCHAR(9) NOT NULL, id INT NOT NULL, v INT, origin VARCHAR(9) NOT NULL,"
        " PRIMARY KEY (id, shard, origin))"
    )
    rule = RouteRule(
        schema_pattern=name,
        table_pattern="s*",
        target_schema=name,
        target_table="t",
        extract_table=TableExtraction(table_regexp="^s(.*)$", target_column="shard"),
        extract_source=SourceExtraction(source_regexp="^source-(.*)$", target_column="Origin"),
    )
    sources = tuple(f"source-{number}" for number in range(len(upstreams)))
    return [
        subtask_for(server, target, name, task=name, source_id=sources[number], routes=(rule,)).model_copy(
            update={"shard_mode": mode, "shard_sources": sources if mode else ()}
        )
        for number, server in enumerate(upstreams)
    ]


def found(target: ThrowawayServer, name: str, columns: str) -> Rows:
    """The target's rows, each after what was extracted."""
    return sorted(target.query(f"SELECT origin, shard, {columns} FROM {name}.t"))


def expected(upstreams: Sequence[ThrowawayServer], name: str, columns: str) -> Rows:
    """The same from the shards themselves."""
    return sorted(
        (str(number), str(table)[1:], *row)
        for number, server in enumerate(upstreams)
        for (table,) in server.query(f"SHOW TABLES FROM {name}")
        for row in server.query(f"SELECT {columns} FROM {name}.{table}")
    )


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("mode", [pytest.param("pessimistic", marks=_CHAOS), "optimistic"])
def test_shards_with_the_same_keys_are_altered_one_after_the_other(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory, mode: ShardMode
) -> None:
    name = schema(*upstreams, target)
    subtasks = gathering(mode, name, upstreams, target)
    shards = [(server, f"{name}.s{number}") for server in upstreams for number in (1, 2)]
    with running_sync(subtasks[0]) as one, running_sync(subtasks[1]) as two:
        one.wait_synced()
        two.wait_synced()
        for server, table in shards:
            server.execute(f"INSERT INTO {table} VALUES (1, 1), (2, 2), (3, 3)")
        for server, table in shards:
            server.execute(
                f"UPDATE {table} SET v = 5, id = 5 WHERE id = 1",
                f"ALTER TABLE {table} ADD COLUMN w INT NOT NULL DEFAULT 7",
                f"INSERT INTO {table} (id, v, w) VALUES (1, 6, 6)",
                f"DELETE FROM {table} WHERE id = 2",
            )
        for server, table in reversed(shards):
            server.execute(
                f"ALTER TABLE {table} ADD INDEX by_w (w)",
                f"ALTER TABLE {table} DROP COLUMN v",
                f"UPDATE {table} SET w = w + 1 WHERE id = 3",
            )
        for sync in (one, two):
            sync.wait_synced()
        for server in upstreams:
            server.execute(
                f"CREATE TABLE {name}.s3 (id INT PRIMARY KEY, w INT NOT NULL DEFAULT 7, KEY by_w (w))",
                f"INSERT INTO {name}.s3 (id) VALUES (1), (3)",
                f"DROP TABLE {name}.s2",
            )
            target.execute(f"DELETE FROM {name}.t WHERE shard = '2'")  # DROP TABLE leaves a shard's rows there
        for sync in (one, two):
            sync.wait_synced()
    assert found(target, name, "id, w") == expected(upstreams, name, "id, w")
    columns = [str(row[0]) for row in target.query(f"SHOW COLUMNS FROM {name}.t")]
    assert columns == ["shard", "id", "origin", "w"]
    assert len(target.query(f"SHOW INDEX FROM {name}.t WHERE Key_name = 'PRIMARY'")) == 3


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("mode", ["pessimistic", *(pytest.param(mode, marks=_CHAOS) for mode in ("", "optimistic"))])
def test_a_shards_own_column_of_that_name_is_none_of_the_targets(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, mode: ShardMode
) -> None:
    name = schema(upstream, target)
    (subtask,) = gathering(mode, name, [upstream], target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    statements = [f"ALTER TABLE {name}.s1 {what} COLUMN Shard" for what in ("ADD", "DROP")]
    upstream.execute(
        f"INSERT INTO {name}.s1 VALUES (1, 1)",
        f"{statements[0]} VARCHAR(9) NOT NULL",
        statements[1],
        f"INSERT INTO {name}.s1 VALUES (2, 2)",
        f"INSERT INTO {name}.s2 VALUES (1, 3)",
    )
    for statement in statements:
        error = RunningSync(subtask, None).wait_ended()
        assert isinstance(error, DMError)
        assert error.name == "extract-column-altered"
        assert statement in error.message
        assert error.place is not None
        operate_on_event(subtask, Request("skip", name, "source-0"), EventPlace.from_json(error.place))
    with running_sync(subtask) as sync:
        sync.wait_synced()
    assert found(target, name, "id, v") == expected([upstream], name, "id, v")


@pytest.mark.ci_flavor("mysql")
def test_a_structure_taken_from_the_target_is_without_them(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    (subtask,) = gathering("pessimistic", name, [upstream], target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    for table in ("s1", "s2"):
        stored = change_structure(subtask, StructureRequest("update", TableName(name, table), origin="target"))
        assert "PRIMARY KEY (`id`)" in stored
    with running_sync(subtask) as sync:
        for table in ("s1", "s2"):
            upstream.execute(
                f"INSERT INTO {name}.{table} VALUES (1, 1)",
                f"ALTER TABLE {name}.{table} ADD COLUMN w INT",
                f"INSERT INTO {name}.{table} VALUES (2, 2, 2)",
            )
        wait_until(lambda: len(found(target, name, "id")) == 4, "all rows are there")
        sync.wait_synced()
    assert found(target, name, "id, v, w") == expected([upstream], name, "id, v, w")
