"""Shard merge, optimistic: the target accepts more with the first shard, and less with the last one."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress

import pytest

from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.ident import TableName
from dm.progress.shard_tables import ShardTables
from dm.syncer.sharding.shard_run import ShardRun
from dm.syncer.stream.operators import EventPlace, Request
from dm.task.operators import operate
from dm.task.progress import key_of
from dm.task.shard_locks import Decision, decide, locks
from dm.task.tracked_structure import StructureRequest
from dm.task.tracked_structure import operate as replace_structure
from tests.live.syncer.test_shards import KEYED, KEYLESS, held, merged, subtasks_of, wait_for_rows
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, SyncProcess, running_sync, wait_until

pytestmark = pytest.mark.live

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
    target: ThrowawayServer,
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
    """Statements on rows of a shard that is behind so many of the statements; three rows are left."""
    more = ", w = 5" if stage > 0 else ""
    more += ", e = 'q'" if stage > 2 else ""
    return [
        *(f"INSERT INTO {table} SET id = {key + row}, c = 'c{row}'{more}" for row in range(4)),
        f"UPDATE {table} SET c = CONCAT(c, '+'), id = id + 5 WHERE id = {key}",
        f"DELETE FROM {table} WHERE id = {key + 1}",
    ]


def held_tables(target: ThrowawayServer, subtask: SubtaskConfig) -> list[str]:
    """The tables whose rows wait at this moment."""
    table = ShardTables.of(key_of(subtask)).held
    return [str(row[0]) for row in target.query(f"SELECT s_table FROM {table.sql} ORDER BY s_table")]


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
        # A table is created behind two changes of a DEFAULT, another one with a DEFAULT of its own.
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


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("skip", [False, True])
def test_a_person_goes_on_without_a_shard(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, skip: bool
) -> None:
    name = schema(upstream, target)
    (subtask,) = optimistic(name, [upstream], target)
    statement = "ALTER TABLE {}.{} ADD UNIQUE INDEX by_v (v)"
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(statement.format(name, "s1"), f"INSERT INTO {name}.s1 (id, v) VALUES (1, 1)")
        held(sync)
        assert decide(subtask, Decision(f"{name}-`{name}`.`t`", skip=skip)) == ""
        wait_for_rows(target, name, 1, sync)
        upstream.execute(
            f"INSERT INTO {name}.s2 (id, v) VALUES (11, 2)",
            f"ALTER TABLE {name}.s2 ADD COLUMN w INT",  # waits for nobody
            f"INSERT INTO {name}.s2 (id, v, w) VALUES (12, 3, 3)",
            statement.format(name, "s2"),  # not executed again
            f"INSERT INTO {name}.s2 (id, v) VALUES (13, 4)",
            f"ALTER TABLE {name}.s1 ADD COLUMN w INT",
        )
        wait_for_rows(target, name, 4, sync)
        sync.wait_synced()
        assert locks(subtask) == []
    if skip:
        assert "by_v" not in shown(target, name)
    else:
        merged([upstream], target, name)


@pytest.mark.ci_flavor("mysql")
def test_the_stream_goes_on_where_the_shard_without_which_all_went_on_is_silent(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    (subtask,) = optimistic(name, [upstream], target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"ALTER TABLE {name}.s1 ADD UNIQUE INDEX by_v (v)")
        held(sync)
        assert decide(subtask, Decision(f"{name}-`{name}`.`t`")) == ""
        upstream.execute(
            f"ALTER TABLE {name}.s1 ADD COLUMN w INT",
            f"INSERT INTO {name}.s1 (id, v, w) VALUES (1, 1, 1)",
        )
        wait_for_rows(target, name, 1, sync)
        upstream.execute(
            f"ALTER TABLE {name}.s2 ADD UNIQUE INDEX by_v (v), ADD COLUMN w INT",
            f"INSERT INTO {name}.s2 (id, v, w) VALUES (11, 2, 2)",
        )
    # Its own statement is another one than that which was executed without it.
    assert target.query(f"SELECT id, v, w FROM {name}.t") == ((1, 1, 1),)


@pytest.mark.ci_flavor("mysql")
def test_a_source_that_others_wait_for_is_given_up(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(*upstreams, target)
    one, two = optimistic(name, upstreams, target)
    for subtask in (one, two):
        with running_sync(subtask) as sync:
            sync.wait_synced()
    for number, server in enumerate(upstreams):
        server.execute(
            f"ALTER TABLE {name}.s1 ADD UNIQUE INDEX by_v (v)",
            f"INSERT INTO {name}.s1 (id, v) VALUES ({number}1, {number}1)",
            f"INSERT INTO {name}.s2 (id, v) VALUES ({number}2, {number}2)",
        )
    with running_sync(one) as sync:
        wait_for_rows(target, name, 1, sync)
        held(sync)
    upstreams[0].execute(f"ALTER TABLE {name}.s2 ADD UNIQUE INDEX by_v (v)")
    lock = f"{name}-`{name}`.`t`"
    gone = Decision(lock, ("source-1",), force_remove=True)
    assert decide(one, gone) == "source source-1 is no member any more"
    with running_sync(one.model_copy(update={"shard_sources": ("source-0",)})) as sync:  # it has left the file
        wait_for_rows(target, name, 2, sync)
        sync.wait_synced()


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("sync", [True, False])
def test_a_structure_that_a_person_replaces_counts_for_the_others_at_once_if_so_asked(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory, sync: bool
) -> None:
    name = schema(*upstreams, target)
    one, two = optimistic(name, upstreams, target)
    for subtask in (one, two):
        with running_sync(subtask) as running:
            running.wait_synced()
    # The source was altered while its binlog was off, and a person says so.
    with upstreams[0].connect() as connection, connection.cursor() as cursor:
        for table in ("s1", "s2"):
            cursor.execute("SET SESSION sql_log_bin = 0")
            cursor.execute(f"ALTER TABLE {name}.{table} DROP COLUMN v")
    for table in ("s1", "s2"):
        replace_structure(one, StructureRequest("update", TableName(name, table), origin="source", sync=sync))
    for table in ("s1", "s2"):
        upstreams[1].execute(f"ALTER TABLE {name}.{table} DROP COLUMN v")
    with running_sync(two) as running:
        running.wait_synced()
    assert ("`v`" in shown(target, name)) == (not sync)


_CHAOS = pytest.mark.chaos


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
        pytest.param("shard.after_execute", marks=_CHAOS),
        pytest.param("shard.pass_begun", marks=_CHAOS),
        pytest.param("shard.before_return", marks=_CHAOS),
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


NEW = "CREATE TABLE {s}.s3 (id INT PRIMARY KEY, v INT, c INT, UNIQUE INDEX by_v (v))"


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("opened", [False, True], ids=["nothing is open", "another statement is open"])
def test_a_table_created_while_a_shard_of_its_source_is_held_goes_on_with_it(
    upstream: ThrowawayServer,
    target: ThrowawayServer,
    schema: SchemaFactory,
    monkeypatch: pytest.MonkeyPatch,
    opened: bool,
) -> None:
    name = schema(upstream, target)
    (subtask,) = optimistic(name, [upstream], target, KEYED)
    second = "ALTER TABLE {}.{} ADD UNIQUE INDEX by_both (v, id)"
    with monkeypatch.context() as patch, running_sync(subtask) as sync:
        # The statement is executed, but the held shard does not go on yet, as when its source's stream is slow to end.
        patch.setattr(ShardRun, "_going", lambda *_: [])
        sync.wait_synced()
        upstream.execute(
            f"ALTER TABLE {name}.s1 ADD UNIQUE INDEX by_v (v)",
            f"INSERT INTO {name}.s1 (id, v) VALUES (1, 1)",
            f"ALTER TABLE {name}.s1 ADD COLUMN c INT",
            f"ALTER TABLE {name}.s2 ADD UNIQUE INDEX by_v (v)",
            f"INSERT INTO {name}.s2 (id, v) VALUES (11, 2)",
        )
        wait_for_rows(target, name, 1, sync)
        assert held_tables(target, subtask) == ["s1"]
        if opened:
            upstream.execute(second.format(name, "s2"))
        upstream.execute(
            NEW.format(s=name),
            f"INSERT INTO {name}.s3 VALUES (31, 3, 3)",
            f"INSERT INTO {name}.s2 (id, v) VALUES (12, 4)",
            *(second.format(name, table) for table in ("s1", "s3") if opened),
        )
        expected = ["s1", *(["s2"] if opened else []), "s3"]
        wait_until(lambda: held_tables(target, subtask) == expected, "the new table is held")
    with running_sync(subtask) as sync:
        upstream.execute(f"ALTER TABLE {name}.s2 ADD COLUMN c INT")
        wait_for_rows(target, name, 4, sync)
        sync.wait_synced()
        assert not held_tables(target, subtask)
    merged([upstream], target, name)


@pytest.mark.ci_flavor("mysql")
def test_a_create_table_that_waited_and_is_left_out_is_a_shard_from_there_on(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = schema(upstream, target)
    (subtask,) = optimistic(name, [upstream], target, KEYED)
    with monkeypatch.context() as patch, running_sync(subtask) as sync:
        patch.setattr(ShardRun, "_going", lambda *_: [])
        sync.wait_synced()
        upstream.execute(
            f"ALTER TABLE {name}.s1 ADD UNIQUE INDEX by_v (v)", f"ALTER TABLE {name}.s2 ADD UNIQUE INDEX by_v (v)"
        )
        wait_until(lambda: "by_v" in shown(target, name), "the statement is executed")
        upstream.execute(NEW.format(s=name), f"INSERT INTO {name}.s1 (id, v) VALUES (1, 1)")
        wait_until(lambda: held_tables(target, subtask) == ["s1", "s3"], "the new table is held")
    # What it needs comes never; a person alters the target, and leaves the CREATE TABLE out.
    ended = RunningSync(subtask, None).wait_ended()
    assert isinstance(ended, DMError)
    assert ended.name == "shard-structures-differ"
    assert ended.place is not None
    target.execute(f"ALTER TABLE {name}.t ADD COLUMN c INT")
    operate(subtask, Request("skip", name, "source-0", "", ()), EventPlace.from_json(ended.place))
    statements = (
        f"ALTER TABLE {name}.{{}} ADD UNIQUE INDEX by_both (v, id)",
        f"ALTER TABLE {name}.{{}} ADD COLUMN w INT",
    )
    with running_sync(subtask) as sync:
        upstream.execute(f"INSERT INTO {name}.s3 VALUES (31, 3, 3)")
        for statement in statements:
            upstream.execute(*(statement.format(table) for table in ("s3", "s1", "s2")))
        upstream.execute(f"INSERT INTO {name}.s2 (id, v, w) VALUES (11, 2, 2)")
        wait_for_rows(target, name, 3, sync)
        sync.wait_synced()
        assert not held_tables(target, subtask)
    assert target.query(f"SELECT id, v, c, w FROM {name}.t ORDER BY id") == (
        (1, 1, None, None), (11, 2, None, 2), (31, 3, 3, None)
    )  # fmt: skip
