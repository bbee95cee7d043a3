"""Tables whose rows go to several tables, each row to the one that it names: as if each had been written there."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from typing import cast

import pytest

from dm.config.rules import RouteRule, ScatterPlace
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.ident import TableName
from dm.spark.session import SparkProvider
from dm.tools.diff.unit import DiffUnit
from dm.tools.errands import DiffRequest
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, SyncProcess, running_sync, subtask_for

pytestmark = pytest.mark.live

SHARDS: Mapping[str, str] = {"1": "t_1", "a": "t_a", "A": "t_`;%", "": "t_", "日本": "t_日本"}
COLUMNS = "id INT NOT NULL, v VARCHAR(20), k INT"
SHARD = "shard VARCHAR(20) COLLATE utf8mb4_bin NOT NULL, origin CHAR(8) NOT NULL"


def scattering(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: str, shards: Mapping[str, str] = SHARDS
) -> SubtaskConfig:
    def rule(name: str, prefix: str) -> RouteRule:
        places = [
            ScatterPlace(target_table=f"{prefix}{table}", columns={"Shard": shard, "origin": "old "})
            for shard, table in shards.items()
        ]
        return RouteRule(
            name=name, schema_pattern=schema, table_pattern=name, target_schema=schema, scatter=tuple(places)
        )

    routes = (rule("rows", "r"), rule("log", "l"))
    return subtask_for(upstream, target, schema, task=schema, routes=routes, batch=7)


def create(upstream: ThrowawayServer, target: ThrowawayServer, schema: str) -> None:
    """Keyed rows, and rows without a key, of which some are equal."""
    upstream.execute(
        f"CREATE TABLE {schema}.rows (id INT NOT NULL, {SHARD}, v VARCHAR(20), k INT, PRIMARY KEY (shard, origin, id),"
        " UNIQUE KEY ks (k, shard)) CHARACTER SET utf8mb4",
        f"CREATE TABLE {schema}.log ({COLUMNS}, {SHARD}) CHARACTER SET utf8mb4",
    )
    for table in SHARDS.values():
        keys = ", PRIMARY KEY (id), UNIQUE KEY (k)"
        for prefix, more in (("r", keys), ("l", "")):
            name = TableName(schema, prefix + table).sql
            target.execute(f"CREATE TABLE {name} ({COLUMNS}{more}) CHARACTER SET utf8mb4")


def changes(upstream: ThrowawayServer, draw: random.Random, schema: str, count: int) -> None:
    """Rows come, change, go, and get another name; keys are taken again."""
    statements = []
    rows, log = f"{schema}.`rows`", f"{schema}.log"
    for number in range(count):
        shard, other = (f"'{draw.choice([*SHARDS])}'" for _ in range(2))
        row, new = draw.randrange(5), draw.randrange(5)
        key = draw.choice(["NULL", str(100 * number), str(100 * number + 1)])
        statements.append(
            draw.choice(
                [
                    f"REPLACE INTO {rows} (id, shard, origin, v, k) VALUES ({row}, {shard}, 'old', 'v{number}', {key})",
                    f"UPDATE IGNORE {rows} SET shard = {other}, id = {new}, v = 'moved' WHERE id = {row}",
                    f"UPDATE IGNORE {rows} SET v = 'w{number}', k = {key} WHERE id = {row} AND shard = {shard}",
                    f"DELETE FROM {rows} WHERE id = {row} AND shard = {shard}",
                    f"INSERT INTO {log} (id, v, shard, origin) VALUES ({row}, 'line', {shard}, 'old'),"
                    f" ({row}, 'line', {other}, 'old')",
                    f"UPDATE {log} SET shard = {other} WHERE id = {row} LIMIT 2",
                    f"DELETE FROM {log} WHERE id = {row} LIMIT 1",
                ]
            )
        )
    upstream.execute("SET NAMES utf8mb4", *statements)


def demand_scattered(upstream: ThrowawayServer, target: ThrowawayServer, schema: str) -> None:
    for prefix, table in (("r", "rows"), ("l", "log")):
        for shard, name in SHARDS.items():
            wanted = sorted(
                map(repr, upstream.query(f"SELECT id, v, k FROM {schema}.`{table}` WHERE shard = '{shard}'"))
            )
            found = sorted(map(repr, target.query(f"SELECT id, v, k FROM {TableName(schema, prefix + name).sql}")))
            assert found == wanted, f"{prefix}{name}"


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("atomic", [False, pytest.param(True, marks=pytest.mark.chaos)])
def test_each_table_has_the_rows_that_name_it_also_after_a_death(
    upstream: ThrowawayServer,
    target: ThrowawayServer,
    schema: SchemaFactory,
    monkeypatch: pytest.MonkeyPatch,
    atomic: bool,
) -> None:
    name, seed = schema(upstream, target), random.randrange(1 << 30)
    print(f"seed {seed}")
    draw = random.Random(seed)
    create(upstream, target, name)
    subtask = scattering(upstream, target, name)
    if atomic:
        syncer = subtask.syncer.model_copy(update={"atomic_transactions": True})
        subtask = subtask.model_copy(update={"syncer": syncer})
    process = SyncProcess(subtask)
    try:
        process.wait_synced()
        changes(upstream, draw, name, 100)
    finally:
        process.close(kill=True)
    monkeypatch.setattr("dm.syncer.apply.ordered_lane.PART_COST", 2000)  # transactions without a key go part by part
    with running_sync(subtask) as sync:  # begins in safe mode
        changes(upstream, draw, name, 60)
        upstream.execute(
            f"INSERT INTO {name}.log (id, v, shard, origin) SELECT id, v, shard, origin FROM {name}.`rows`",
            f"UPDATE {name}.log SET shard = 'A' WHERE shard = 'a'",
        )
        sync.wait_synced()
        demand_scattered(upstream, target, name)
        upstream.execute(
            f"ALTER TABLE {name}.`rows` ADD COLUMN more INT DEFAULT 7 AFTER v",
            f"TRUNCATE TABLE {name}.log",
        )
        changes(upstream, draw, name, 40)
        sync.wait_synced()
    demand_scattered(upstream, target, name)
    for table in SHARDS.values():
        ((more,),) = target.query(
            "SELECT COUNT(*) FROM information_schema.columns WHERE column_name = 'more' AND table_schema = %s"
            " AND table_name = %s",
            (name, f"r{table}"),
        )
        assert more == 1


@pytest.mark.ci_flavor("mysql")
def test_a_row_that_names_no_table_pauses_until_the_route_has_one(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    create(upstream, target, name)
    subtask = scattering(upstream, target, name)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    late = f"INSERT INTO {name}.`rows` (id, shard, origin) VALUES (1, 'a', 'old'), (2, 'late', 'old')"
    sync = RunningSync(subtask, None)
    try:
        upstream.execute(late, f"UPDATE {name}.`rows` SET v = 'x'")
        error = sync.wait_ended()
    finally:
        sync.stop()
    assert isinstance(error, DMError)
    assert (error.name, error.position is not None) == ("row-names-no-table", True)
    assert "'late'" in error.message
    target.execute(f"CREATE TABLE {name}.rt_late ({COLUMNS}, PRIMARY KEY (id))")
    with running_sync(scattering(upstream, target, name, {**SHARDS, "late": "t_late"})) as sync:
        sync.wait_synced()
    demand_scattered(upstream, target, name)
    assert target.query(f"SELECT id, v FROM {name}.rt_late") == ((2, "x"),)


def differing(subtask: SubtaskConfig) -> dict[str, int]:
    """By table of the target, what a comparison finds."""
    unit = DiffUnit([subtask], DiffRequest(), cast(SparkProvider, None))  # so few rows need no Spark
    unit.run(threading.Event())
    return {table.name.table: table.differing + len(table.structure) for table in unit.report.tables
            if table.differing or table.structure}  # fmt: skip


@pytest.mark.ci_flavor("mysql")  # its collations have NO PAD, and 'old ' of the route is another text to them
def test_a_comparison_takes_for_each_table_the_rows_that_name_it(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    create(upstream, target, name)
    subtask = scattering(upstream, target, name)

    with running_sync(subtask) as sync:
        sync.wait_synced()
        changes(upstream, random.Random(7), name, 60)
        upstream.execute(f"REPLACE INTO {name}.`rows` (id, shard, origin) VALUES (1, 'a', 'old'), (1, 'A', 'old')")
        sync.wait_synced()
    assert differing(subtask) == {}
    target.execute(f"UPDATE {name}.rt_a SET v = 'other' WHERE id = 1")
    assert differing(subtask) == {"rt_a": 1}
    upstream.execute(f"INSERT INTO {name}.log (id, shard, origin) VALUES (1, 'late', 'old')")
    assert differing(subtask) == {"rt_a": 1, "lt_1": 1}, "told with the first of its tables"


def test_a_binary_column_names_a_table_without_the_zero_bytes_that_fill_it_up(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    upstream.execute(f"CREATE TABLE {name}.b (id INT PRIMARY KEY, shard BINARY(8) NOT NULL)")
    places = [ScatterPlace(target_table=f"b{shard}", columns={"shard": shard}) for shard in ("7", "8")]
    for place in places:
        target.execute(f"CREATE TABLE {name}.{place.target_table} (id INT PRIMARY KEY)")
    rule = RouteRule(name="r", schema_pattern=name, table_pattern="b", target_schema=name, scatter=tuple(places))
    subtask = subtask_for(upstream, target, name, task=name, routes=(rule,))
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(
            f"INSERT INTO {name}.b VALUES (1, '7'), (2, '8'), (3, '8')", f"DELETE FROM {name}.b WHERE id = 3"
        )
        sync.wait_synced()
    assert [target.query(f"SELECT id FROM {name}.{place.target_table}") for place in places] == [((1,),), ((2,),)]
    assert differing(subtask) == {}
    upstream.execute(f"INSERT INTO {name}.b VALUES (4, '7')")
    assert differing(subtask) == {"b7": 1}
