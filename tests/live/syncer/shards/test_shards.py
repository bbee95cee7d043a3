"""Shard merge, pessimistic: shards alter one after the other, and the target once, when all have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast
from unittest.mock import patch

import pytest

from dm.config.rules import RouteRule
from dm.config.subtask import SubtaskConfig
from dm.demo.compare import ComparedServer, compare, pair_tables
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.ident import TableName
from dm.syncer.operators import EventPlace, Request
from dm.syncer.shards.main_or_second_pass import ShardRun
from dm.task.binlog_verbs import operate_on_event
from dm.task.shard_locks import Decision, decide, locks
from dm.unit import JSON
from tests.live.syncer.errors.test_operators import place
from tests.live.syncer.xa.test_xa import prepare
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, running_sync, subtask_for, wait_until

pytestmark = pytest.mark.live

KEYED = "id INT PRIMARY KEY, v INT"
KEYLESS = "id INT, v INT"


def subtasks_of(
    name: str, upstreams: Sequence[ThrowawayServer], target: PrivateServer, shards: int = 2, columns: str = KEYED
) -> list[SubtaskConfig]:
    """One subtask per source, whose tables s1, s2, .. go into the target's table t; u is no shard of it."""
    for server in upstreams:
        server.execute(*(f"CREATE TABLE {name}.s{number} ({columns})" for number in range(1, shards + 1)))
        server.execute(f"CREATE TABLE {name}.u (id INT PRIMARY KEY)")
    target.execute(f"CREATE TABLE {name}.t ({columns})", f"CREATE TABLE {name}.u (id INT PRIMARY KEY)")
    rule = RouteRule(schema_pattern=name, table_pattern="s*", target_schema=name, target_table="t")
    sources = tuple(f"source-{number}" for number in range(len(upstreams)))
    return [
        subtask_for(server, target, name, task=name, source_id=sources[number], routes=(rule,)).model_copy(
            update={"shard_mode": "pessimistic", "shard_sources": sources}
        )
        for number, server in enumerate(upstreams)
    ]


def wait_for_rows(target: PrivateServer, name: str, rows: int, *running: RunningSync) -> None:
    """Wait until the target's table has so many rows."""

    def there() -> bool:
        for one in running:
            if one.error is not None:
                raise one.error
        return int(str(target.query(f"SELECT COUNT(*) FROM {name}.t")[0][0])) == rows

    wait_until(there, f"{rows} rows")


def merged(upstreams: Sequence[ThrowawayServer], target: PrivateServer, name: str) -> None:
    """The target has what the shards have."""

    def route(_: ComparedServer, table: TableName) -> TableName:
        return TableName(name, "t" if table.table.startswith("s") else table.table)

    report = compare(pair_tables(list(upstreams), [name], route=route), target)
    assert report.identical, str(report)


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("columns", [KEYED, KEYLESS])
def test_shards_of_one_source_alter_one_after_the_other(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, columns: str
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target, columns=columns)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(
            f"INSERT INTO {name}.s1 VALUES (1, 1)",
            f"ALTER TABLE {name}.s1 ADD COLUMN w INT DEFAULT 7",
            f"INSERT INTO {name}.s1 VALUES (2, 2, 2)",
            f"INSERT INTO {name}.s2 VALUES (11, 1)",
        )
        wait_for_rows(target, name, 2, sync)
        assert target.query(f"SELECT * FROM {name}.t ORDER BY id") == ((1, 1), (11, 1))
        upstream.execute(f"UPDATE {name}.s2 SET v = 5", f"INSERT INTO {name}.u VALUES (1)")
        upstream.execute(f"ALTER TABLE {name}.s2 ADD COLUMN w INT DEFAULT 7", f"UPDATE {name}.s1 SET v = v + 1")
        wait_for_rows(target, name, 3, sync)
        sync.wait_synced()
    merged([upstream], target, name)


@pytest.mark.ci_flavor("mariadb")
def test_a_second_ddl_may_come_before_the_first_is_executed(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        for number, table in enumerate(("s1", "s2")):
            upstream.execute(
                f"INSERT INTO {name}.{table} VALUES ({number}0, 1)",
                f"ALTER TABLE {name}.{table} ADD COLUMN w INT DEFAULT 7",
                f"INSERT INTO {name}.{table} VALUES ({number}1, 2, 2)",
                f"ALTER TABLE {name}.{table} DROP COLUMN w",
                f"INSERT INTO {name}.{table} VALUES ({number}2, 2)",
                # The second shard must not execute it again: it would be refused.
                f"ALTER TABLE {name}.{table} ADD COLUMN w INT NOT NULL DEFAULT 8 AFTER id, ADD INDEX (v),"
                " DROP PRIMARY KEY, ADD PRIMARY KEY (id, w)",
                f"INSERT INTO {name}.{table} VALUES ({number}3, 3, 2)",
            )
        wait_for_rows(target, name, 8, sync)
        sync.wait_synced()
    merged([upstream], target, name)


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("columns", [KEYED, KEYLESS])
def test_shards_of_two_sources(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory, columns: str
) -> None:
    name = schema(*upstreams, target)
    subtasks = subtasks_of(name, upstreams, target, columns=columns)
    with running_sync(subtasks[0]) as one, running_sync(subtasks[1]) as two:
        one.wait_synced()
        two.wait_synced()
        for number, server in enumerate(upstreams):
            server.execute(
                f"ALTER TABLE {name}.s1 ADD COLUMN w INT DEFAULT 7",
                f"INSERT INTO {name}.s1 VALUES ({number}1, 1, 1)",
                f"INSERT INTO {name}.s2 VALUES ({number}2, 1)",
            )
        wait_for_rows(target, name, 2, one, two)
        for server in upstreams:
            server.execute(f"ALTER TABLE {name}.s2 ADD COLUMN w INT DEFAULT 7", f"UPDATE {name}.s2 SET v = 5")
        wait_for_rows(target, name, 4, one, two)
        one.wait_synced()
        two.wait_synced()
    merged(upstreams, target, name)


def held(sync: RunningSync) -> list[dict[str, JSON]]:
    """The groups that wait, once there are any."""

    def waits() -> bool:
        if sync.error is not None:
            raise sync.error
        return bool(sync.unit.status().get("unresolvedGroups"))

    wait_until(waits, "a group waits")
    return cast("list[dict[str, JSON]]", sync.unit.status()["unresolvedGroups"])


@pytest.mark.ci_flavor("mysql")
def test_a_table_created_with_the_structure_to_come_waits_for_it(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(
            f"CREATE TABLE {name}.s3 ({KEYED})",
            f"INSERT INTO {name}.s3 VALUES (1, 1)",
            f"CREATE TABLE {name}.s4 ({KEYED}, w INT DEFAULT 7)",
            f"INSERT INTO {name}.s4 VALUES (2, 2, 2)",
        )
        wait_for_rows(target, name, 1, sync)
        (group,) = held(sync)
        assert group["DDLs"] == []  # nobody has come to a DDL yet
        for shard in ("s1", "s2", "s3"):
            upstream.execute(f"ALTER TABLE {name}.{shard} ADD COLUMN w INT DEFAULT 7")
        wait_for_rows(target, name, 2, sync)
        upstream.execute(f"INSERT INTO {name}.s4 VALUES (3, 3, 3)")
        wait_for_rows(target, name, 3, sync)
        sync.wait_synced()
    merged([upstream], target, name)


@pytest.mark.ci_flavor("mariadb")
def test_a_table_created_like_one_that_is_held_waits_with_it(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(
            f"ALTER TABLE {name}.s1 ADD COLUMN w INT",
            f"CREATE TABLE {name}.s3 LIKE {name}.s1",
            f"INSERT INTO {name}.s3 VALUES (31, 1, 1)",
            f"ALTER TABLE {name}.s1 DROP COLUMN v",
            f"CREATE TABLE {name}.s4 LIKE {name}.s1",
            f"INSERT INTO {name}.s4 VALUES (41, 1)",
            f"INSERT INTO {name}.s2 VALUES (21, 1)",
        )
        wait_for_rows(target, name, 1, sync)
        held(sync)
        upstream.execute(f"ALTER TABLE {name}.s2 ADD COLUMN w INT")
        wait_for_rows(target, name, 2, sync)
        upstream.execute(
            f"ALTER TABLE {name}.s3 DROP COLUMN v",
            f"ALTER TABLE {name}.s2 DROP COLUMN v",
            f"INSERT INTO {name}.s4 VALUES (42, 1)",
        )
        wait_for_rows(target, name, 4, sync)
        sync.wait_synced()
    merged([upstream], target, name)


@pytest.mark.ci_flavor("mysql")
def test_what_waits_is_shown_and_a_person_may_go_on_without_a_shard(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"ALTER TABLE {name}.s1 ADD COLUMN w INT", f"INSERT INTO {name}.s1 VALUES (1, 1, 1)")
        (group,) = held(sync)
        ddl = f"ALTER TABLE `{name}`.`t` ADD COLUMN w INT"
        assert group["target"] == f"`{name}`.`t`"
        assert group["DDLs"] == [ddl]
        assert (group["synced"], group["unsynced"]) == ([f"`{name}`.`s1`"], [f"`{name}`.`s2`"])
        lock = f"{name}-`{name}`.`t`"
        status = sync.unit.status()
        assert (status["blockingDDLs"], status["unresolvedDDLLockID"]) == ([ddl], lock)
        (shown,) = cast("list[dict[str, JSON]]", locks(subtask))
        assert (shown["ID"], shown["owner"], shown["DDLs"]) == (lock, "source-0", [ddl])
        assert (shown["synced"], shown["unsynced"]) == ([], ["source-0"])
        assert decide(subtask, Decision(lock)) == ""
        wait_for_rows(target, name, 1, sync)
        assert locks(subtask) == []
        upstream.execute(
            f"INSERT INTO {name}.s2 VALUES (11, 1)",  # the target takes it as it is
            f"ALTER TABLE {name}.s2 ADD COLUMN w INT",
            f"INSERT INTO {name}.s2 VALUES (12, 1, 1)",
        )
        wait_for_rows(target, name, 3, sync)
        sync.wait_synced()
    merged([upstream], target, name)


@pytest.mark.ci_flavor("mariadb")
def test_a_ddl_is_left_out_where_a_person_says_so(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"ALTER TABLE {name}.s1 ADD INDEX j (v)", f"INSERT INTO {name}.s1 VALUES (1, 1)")
        held(sync)
        assert decide(subtask, Decision(f"{name}-`{name}`.`t`", skip=True)) == ""
        wait_for_rows(target, name, 1, sync)
        upstream.execute(f"ALTER TABLE {name}.s2 ADD INDEX j (v)", f"INSERT INTO {name}.s2 VALUES (2, 2)")
        wait_for_rows(target, name, 2, sync)
        sync.wait_synced()
    assert "KEY `j`" not in str(target.query(f"SHOW CREATE TABLE {name}.t"))


@pytest.mark.ci_flavor("mariadb")
def test_a_conflict_is_settled_by_an_operator_in_a_second_pass_as_well(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    for number, table in enumerate(("s1", "s2")):
        upstream.execute(
            f"ALTER TABLE {name}.{table} ADD COLUMN w INT",
            f"INSERT INTO {name}.{table} VALUES ({number}1, 1, 1)",
            f"ALTER TABLE {name}.{table} ADD INDEX of_{table} (v)",
            f"INSERT INTO {name}.{table} VALUES ({number}2, 1, 1)",
        )
    # The stream holds the second shard at its index, mostly before the pass brings the first one to its own.
    error = RunningSync(subtask, None).wait_ended()
    assert isinstance(error, DMError)
    assert error.name == "shard-ddl-conflict"
    failing, other = ("s1", "s2") if f"{name}.s1 has ALTER" in str(error) else ("s2", "s1")
    words = f"ALTER TABLE {name}.{failing} ADD INDEX of_{other} (v)"
    assert error.place is not None
    operate_on_event(subtask, Request("replace", name, "source-0", "", (words,)), EventPlace.from_json(error.place))
    with running_sync(subtask) as sync:
        wait_for_rows(target, name, 4, sync)
        sync.wait_synced()
    created = str(target.query(f"SHOW CREATE TABLE {name}.t"))
    assert f"of_{other}" in created
    assert f"of_{failing}" not in created


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("mode", ["pessimistic", pytest.param("optimistic", marks=pytest.mark.chaos)])
def test_shards_get_other_names_in_their_group(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, mode: str
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target)
    subtask = subtask.model_copy(update={"shard_mode": mode})
    key = "DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)"  # optimistic shards wait for each other here, too
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(
            f"INSERT INTO {name}.s1 VALUES (1, 1)",
            f"INSERT INTO {name}.s2 VALUES (2, 1)",
            f"RENAME TABLE {name}.s1 TO {name}.s9, {name}.s2 TO {name}.s1",
            f"ALTER TABLE {name}.s9 RENAME TO {name}.s3",
            f"INSERT INTO {name}.s3 VALUES (3, 1)",
            f"ALTER TABLE {name}.s1 {key}",
            f"INSERT INTO {name}.s1 VALUES (4, 1)",
        )
        wait_for_rows(target, name, 3, sync)
        (group,) = held(sync)
        assert (group["synced"], group["unsynced"]) == ([f"`{name}`.`s1`"], [f"`{name}`.`s3`"])
    upstream.execute(f"RENAME TABLE {name}.s1 TO {name}.s8")
    error = RunningSync(subtask, None).wait_ended()
    assert isinstance(error, DMError)
    assert error.name == "shard-ddl-unsupported"
    assert decide(subtask, Decision(f"{name}-`{name}`.`t`")) == ""
    upstream.execute(f"ALTER TABLE {name}.s3 {key}", f"UPDATE {name}.s8 SET v = v + 1")
    with running_sync(subtask) as sync:  # the rows that waited come before the stream goes on
        wait_for_rows(target, name, 4, sync)
        sync.wait_synced()
    merged([upstream], target, name)


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("renamed", ["s2", "s3"])  # one that does not wait, and one that does
def test_the_name_of_a_dropped_shard_is_given_on_when_its_rows_have_come(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, renamed: str
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target, shards=3)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    upstream.execute(
        f"ALTER TABLE {name}.s1 ADD COLUMN w INT",
        f"INSERT INTO {name}.s1 VALUES (1, 1, 1)",
        f"DELETE FROM {name}.s1",
        f"DROP TABLE {name}.s1",
        *(f"ALTER TABLE {name}.{shard} ADD COLUMN w INT" for shard in ("s3", "s2")),
        f"RENAME TABLE {name}.{renamed} TO {name}.s1",
        f"INSERT INTO {name}.s1 VALUES (2, 2, 2)",
    )
    with patch.object(ShardRun, "_going", lambda *_: []):
        error = RunningSync(subtask, None).wait_ended()
    assert isinstance(error, DMError)
    assert error.name == "shard-ddl-unsupported"
    with running_sync(subtask) as sync:
        wait_for_rows(target, name, 1, sync)
        sync.wait_synced()
    merged([upstream], target, name)


@pytest.mark.ci_flavor("mysql")
def test_an_operator_is_for_a_held_shards_event_as_long_as_that_is_not_read_again(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"ALTER TABLE {name}.s1 ADD COLUMN w INT", f"INSERT INTO {name}.s1 VALUES (11, 1, 1)")
        begin = place(upstream)
        upstream.execute(
            f"ALTER TABLE {name}.s1 ADD INDEX of_s1 (v)",
            f"INSERT INTO {name}.s1 VALUES (12, 1, 1)",
            f"INSERT INTO {name}.s2 VALUES (21, 1)",
        )
        wait_for_rows(target, name, 1, sync)
        held(sync)
        words = f"ALTER TABLE {name}.s1 ADD INDEX of_s2 (v)"
        asked = Request("replace", name, "source-0", begin, (words,))
        assert sync.unit.ask("binlog", asked.to_json()) == []  # the stream is beyond the event
    for table in ("s2", "u"):
        upstream.execute(f"ALTER TABLE {name}.{table} ADD COLUMN w INT")
    with running_sync(subtask) as sync:  # main stores checkpoints after the event, and drops nothing
        wait_for_rows(target, name, 2, sync)
        upstream.execute(f"ALTER TABLE {name}.s2 ADD INDEX of_s2 (v)")
        wait_for_rows(target, name, 3, sync)
        upstream.execute(f"INSERT INTO {name}.u VALUES (1, 1)")
        listed = Request("list", name, "source-0").to_json()
        wait_until(lambda: sync.unit.ask("binlog", listed) == [], "nothing reads the event any more")
    created = str(target.query(f"SHOW CREATE TABLE {name}.t"))
    assert "of_s2" in created
    assert "of_s1" not in created


@pytest.mark.ci_flavor("mysql")
def test_an_xa_transaction_that_was_prepared_before_the_hold_is_decided_after_it(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        for xid, row in (("a", 1), ("b", 2)):
            prepare(upstream, f"'{name}{xid}'", f"INSERT INTO {name}.u VALUES ({row})")
        upstream.execute(
            f"ALTER TABLE {name}.s1 ADD COLUMN w INT",
            f"INSERT INTO {name}.s1 VALUES (1, 1, 1)",
            f"XA COMMIT '{name}a'",
        )
        prepare(upstream, f"'{name}c'", f"INSERT INTO {name}.s1 VALUES (2, 2, 2)")
        held(sync)
        upstream.execute(f"XA COMMIT '{name}b'", f"ALTER TABLE {name}.s2 ADD COLUMN w INT", f"XA COMMIT '{name}c'")
        wait_for_rows(target, name, 2, sync)
        sync.wait_synced()
    merged([upstream], target, name)
