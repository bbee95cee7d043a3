"""Shard merge: what a person decides about one shard's DDL (skip, inject, revert, unlock, another structure)."""

from __future__ import annotations

from typing import cast

import pytest

from dm.config.scalar import ShardMode
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.ident import TableName
from dm.syncer.operators import EventPlace, Request, Verb
from dm.task.binlog_verbs import StructureRequest, change_structure, operate_on_event
from dm.task.shard_locks import Decision, decide, locks
from dm.unit import JSON
from tests.live.syncer.errors.test_operators import place
from tests.live.syncer.shards.test_shards import held, merged, subtasks_of, wait_for_rows
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, running_sync, wait_until

pytestmark = pytest.mark.live

# All shards have to come to it in either mode.
BY_V = "ADD UNIQUE INDEX by_v (v)"
BY_BOTH = "ADD UNIQUE INDEX by_both (v, id)"
BOTH_MODES = pytest.mark.parametrize("mode", ["pessimistic", pytest.param("optimistic", marks=pytest.mark.chaos)])


def merging(
    mode: ShardMode, name: str, upstream: ThrowawayServer, target: ThrowawayServer, shards: int = 2
) -> SubtaskConfig:
    """One source whose tables s1, s2, .. become the target's t."""
    (subtask,) = subtasks_of(name, [upstream], target, shards)
    return subtask.model_copy(update={"shard_mode": mode})


def rows_of(server: ThrowawayServer, name: str, *tables: str) -> list[tuple[object, ...]]:
    """The rows of all these tables."""
    return sorted(row for table in tables for row in server.query(f"SELECT id, v FROM {name}.{table}"))


def keys_of(target: ThrowawayServer, name: str) -> list[str]:
    """The names of the target's keys, each as often as it has columns."""
    return sorted(str(row[2]) for row in target.query(f"SHOW INDEX FROM {name}.t"))


def asked(sync: RunningSync, verb: Verb, name: str, at: str = "") -> JSON:
    """What a running task answers to `dmctl binlog`."""
    return sync.unit.ask("binlog", Request(verb, name, "source-0", at).to_json())


@pytest.mark.ci_flavor("mysql")
@BOTH_MODES
def test_a_statement_that_one_shard_alone_has_is_left_out(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, mode: ShardMode
) -> None:
    name = schema(upstream, target)
    subtask = merging(mode, name, upstream, target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    upstream.execute(
        f"ALTER TABLE {name}.s1 {BY_V}",
        f"INSERT INTO {name}.s1 VALUES (1, 1)",
        f"ALTER TABLE {name}.s2 {BY_BOTH}",
        f"INSERT INTO {name}.s2 VALUES (11, 2)",
    )
    error = RunningSync(subtask, None).wait_ended()
    assert isinstance(error, DMError)
    assert error.name == "shard-ddl-conflict"
    assert error.place is not None
    operate_on_event(subtask, Request("skip", name, "source-0"), EventPlace.from_json(error.place))
    with running_sync(subtask) as sync:
        wait_for_rows(target, name, 1, sync)  # that of the shard without the statement; the other one still waits
        upstream.execute(f"ALTER TABLE {name}.s2 {BY_V}", f"INSERT INTO {name}.s2 VALUES (12, 3)")
        wait_for_rows(target, name, 3, sync)
        sync.wait_synced()
    assert rows_of(target, name, "t") == rows_of(upstream, name, "s1", "s2")
    assert keys_of(target, name) == ["PRIMARY", "by_v"]


@pytest.mark.ci_flavor("mariadb")
@BOTH_MODES
def test_what_is_injected_before_a_ddl_that_waits_is_executed_once(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, mode: ShardMode
) -> None:
    name = schema(upstream, target)
    subtask = merging(mode, name, upstream, target)
    target.execute(f"ALTER TABLE {name}.t ADD COLUMN x DATE")  # a column of the target's own
    with running_sync(subtask) as sync:
        sync.wait_synced()
    begin = place(upstream)
    upstream.execute(f"ALTER TABLE {name}.s1 {BY_V}", f"INSERT INTO {name}.s1 VALUES (1, 1)")
    words = (f"ALTER TABLE {name}.s1 DROP COLUMN x", f"ALTER TABLE {name}.s1 ADD COLUMN x INT DEFAULT 2")
    operate_on_event(subtask, Request("inject", name, "source-0", begin, words), None)
    with running_sync(subtask) as sync:
        held(sync)
        upstream.execute(f"INSERT INTO {name}.s2 VALUES (11, 2)")
        wait_for_rows(target, name, 1, sync)
        target.execute(f"UPDATE {name}.t SET x = 9")  # dropped once more, it would be 2 again
        upstream.execute(f"ALTER TABLE {name}.s2 {BY_V}")
        wait_for_rows(target, name, 2, sync)
        sync.wait_synced()
        upstream.execute(f"INSERT INTO {name}.u VALUES (1)")  # a checkpoint after all of it
        wait_until(lambda: asked(sync, "list", name) == [], "nothing reads the event any more")
    assert target.query(f"SELECT id, v, x FROM {name}.t ORDER BY id") == ((1, 1, 2), (11, 2, 9))
    assert keys_of(target, name) == ["PRIMARY", "by_v"]


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("of_u", [True, pytest.param(False, marks=pytest.mark.chaos)])
def test_what_is_injected_before_a_held_shards_next_ddl_is_executed_once_as_well(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, of_u: bool
) -> None:
    name = schema(upstream, target)
    subtask = merging("pessimistic", name, upstream, target)
    target.execute(f"ALTER TABLE {name}.t ADD COLUMN x DATE")
    with running_sync(subtask) as sync:
        sync.wait_synced()
    upstream.execute(f"ALTER TABLE {name}.s1 {BY_V}", f"INSERT INTO {name}.s1 VALUES (1, 1)")
    begin = place(upstream)
    upstream.execute(f"ALTER TABLE {name}.s1 {BY_BOTH}", f"INSERT INTO {name}.s1 VALUES (2, 2)")
    words = (f"ALTER TABLE {name}.s1 DROP COLUMN x", f"ALTER TABLE {name}.s1 ADD COLUMN x INT DEFAULT 2")
    more = (f"ALTER TABLE {name}.u ADD COLUMN x INT",) if of_u else ()  # the stream itself has that table
    operate_on_event(subtask, Request("inject", name, "source-0", begin, (*words, *more)), None)
    with running_sync(subtask) as sync:
        held(sync)
        upstream.execute(f"INSERT INTO {name}.u VALUES (1)")
        wait_until(lambda: target.query(f"SELECT id FROM {name}.u") == ((1,),), "the stream is beyond the statement")
        (listed,) = cast("list[dict[str, JSON]]", asked(sync, "list", name))
        assert listed["state"] == ("partly injected" if of_u else "waiting")
        upstream.execute(f"ALTER TABLE {name}.s2 {BY_V}", f"INSERT INTO {name}.s2 VALUES (11, 3)")
        wait_for_rows(target, name, 2, sync)  # a pass has come to the second statement, and injected before it
        changed = f"SELECT COUNT(*) FROM {name}.t WHERE x = 2"
        wait_until(lambda: bool(held(sync)) and target.query(changed) == ((2,),), "the shard is held once more")
        target.execute(f"UPDATE {name}.t SET x = 9")
        upstream.execute(f"ALTER TABLE {name}.s2 {BY_BOTH}")
        wait_for_rows(target, name, 3, sync)
        sync.wait_synced()
    assert target.query(f"SELECT id, v, x FROM {name}.t ORDER BY id") == ((1, 1, 9), (2, 2, 2), (11, 3, 9))
    assert len(target.query(f"SHOW COLUMNS FROM {name}.u")) == 1 + of_u


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("skip", [False, pytest.param(True, marks=pytest.mark.chaos)])
def test_a_default_of_the_moment_is_made_by_hand(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, skip: bool
) -> None:
    name = schema(upstream, target)
    subtask = merging("pessimistic", name, upstream, target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    new = "ADD COLUMN m DATETIME DEFAULT CURRENT_TIMESTAMP"
    upstream.execute(
        f"INSERT INTO {name}.s1 VALUES (1, 1)",
        *(f"ALTER TABLE {name}.{shard} MODIFY COLUMN v BIGINT, {new}" for shard in ("s1", "s2")),
        f"INSERT INTO {name}.s2 VALUES (11, 2, '2020-01-01')",
    )
    for _ in range(2):
        error = RunningSync(subtask, None).wait_ended()
        assert isinstance(error, DMError)
        assert error.name == "ddl-values-differ"
    if skip:
        decide(subtask, Decision(f"{name}-`{name}`.`t`", skip=True))
    ((moment,),) = upstream.query(f"SELECT m FROM {name}.s1")
    target.execute(f"ALTER TABLE {name}.t {new}", f"UPDATE {name}.t SET m = '{moment}'")
    with running_sync(subtask) as sync:
        wait_for_rows(target, name, 2, sync)
        sync.wait_synced()
    merged([upstream], target, name)


@pytest.mark.ci_flavor("mariadb")
def test_a_time_that_all_sessions_read_in_one_zone_is_given_to_the_target_in_that_zone(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    subtask = merging("pessimistic", name, upstream, target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"INSERT INTO {name}.s1 VALUES (1, 1)", f"INSERT INTO {name}.s2 VALUES (11, 2)")
        wait_for_rows(target, name, 2, sync)
    zone, new = "SET SESSION time_zone = '+05:00'", "ADD COLUMN m TIMESTAMP NULL DEFAULT '2020-01-01 00:00:00'"
    upstream.execute(zone, *(f"ALTER TABLE {name}.{shard} {new}" for shard in ("s1", "s2")))
    upstream.execute(f"INSERT INTO {name}.s2 (id, v) VALUES (12, 3)")
    error = RunningSync(subtask, None).wait_ended()
    assert isinstance(error, DMError)
    assert error.name == "ddl-values-differ"
    target.execute(zone, f"ALTER TABLE {name}.t {new}")
    with running_sync(subtask) as sync:
        wait_for_rows(target, name, 3, sync)
        sync.wait_synced()
    merged([upstream], target, name)


@pytest.mark.ci_flavor("mysql")
@BOTH_MODES
def test_an_expression_that_is_the_same_for_all_shards_fills_their_rows(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, mode: ShardMode
) -> None:
    name = schema(upstream, target)
    subtask = merging(mode, name, upstream, target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"INSERT INTO {name}.s1 VALUES (1, 1)")
        wait_for_rows(target, name, 1, sync)
        upstream.execute(*(f"ALTER TABLE {name}.{shard} ADD COLUMN w INT DEFAULT (1 + 1)" for shard in ("s1", "s2")))
        upstream.execute(f"INSERT INTO {name}.s2 (id, v) VALUES (11, 2)")
        wait_for_rows(target, name, 2, sync)
        sync.wait_synced()
    assert target.query(f"SELECT id, v, w FROM {name}.t ORDER BY id") == ((1, 1, 2), (11, 2, 2))


@pytest.mark.ci_flavor("mysql")
@BOTH_MODES
def test_what_was_said_of_a_held_shards_ddl_is_taken_back(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, mode: ShardMode
) -> None:
    name = schema(upstream, target)
    subtask = merging(mode, name, upstream, target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"ALTER TABLE {name}.s1 {BY_V}", f"INSERT INTO {name}.s1 VALUES (1, 1)")
        begin = place(upstream)
        upstream.execute(
            f"ALTER TABLE {name}.s1 {BY_BOTH}",
            f"INSERT INTO {name}.s1 VALUES (2, 2)",
            f"INSERT INTO {name}.s2 VALUES (11, 3)",
        )
        wait_for_rows(target, name, 1, sync)
        held(sync)
        asked(sync, "skip", name, begin)
        (listed,) = cast("list[dict[str, JSON]]", asked(sync, "list", name))
        assert (listed["op"], listed["state"]) == ("skip", "waiting")
        asked(sync, "revert", name, begin)
        assert asked(sync, "list", name) == []
        upstream.execute(  # with the other one's left out, the second would wait for ever
            f"ALTER TABLE {name}.s2 {BY_V}", f"ALTER TABLE {name}.s2 {BY_BOTH}", f"INSERT INTO {name}.s2 VALUES (12, 4)"
        )
        wait_for_rows(target, name, 4, sync)
        sync.wait_synced()
    merged([upstream], target, name)


@pytest.mark.ci_flavor("mysql")
@BOTH_MODES
def test_one_shard_of_several_is_waited_for_no_more(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, mode: ShardMode
) -> None:
    name = schema(upstream, target)
    subtask = merging(mode, name, upstream, target, shards=3)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"ALTER TABLE {name}.s1 {BY_V}", f"INSERT INTO {name}.s1 VALUES (1, 1)")
        held(sync)
        without = Decision(f"{name}-`{name}`.`t`", ("source-0",), TableName(name, "s2"))
        assert decide(subtask, without) == f"still waited for: source-0 `{name}`.`s3`"
        (lock,) = cast("list[dict[str, JSON]]", locks(subtask))
        shards = cast("list[dict[str, JSON]]", lock["shards"])
        assert [each["table"] for each in shards if each["waived"]] == [f"`{name}`.`s2`"]
        upstream.execute(f"INSERT INTO {name}.s2 VALUES (21, 2)")
        wait_for_rows(target, name, 1, sync)  # the first one still waits for the third
        upstream.execute(f"ALTER TABLE {name}.s3 {BY_V}", f"INSERT INTO {name}.s3 VALUES (31, 3)")
        wait_for_rows(target, name, 3, sync)
        assert locks(subtask) == []
        upstream.execute(  # it comes after all; nothing is executed again
            f"INSERT INTO {name}.s2 VALUES (22, 4)",
            f"ALTER TABLE {name}.s2 {BY_V}",
            f"INSERT INTO {name}.s2 VALUES (23, 5)",
        )
        wait_for_rows(target, name, 5, sync)
        sync.wait_synced()
    merged([upstream], target, name)


@pytest.mark.ci_flavor("mariadb")
def test_the_targets_structure_is_none_of_a_shard_that_lacks_its_columns(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    subtask = merging("optimistic", name, upstream, target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"ALTER TABLE {name}.s1 ADD COLUMN w INT", f"INSERT INTO {name}.s1 VALUES (1, 1, 1)")
        wait_for_rows(target, name, 1, sync)
        sync.wait_synced()
    table = TableName(name, "s2")
    assert "`w`" in change_structure(subtask, StructureRequest("update", table, origin="target"))
    upstream.execute(f"INSERT INTO {name}.s2 VALUES (11, 2)")
    error = RunningSync(subtask, None).wait_ended()  # its rows show it, and none is applied
    assert isinstance(error, DMError)
    assert error.name == "structure-mismatch"
    assert "`w`" not in change_structure(subtask, StructureRequest("update", table, origin="source"))
    with running_sync(subtask) as sync:
        wait_for_rows(target, name, 2, sync)
        upstream.execute(f"ALTER TABLE {name}.s2 ADD COLUMN w INT", f"UPDATE {name}.s2 SET w = 2")
        sync.wait_synced()
    merged([upstream], target, name)


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("there", [True, False])
def test_the_targets_structure_is_refused_where_its_columns_are_in_another_order(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, there: bool
) -> None:
    """Rows of the binlog have their columns by number, and both are INT: nobody would notice."""
    name = schema(upstream, target)
    subtask = merging("pessimistic", name, upstream, target)
    target.execute(f"ALTER TABLE {name}.t MODIFY v INT FIRST")
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"INSERT INTO {name}.s1 VALUES (1, 5)", f"INSERT INTO {name}.s2 VALUES (11, 15)")
        wait_for_rows(target, name, 2, sync)
        sync.wait_synced()
    table = TableName(name, "s2")
    upstream.execute(f"INSERT INTO {name}.s2 VALUES (12, 2)")
    if not there:
        upstream.execute(f"RENAME TABLE {name}.s2 TO {name}.gone")
    with pytest.raises(DMError) as refused:
        change_structure(subtask, StructureRequest("update", table, origin="target"))
    assert refused.value.name == "structure-order-differs"
    if not there:
        return
    change_structure(subtask, StructureRequest("update", table, origin="source"))
    with running_sync(subtask) as sync:
        wait_for_rows(target, name, 3, sync)
        sync.wait_synced()
    assert rows_of(target, name, "t") == [(1, 5), (11, 15), (12, 2)]


@pytest.mark.ci_flavor("mysql")
@BOTH_MODES
def test_the_targets_structure_is_that_of_a_shard_that_waits(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, mode: ShardMode
) -> None:
    name = schema(upstream, target)
    subtask = merging(mode, name, upstream, target)
    statement = "ALTER TABLE {}.{} ADD COLUMN w INT, ADD UNIQUE INDEX by_w (w)"
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(statement.format(name, "s1"), f"INSERT INTO {name}.s1 VALUES (1, 1, 1)")
        held(sync)
    # The target does not have the statement's effect yet, nor has the shard where it waits.
    change_structure(subtask, StructureRequest("update", TableName(name, "s1"), origin="target"))
    with running_sync(subtask) as sync:
        upstream.execute(
            f"INSERT INTO {name}.s2 VALUES (11, 2)",
            statement.format(name, "s2"),
            f"INSERT INTO {name}.s2 VALUES (12, 3, 3)",
            f"UPDATE {name}.s1 SET v = 5",
        )
        wait_for_rows(target, name, 3, sync)
        sync.wait_synced()
    merged([upstream], target, name)
