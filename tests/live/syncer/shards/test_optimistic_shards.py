"""Shard merge, optimistic: the target accepts more with the first shard, and less with the last one."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress

import pytest

from dm.config.subtask import SubtaskConfig
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.live.syncer.shards.test_shards import KEYED, KEYLESS, merged, subtasks_of, wait_for_rows
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, SyncProcess, running_sync

pytestmark = pytest.mark.live
_CHAOS = pytest.mark.chaos

COLUMNS = f"{KEYED}, c VARCHAR(10) NOT NULL DEFAULT 'x', KEY by_c (c)"
STATEMENTS = (
    "ALTER TABLE {} ADD COLUMN w INT NOT NULL",
    "ALTER TABLE {} MODIFY c VARCHAR(30) NOT NULL DEFAULT 'x', ADD INDEX by_w (w)",
    "ALTER TABLE {} DROP INDEX by_c, ADD COLUMN e ENUM('p', 'q') NOT NULL",
    "ALTER TABLE {} DROP COLUMN v, MODIFY w BIGINT NOT NULL",
    "ALTER TABLE {} ADD UNIQUE INDEX by_id (id, c)",
    "ALTER TABLE {} ADD COLUMN d DECIMAL(8, 2) DEFAULT 1.5",
)


def optimistic(
    name: str,
    upstreams: Sequence[ThrowawayServer],
    target: PrivateServer,
    columns: str = COLUMNS,
    *,
    strict: bool = False,
) -> list[SubtaskConfig]:
    """The subtasks of the pessimistic tests, in the other mode."""
    return [
        subtask.model_copy(update={"shard_mode": "optimistic", "strict_optimistic": strict})
        for subtask in subtasks_of(name, upstreams, target, columns=columns)
    ]


def changes(table: str, key: int, stage: int) -> list[str]:
    """Statements on rows of a shard that is after so many of the statements; three rows are left."""
    more = ", w = 5" if stage > 0 else ""
    more += ", e = 'q'" if stage > 2 else ""
    return [
        *(f"INSERT INTO {table} SET id = {key + row}, c = 'c{row}'{more}" for row in range(4)),
        f"UPDATE {table} SET c = CONCAT(c, '+'), id = id + 5 WHERE id = {key}",
        f"DELETE FROM {table} WHERE id = {key + 1}",
    ]


def shown(target: ThrowawayServer, name: str) -> str:
    """The target's table."""
    return str(target.query(f"SHOW CREATE TABLE {name}.t")[0][1])


@pytest.mark.ci_flavor("mysql")
def test_a_shard_goes_on_while_others_are_behind_it(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    (subtask,) = optimistic(name, [upstream], target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(
            f"INSERT INTO {name}.s2 (id, v) VALUES (11, 1)",
            f"ALTER TABLE {name}.s1 ADD COLUMN w INT NOT NULL, DROP COLUMN v",
            f"INSERT INTO {name}.s1 (id, w) VALUES (1, 2)",
            f"INSERT INTO {name}.s2 (id, v) VALUES (12, 1)",
            f"UPDATE {name}.s2 SET v = 3, id = id + 10",
        )
        wait_for_rows(target, name, 3, sync)
        assert sync.wait_synced()["synced"]  # nothing waits
        assert target.query(f"SELECT id, v, w FROM {name}.t ORDER BY id") == ((1, None, 2), (21, 3, 0), (22, 3, 0))
        upstream.execute(
            f"ALTER TABLE {name}.s2 ADD COLUMN w INT NOT NULL",
            f"UPDATE {name}.s2 SET w = 9 WHERE id = 21",
            f"ALTER TABLE {name}.s2 DROP COLUMN v",
            f"CREATE TABLE {name}.s3 (id INT PRIMARY KEY, c VARCHAR(10) NOT NULL)",
            f"INSERT INTO {name}.s3 VALUES (31, 'new')",
            f"ALTER TABLE {name}.s3 MODIFY c VARCHAR(10) NOT NULL, ADD w INT NOT NULL FIRST",
        )
        wait_for_rows(target, name, 4, sync)
        sync.wait_synced()
    assert "DEFAULT 0" not in shown(target, name)
    assert "`v`" not in shown(target, name)
    assert target.query(f"SELECT id, w FROM {name}.t ORDER BY id") == ((1, 2), (21, 9), (22, 0), (31, 0))


@pytest.mark.ci_flavor("mariadb")
def test_a_shards_new_partitions_are_there_at_once_and_go_with_the_last_shard(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    by_range = f"{KEYED}) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10)"
    (subtask,) = optimistic(name, [upstream], target, columns=by_range)
    more = [f"PARTITION p{number} VALUES LESS THAN ({number + 1}0)" for number in (1, 2)]
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(
            f"ALTER TABLE {name}.s1 ADD PARTITION ({more[0]})",
            f"INSERT INTO {name}.s1 VALUES (1, 1), (11, 1)",
            f"ALTER TABLE {name}.s2 ADD PARTITION ({', '.join(more)})",
            f"INSERT INTO {name}.s2 VALUES (2, 2), (22, 2)",
            f"ALTER TABLE {name}.s1 ADD PARTITION ({more[1]})",
        )
        wait_for_rows(target, name, 4, sync)
        assert sync.wait_synced()["synced"]  # nothing waits
        upstream.execute(f"ALTER TABLE {name}.s1 DROP PARTITION p0", f"INSERT INTO {name}.s2 VALUES (3, 3)")
        wait_for_rows(target, name, 5, sync)
        assert not sync.unit.status()["synced"]
        upstream.execute(f"ALTER TABLE {name}.s2 DROP PARTITION p0")
        wait_for_rows(target, name, 2, sync)
        sync.wait_synced()
    merged([upstream], target, name)
    assert shown(target, name).count(" VALUES LESS THAN (") == 2


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("seed", [1])
def test_shards_of_two_sources_at_their_own_pace(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory, seed: int
) -> None:
    name = schema(*upstreams, target)
    subtasks = optimistic(name, upstreams, target)
    drawn = random.Random(seed)
    shards = [(server, f"{name}.s{number}") for server in upstreams for number in (1, 2)]
    stage = [0] * len(shards)
    key = 0
    with running_sync(subtasks[0]) as one, running_sync(subtasks[1]) as two:
        one.wait_synced()
        two.wait_synced()
        while going := [number for number, at in enumerate(stage) if at < len(STATEMENTS)]:
            chosen = drawn.choice(going)
            server, table = shards[chosen]
            statement = STATEMENTS[stage[chosen]].format(table)
            rows = changes(table, key, stage[chosen]), changes(table, key + 10, stage[chosen] + 1)
            server.execute(*rows[0], statement, *rows[1])
            stage[chosen] += 1
            key += 20
        wait_for_rows(target, name, 3 * key // 20 * 2, one, two)
        one.wait_synced()
        two.wait_synced()
    merged(upstreams, target, name)


@pytest.mark.ci_flavor("mariadb")
def test_what_all_shards_have_to_come_to_holds_the_early_ones(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    (subtask,) = optimistic(name, [upstream], target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(
            f"ALTER TABLE {name}.s1 ADD UNIQUE INDEX by_v (v)",
            f"INSERT INTO {name}.s1 (id, v) VALUES (1, 1)",
            f"ALTER TABLE {name}.s2 ADD COLUMN w INT",
            f"INSERT INTO {name}.s2 (id, v, w) VALUES (11, 2, 2)",
        )
        wait_for_rows(target, name, 1, sync)
        upstream.execute(f"ALTER TABLE {name}.s2 ADD UNIQUE INDEX by_v (v)", f"ALTER TABLE {name}.s1 ADD COLUMN w INT")
        wait_for_rows(target, name, 2, sync)
        sync.wait_synced()
    merged([upstream], target, name)


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize(
    ("strict", "columns", "statements", "error"),
    [
        (False, COLUMNS, ("s1 ADD COLUMN w INT DEFAULT 1", "s2 ADD COLUMN w INT DEFAULT 2"), "shard-structures-differ"),
        (False, COLUMNS, ("s1 DROP COLUMN v", "s1 ADD COLUMN v INT"), "shard-column-kept"),
        (True, COLUMNS, ("s1 ADD COLUMN w INT", "s1 ADD UNIQUE INDEX by_w (w)"), "shard-ddl-strict"),
        (True, KEYLESS, ("s1 ADD COLUMN w INT",), "shard-ddl-strict"),
    ],
)
def test_what_can_not_be_exact_pauses(
    upstream: ThrowawayServer,
    target: ThrowawayServer,
    schema: SchemaFactory,
    strict: bool,
    columns: str,
    statements: Sequence[str],
    error: str,
) -> None:
    name = schema(upstream, target)
    (subtask,) = optimistic(name, [upstream], target, columns, strict=strict)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    upstream.execute(*(f"ALTER TABLE {name}.{text}" for text in statements))
    ended = RunningSync(subtask, None).wait_ended()
    assert isinstance(ended, DMError)
    assert ended.name == error
    assert ended.position


INDEXED = f"{KEYED}, c INT, KEY by_c (c)"


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize(
    ("columns", "statements"),
    [
        # A shard that has done it in steps never comes to it.
        (
            INDEXED,
            (
                "ALTER TABLE {s}.s1 DROP INDEX by_c",
                "ALTER TABLE {s}.s1 DROP COLUMN c",
                "INSERT INTO {s}.s1 (id, v) VALUES (1, 1)",
                "INSERT INTO {s}.s2 (id, v, c) VALUES (11, 1, 7)",
                "ALTER TABLE {s}.s2 DROP COLUMN c",
                "INSERT INTO {s}.s2 (id, v) VALUES (12, 2)",
            ),
        ),
        # Nor one that is created so; it is altered again while the statement waits.
        (
            KEYED,
            (
                "INSERT INTO {s}.s1 VALUES (1, 1)",
                "ALTER TABLE {s}.s1 MODIFY v SMALLINT",
                "INSERT INTO {s}.s1 VALUES (2, 2)",
                "CREATE TABLE {s}.s3 (id INT PRIMARY KEY, v SMALLINT)",
                "INSERT INTO {s}.s3 VALUES (31, 3)",
                "ALTER TABLE {s}.s3 ADD COLUMN w INT",
                "INSERT INTO {s}.s3 VALUES (32, 3, 3)",
                "ALTER TABLE {s}.s2 MODIFY v SMALLINT",
                "INSERT INTO {s}.s2 VALUES (11, 2)",
                "ALTER TABLE {s}.s2 ADD COLUMN w INT",
                "ALTER TABLE {s}.s1 ADD COLUMN w INT",
            ),
        ),
        # The one that need not come to it comes to another that all have to come to.
        (
            INDEXED,
            (
                "CREATE TABLE {s}.s3 (" + INDEXED + ")",
                "INSERT INTO {s}.s2 (id, v, c) VALUES (11, 1, 7)",
                "ALTER TABLE {s}.s2 DROP COLUMN c",
                "ALTER TABLE {s}.s1 DROP INDEX by_c",
                "ALTER TABLE {s}.s1 DROP COLUMN c",
                "ALTER TABLE {s}.s1 ADD UNIQUE INDEX by_v (v)",
                "INSERT INTO {s}.s1 (id, v) VALUES (1, 2)",
                "INSERT INTO {s}.s3 (id, v, c) VALUES (31, 3, 7)",
                "ALTER TABLE {s}.s3 DROP COLUMN c",
                "INSERT INTO {s}.s3 (id, v) VALUES (32, 4)",
                "ALTER TABLE {s}.s3 ADD UNIQUE INDEX by_v (v)",
                "ALTER TABLE {s}.s2 ADD UNIQUE INDEX by_v (v)",
                "INSERT INTO {s}.s2 (id, v) VALUES (12, 5)",
            ),
        ),
        # A table is created after two changes of a DEFAULT, another one with a DEFAULT of its own.
        (
            KEYED,
            (
                "ALTER TABLE {s}.s1 ALTER COLUMN v SET DEFAULT 5",
                "ALTER TABLE {s}.s1 ALTER COLUMN v SET DEFAULT 6",
                "INSERT INTO {s}.s1 (id) VALUES (1)",
                "CREATE TABLE {s}.s3 (id INT PRIMARY KEY, v INT DEFAULT 6)",
                "CREATE TABLE {s}.s4 (id INT PRIMARY KEY, v INT DEFAULT 9)",
                "INSERT INTO {s}.s3 (id) VALUES (31)",
                "INSERT INTO {s}.s4 (id) VALUES (41)",
                "ALTER TABLE {s}.s2 ALTER COLUMN v SET DEFAULT 5",
                "INSERT INTO {s}.s2 (id) VALUES (11)",
                "ALTER TABLE {s}.s2 ALTER COLUMN v SET DEFAULT 6",
                "ALTER TABLE {s}.s4 ALTER COLUMN v SET DEFAULT 5",
                "INSERT INTO {s}.s4 (id) VALUES (42)",
                "ALTER TABLE {s}.s4 ALTER COLUMN v SET DEFAULT 6",
            ),
        ),
        # A table is created after two statements, and comes to the third one before any other is at the first.
        (
            KEYLESS,
            (
                "CREATE TABLE {s}.s3 (id INT, v INT, KEY by_v (v), KEY by_id (id))",
                "INSERT INTO {s}.s3 VALUES (31, 3)",
                "ALTER TABLE {s}.s3 ALTER COLUMN v SET DEFAULT 5",
                "INSERT INTO {s}.s3 (id) VALUES (32)",
                "ALTER TABLE {s}.s1 ADD INDEX by_v (v)",
                "INSERT INTO {s}.s1 VALUES (1, 1)",
                "ALTER TABLE {s}.s1 ADD INDEX by_id (id)",
                "ALTER TABLE {s}.s2 ADD INDEX by_v (v)",
                "ALTER TABLE {s}.s2 ADD INDEX by_id (id)",
                "INSERT INTO {s}.s2 VALUES (11, 2)",
                "ALTER TABLE {s}.s2 ALTER COLUMN v SET DEFAULT 5",
                "ALTER TABLE {s}.s1 ALTER COLUMN v SET DEFAULT 5",
                "INSERT INTO {s}.s1 (id) VALUES (2)",
            ),
        ),
        # A table is created with the keys to come.
        (
            KEYED,
            (
                "ALTER TABLE {s}.s1 ADD UNIQUE INDEX by_v (v)",
                "INSERT INTO {s}.s1 VALUES (1, 1)",
                "CREATE TABLE {s}.s3 LIKE {s}.s1",
                "INSERT INTO {s}.s3 VALUES (31, 3)",
                "INSERT INTO {s}.s2 VALUES (11, 2)",
                "ALTER TABLE {s}.s2 ADD UNIQUE INDEX by_v (v)",
                "INSERT INTO {s}.s3 VALUES (32, 4)",
                "ALTER TABLE {s}.s3 DROP INDEX by_v",
                "INSERT INTO {s}.s3 VALUES (33, 5)",
                "ALTER TABLE {s}.s1 DROP INDEX by_v",
                "ALTER TABLE {s}.s2 DROP INDEX by_v",
            ),
        ),
        # One without a key has all columns.
        (
            KEYLESS,
            (
                "ALTER TABLE {s}.s1 ADD COLUMN w INT",
                "INSERT INTO {s}.s1 VALUES (1, 1, 1)",
                "CREATE TABLE {s}.s3 (id INT, v INT, w INT)",
                "INSERT INTO {s}.s3 VALUES (1, 1, 2)",
                "INSERT INTO {s}.s2 VALUES (1, 1)",
                "ALTER TABLE {s}.s2 ADD COLUMN w INT",
                "DELETE FROM {s}.s3 WHERE id = 1",
                "INSERT INTO {s}.s3 VALUES (3, 1, 2)",
            ),
        ),
    ],
)
@pytest.mark.ci_sample(4)
def test_nobody_waits_for_a_shard_that_is_beyond_a_statement(
    upstream: ThrowawayServer,
    target: ThrowawayServer,
    schema: SchemaFactory,
    columns: str,
    statements: Sequence[str],
) -> None:
    name = schema(upstream, target)
    (subtask,) = optimistic(name, [upstream], target, columns)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    upstream.execute(*(text.format(s=name) for text in statements))
    tables = upstream.query(f"SHOW TABLES FROM {name} LIKE 's_'")
    counts = " + ".join(f"(SELECT COUNT(*) FROM {name}.{table})" for (table,) in tables)
    with running_sync(subtask) as sync:
        wait_for_rows(target, name, int(str(upstream.query(f"SELECT {counts}")[0][0])), sync)
        sync.wait_synced()
    merged([upstream], target, name)


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize(
    "point",
    [
        "shard.widened",
        pytest.param("shard.decided", marks=_CHAOS),
        pytest.param("shard.decided=kill@3", marks=_CHAOS),
        pytest.param("shard.widened=kill@2", marks=_CHAOS),
        pytest.param("shard.structure_stored", marks=_CHAOS),
        pytest.param("shard.ready", marks=_CHAOS),
        pytest.param("shard.held", marks=_CHAOS),
        pytest.param("shard.joined", marks=_CHAOS),
        pytest.param("shard.loosened", marks=_CHAOS),
        pytest.param("shard.begun", marks=_CHAOS),
        pytest.param("shard.before_execute", marks=_CHAOS),
        pytest.param("shard.after_execute", marks=_CHAOS),
        pytest.param("shard.executed", marks=_CHAOS),
        pytest.param("shard.before_pass", marks=_CHAOS),
        pytest.param("shard.pass_begun", marks=_CHAOS),
        pytest.param("shard.before_return", marks=_CHAOS),
        pytest.param("shard.returned", marks=_CHAOS),
        pytest.param("syncer.after_ddl", marks=_CHAOS),
    ],
)
def test_a_run_that_was_killed_is_continued(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, point: str
) -> None:
    name = schema(upstream, target)
    (subtask,) = optimistic(name, [upstream], target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    for number, table in enumerate(("s1", "s2")):
        for stage, statement in enumerate(STATEMENTS):
            rows = changes(f"{name}.{table}", 1000 * number + 10 * stage, stage)
            upstream.execute(*rows, statement.format(f"{name}.{table}"))
    process = SyncProcess(subtask, faults=point if "=" in point else f"{point}=kill")
    try:
        assert process.wait_killed(), process.errors()
    finally:
        process.close()
    with running_sync(subtask) as sync:
        wait_for_rows(target, name, 2 * len(STATEMENTS) * 3, sync)
        sync.wait_synced()
    merged([upstream], target, name)


POINTS = (
    "shard.decided",
    "shard.widened",
    "shard.structure_stored",
    "shard.ready",
    "shard.held",
    "shard.executed",
    "shard.pass_begun",
    "syncer.before_ddl",
    "syncer.after_ddl",
    "syncer.after_commit",
    "syncer.after_checkpoint",
)


@_CHAOS
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(10))
def test_two_sources_killed_again_and_again(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory, seed: int
) -> None:
    name, drawn = schema(*upstreams, target), random.Random(seed)
    subtasks = optimistic(name, upstreams, target)
    for subtask in subtasks:
        with running_sync(subtask) as sync:
            sync.wait_synced()
    key = 0
    for server in upstreams:
        shards = [f"{name}.s{number}" for number in (1, 2)]
        left = {table: list(enumerate(STATEMENTS)) for table in shards}
        while left:
            table = drawn.choice(list(left))
            stage, statement = left[table].pop(0)
            server.execute(*changes(table, key, stage), statement.format(table), *changes(table, key + 10, stage + 1))
            key += 20
            if not left[table]:
                del left[table]
    struck = 0
    for _ in range(6):
        faults = [f"{drawn.choice(POINTS)}=kill@{drawn.choice((1, 1, 1, 2, 3))}" for _ in subtasks]
        processes = [SyncProcess(subtask, faults=fault) for subtask, fault in zip(subtasks, faults, strict=True)]
        until = time.monotonic() + 20
        try:
            for process in processes:
                with suppress(subprocess.TimeoutExpired):  # it did not come to its point
                    struck += process.wait_killed(max(until - time.monotonic(), 1))
        finally:
            for process in processes:
                process.close(kill=True)
    assert struck
    with running_sync(subtasks[0]) as one, running_sync(subtasks[1]) as two:
        wait_for_rows(target, name, 3 * key // 10, one, two)
        one.wait_synced()
        two.wait_synced()
    merged(upstreams, target, name)
