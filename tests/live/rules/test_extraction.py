"""Tables that a route gathers, each row with its table's name: as if every shard were applied alone."""

from __future__ import annotations

import random

import pytest

from dm.config.rules import RouteRule, SchemaExtraction, SourceExtraction, TableExtraction
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.ident import Ident, TableName
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, SyncProcess, running_sync, subtask_for

pytestmark = pytest.mark.live

NAMES = ("t_1", "t_", "t_a'b", "t_`;%", "t_日本", "t_A")


def gathering(upstream: ThrowawayServer, target: ThrowawayServer, schema: str) -> SubtaskConfig:
    rule = RouteRule(
        name="gather",
        schema_pattern=schema,
        table_pattern="t_*",
        target_schema=schema,
        target_table="all_t",
        extract_table=TableExtraction(table_regexp="^t_(.*)$", target_column="shard"),
        extract_schema=SchemaExtraction(schema_regexp="_(.*)$", target_column="origin"),
        extract_source=SourceExtraction(source_regexp="^(.*?)-([0-9]+)$", target_column="Source"),
    )
    return subtask_for(upstream, target, schema, task=schema, routes=(rule,), batch=7)


def create_target(target: ThrowawayServer, schema: str, keys: str) -> None:
    target.execute(
        f"CREATE TABLE {schema}.all_t (shard VARCHAR(20) COLLATE utf8mb4_bin NOT NULL, id INT NOT NULL, v VARCHAR(20),"
        f" origin CHAR(20) NOT NULL, k INT, source VARBINARY(20) NOT NULL{keys}) CHARACTER SET utf8mb4"
    )


def rows_of(server: ThrowawayServer, schema: str, names: tuple[str, ...]) -> list[tuple[object, ...]]:
    """What the target has to hold, from the shards themselves."""
    return sorted(
        (name.removeprefix("t_"), *row, schema.partition("_")[2], b"source1")
        for name in names
        for row in server.query(f"SELECT id, v, k FROM {TableName(schema, name).sql}")
    )


@pytest.mark.parametrize(
    "keys",
    [
        ", PRIMARY KEY (id, shard, origin, source), UNIQUE KEY ks (k, shard)",
        pytest.param("", marks=pytest.mark.chaos),
        pytest.param(", UNIQUE KEY ids (shard, source, id)", marks=pytest.mark.chaos),
    ],
    ids=["two keys", "no key", "unique key"],
)
@pytest.mark.ci_flavor("mysql")
def test_shards_with_the_same_keys_do_not_meet(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, keys: str
) -> None:
    name = schema(upstream, target)
    create_target(target, name, keys)
    tables = [TableName(name, table).sql for table in NAMES]
    created = "CREATE TABLE {} (id INT PRIMARY KEY, v VARCHAR(20), k INT, UNIQUE KEY (k))"
    upstream.execute(*(created.format(table) for table in tables[:4]))
    draw = random.Random(20261121)
    subtask = gathering(upstream, target, name)
    process = SyncProcess(subtask)
    try:
        process.wait_synced()
        upstream.execute(*(created.format(table) for table in tables[4:]))  # shards that come later
        changes(upstream, draw, tables, 100)
    finally:
        process.close(kill=True)
    with running_sync(subtask) as sync:  # begins in safe mode
        changes(upstream, draw, tables, 60)
        sync.wait_synced()
    found = sorted(target.query(f"SELECT shard, id, v, k, origin, source FROM {name}.all_t"))
    expected = rows_of(upstream, name, NAMES)
    assert found == expected
    assert len({row[1] for row in expected}) < len(expected), "shards have ids in common"


def changes(upstream: ThrowawayServer, draw: random.Random, tables: list[str], count: int) -> None:
    """Random changes of few rows with few keys, so that keys move and are taken again."""
    statements = []
    for number in range(count):
        table, row, other = draw.choice(tables), draw.randrange(6), draw.randrange(6)
        key = draw.choice(["NULL", str(100 * number), str(100 * number + 1)])
        statements.append(
            draw.choice(
                [
                    f"REPLACE INTO {table} VALUES ({row}, 'v{number}', {key})",
                    f"UPDATE IGNORE {table} SET id = {other}, v = 'moved' WHERE id = {row}",
                    f"UPDATE {table} SET v = 'w{number}', k = {key} WHERE id = {row}",
                    f"DELETE FROM {table} WHERE id = {row}",
                ]
            )
        )
    upstream.execute(*statements)


@pytest.mark.ci_flavor("mysql")
def test_what_can_not_be_gathered_pauses_and_goes_on_when_it_is_put_right(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    subtask = gathering(upstream, target, name)

    def stops_with(kind: str, *statements: str) -> DMError:
        sync = RunningSync(subtask, None)
        try:
            upstream.execute(*statements)
            error = sync.wait_ended()
        finally:
            sync.stop()
        assert isinstance(error, DMError)
        assert (error.name, error.position is not None) == (kind, True)
        return error

    with running_sync(subtask) as sync:
        sync.wait_synced()
    missing = stops_with("extract-table-missing", f"CREATE TABLE {name}.t_1 (id INT PRIMARY KEY, v VARCHAR(20), k INT)")
    assert f"create `{name}`.`all_t` at the target" in missing.workaround
    create_target(target, name, ", PRIMARY KEY (id, shard)")
    target.execute(f"ALTER TABLE {name}.all_t MODIFY source INT")
    unfit = stops_with("extract-column-unfit", f"INSERT INTO {name}.t_1 VALUES (1, 'a', 1)")
    assert "it is of type INT" in unfit.message
    target.execute(f"ALTER TABLE {name}.all_t MODIFY source VARBINARY(20)")
    with running_sync(subtask) as sync:
        sync.wait_synced()
    stops_with("extract-renamed", f"RENAME TABLE {name}.t_1 TO {name}.t_2")
    assert target.query(f"SELECT shard, id FROM {Ident(name).sql}.all_t") == (("1", 1),)
