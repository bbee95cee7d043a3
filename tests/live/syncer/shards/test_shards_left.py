"""Shard merge: shards that are no more hold up nobody."""

from __future__ import annotations

import pytest

from dm.config.rules import BlockAllowList, FilterRule
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.ident import TableName
from dm.syncer.operators import Request
from dm.task.binlog_verbs import operate_on_event
from dm.task.shard_locks import Decision, decide, locks
from tests.live.syncer.errors.test_operators import place
from tests.live.syncer.shards.test_shard_persons import BY_V, keys_of
from tests.live.syncer.shards.test_shards import KEYED, held, merged, subtasks_of, wait_for_rows
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, running_sync, wait_until

pytestmark = pytest.mark.live


@pytest.mark.ci_flavor("mysql")
def test_a_table_that_waits_is_let_in_when_the_last_shard_is_dropped(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target, shards=1)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"CREATE TABLE {name}.s2 ({KEYED}, w INT)", f"INSERT INTO {name}.s2 VALUES (2, 2, 2)")
        held(sync)
    upstream.execute(f"DROP TABLE {name}.s1")
    error = RunningSync(subtask, None).wait_ended()
    assert isinstance(error, DMError)
    assert error.name == "column-missing"
    target.execute(f"ALTER TABLE {name}.t ADD COLUMN w INT")
    with running_sync(subtask) as sync:
        wait_for_rows(target, name, 1, sync)
        upstream.execute(f"ALTER TABLE {name}.s2 ADD COLUMN x INT", f"INSERT INTO {name}.s2 VALUES (3, 3, 3, 3)")
        wait_for_rows(target, name, 2, sync)
        sync.wait_synced()
    merged([upstream], target, name)


@pytest.mark.ci_flavor("mariadb")
def test_the_only_shard_may_be_made_anew_as_the_target_takes_it(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target, shards=1)
    target.execute(f"ALTER TABLE {name}.t ADD COLUMN w INT")
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(
            f"INSERT INTO {name}.s1 VALUES (1, 1)",
            f"DELETE FROM {name}.s1",
            f"DROP TABLE {name}.s1",
            f"CREATE TABLE {name}.s1 ({KEYED}, w INT)",
            f"INSERT INTO {name}.s1 VALUES (2, 2, 2)",
        )
        wait_for_rows(target, name, 1, sync)
        upstream.execute(f"CREATE TABLE {name}.s2 ({KEYED}, w INT)", f"INSERT INTO {name}.s2 VALUES (3, 3, 3)")
        wait_for_rows(target, name, 2, sync)
        sync.wait_synced()
    merged([upstream], target, name)


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("unlocks", [False, pytest.param(True, marks=pytest.mark.chaos)])
def test_a_ddl_goes_with_the_shard_that_alone_had_come_to_it(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory, unlocks: bool
) -> None:
    name = schema(*upstreams, target)
    one, two = subtasks_of(name, upstreams, target, shards=1)
    lock = f"{name}-`{name}`.`t`"
    with running_sync(one) as first, running_sync(two) as second:
        first.wait_synced()
        second.wait_synced()
        upstreams[0].execute(f"ALTER TABLE {name}.s1 ADD COLUMN typo INT")
        held(first)
    if unlocks:
        upstreams[1].execute(f"ALTER TABLE {name}.s1 ADD COLUMN good INT")
        error = RunningSync(two, None).wait_ended()
        assert isinstance(error, DMError)
        assert error.name == "shard-ddl-conflict"
        decide(two, Decision(lock))
        with running_sync(two) as second:
            held(second)
    decide(one, Decision(lock, ("source-0",), force_remove=True))
    assert locks(two) == []
    if not unlocks:
        upstreams[1].execute(f"ALTER TABLE {name}.s1 ADD COLUMN good INT")
    upstreams[1].execute(f"INSERT INTO {name}.s1 VALUES (1, 1, 1)")
    with running_sync(two.model_copy(update={"shard_sources": ("source-1",)})) as second:
        wait_for_rows(target, name, 1, second)
        second.wait_synced()
    assert target.query(f"SELECT id, v, good FROM {name}.t") == ((1, 1, 1),)
    assert len(target.query(f"SHOW COLUMNS FROM {name}.t")) == 3


@pytest.mark.ci_flavor("mariadb")
def test_a_shard_that_is_given_up_takes_its_ddl_along_and_is_a_new_one(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"ALTER TABLE {name}.s1 ADD COLUMN typo INT", f"ALTER TABLE {name}.s1 DROP COLUMN typo")
        held(sync)
    gone = Decision(f"{name}-`{name}`.`t`", ("source-0",), TableName(name, "s1"), force_remove=True)
    decide(subtask, gone)
    upstream.execute(f"ALTER TABLE {name}.s2 ADD COLUMN good INT", f"INSERT INTO {name}.s2 VALUES (1, 1, 1)")
    upstream.execute(f"ALTER TABLE {name}.s1 ADD COLUMN good INT", f"INSERT INTO {name}.s1 VALUES (2, 2, 2)")
    with running_sync(subtask) as sync:
        wait_for_rows(target, name, 2, sync)
        sync.wait_synced()
    merged([upstream], target, name)


BOTH_MODES = pytest.mark.parametrize("mode", ["pessimistic", "optimistic"])


@pytest.mark.ci_flavor("mysql")
@BOTH_MODES
@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize(
    "left_out_by", ["", pytest.param("rule", marks=pytest.mark.chaos), pytest.param("person", marks=pytest.mark.chaos)]
)
@pytest.mark.ci_sample(2)
def test_shards_go_with_their_schema_and_the_targets_stays(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, mode: str, waits: bool, left_out_by: str
) -> None:
    """As shards that are dropped one by one do; also where a person or an event rule leaves the statement out."""
    name, other = schema(upstream, target), schema(upstream)
    (subtask,) = subtasks_of(name, [upstream], target, shards=1)
    upstream.execute(f"CREATE TABLE {other}.s1 ({KEYED})")
    (rule,) = subtask.routes
    lists = BlockAllowList(do_dbs=(name, other))
    of_schema = rule.model_copy(update={"schema_pattern": other, "table_pattern": "", "target_table": ""})
    routes = (rule, rule.model_copy(update={"schema_pattern": other}), of_schema)
    stays = FilterRule(schema_pattern=other, events=("drop database",), action="Ignore")
    filters = (stays,) if left_out_by == "rule" else ()
    subtask = subtask.model_copy(
        update={"shard_mode": mode, "routes": routes, "block_allow_list": lists, "filters": filters}
    )
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"INSERT INTO {name}.s1 VALUES (1, 1)", f"INSERT INTO {other}.s1 VALUES (11, 11)")
        wait_for_rows(target, name, 2, sync)
        if waits:
            upstream.execute(f"ALTER TABLE {other}.s1 {BY_V}", f"INSERT INTO {other}.s1 VALUES (12, 12)")
            held(sync)
    at = place(upstream)
    upstream.execute(f"DROP DATABASE {other}")
    if left_out_by == "person":
        operate_on_event(subtask, Request("skip", name, "source-0", at), None)
    with running_sync(subtask) as sync:
        for number, key in enumerate((BY_V, "ADD UNIQUE INDEX by_both (v, id)"), 2):
            upstream.execute(f"ALTER TABLE {name}.s1 {key}", f"INSERT INTO {name}.s1 VALUES ({number}, {number})")
        wait_for_rows(target, name, 4 + waits, sync)
        sync.wait_synced()
        assert locks(subtask) == []
    assert keys_of(target, name) == ["PRIMARY", "by_both", "by_both", "by_v"]


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("by_person", [False, pytest.param(True, marks=pytest.mark.chaos)])
def test_a_shard_of_a_schema_that_is_made_anew_does_not_go_with_the_one_before(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, by_person: bool
) -> None:
    name, other = schema(upstream, target), schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target, shards=1)
    upstream.execute(f"CREATE TABLE {other}.s1 ({KEYED})")
    (rule,) = subtask.routes
    lists = BlockAllowList(do_dbs=(name, other))
    routes = (rule, rule.model_copy(update={"schema_pattern": other}))
    subtask = subtask.model_copy(update={"routes": routes, "block_allow_list": lists})
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"ALTER TABLE {other}.s1 {BY_V}")
        held(sync)
    at = place(upstream)
    upstream.execute(f"DROP DATABASE {other}")
    if by_person:
        operate_on_event(subtask, Request("skip", name, "source-0", at), None)
    upstream.execute(f"CREATE DATABASE {other}", f"CREATE TABLE {other}.s2 ({KEYED})")
    upstream.execute(f"ALTER TABLE {other}.s2 {BY_V}", f"INSERT INTO {other}.s2 VALUES (11, 11)")
    upstream.execute(f"INSERT INTO {name}.u VALUES (1)")
    with running_sync(subtask) as sync:
        wait_until(lambda: bool(target.query(f"SELECT id FROM {name}.u")), "both tables wait")
        for number, key in enumerate((BY_V, "ADD UNIQUE INDEX by_both (v, id)"), 1):
            upstream.execute(f"ALTER TABLE {name}.s1 {key}", f"INSERT INTO {name}.s1 VALUES ({number}, {number})")
        wait_for_rows(target, name, 2, sync)
        upstream.execute(f"ALTER TABLE {other}.s2 ADD UNIQUE INDEX by_both (v, id)")
        wait_for_rows(target, name, 3, sync)
        sync.wait_synced()
    assert keys_of(target, name) == ["PRIMARY", "by_both", "by_both", "by_v"]


@pytest.mark.ci_flavor("mariadb")
@BOTH_MODES
@pytest.mark.parametrize("wanted", [True, False])
def test_a_shard_that_is_renamed_out_of_its_group_is_none_where_a_person_leaves_that_out(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, mode: str, wanted: bool
) -> None:
    name, other = schema(upstream, target), schema(upstream)
    (subtask,) = subtasks_of(name, [upstream], target)
    subtask = subtask.model_copy(update={"shard_mode": mode})
    with running_sync(subtask) as sync:
        sync.wait_synced()
    at = place(upstream)
    upstream.execute(f"RENAME TABLE {name}.s2 TO {name if wanted else other}.gone")
    operate_on_event(subtask, Request("skip", name, "source-0", at), None)
    with running_sync(subtask) as sync:
        upstream.execute(f"ALTER TABLE {name}.s1 {BY_V}", f"INSERT INTO {name}.s1 VALUES (1, 1)")
        wait_for_rows(target, name, 1, sync)
        sync.wait_synced()
    assert keys_of(target, name) == ["PRIMARY", "by_v"]


@pytest.mark.ci_flavor("mysql")
def test_the_other_renames_of_a_statement_that_is_left_out_count(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    """One shard takes the name of another that leaves: its columns are not dropped while it has them."""
    name, other = schema(upstream, target), schema(upstream)
    (subtask,) = subtasks_of(name, [upstream], target, shards=3)
    subtask = subtask.model_copy(update={"shard_mode": "optimistic"})
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(*(f"ALTER TABLE {name}.{shard} ADD COLUMN w INT" for shard in ("s2", "s3")))
        upstream.execute(f"INSERT INTO {name}.s2 VALUES (2, 2, 2)")
        wait_for_rows(target, name, 1, sync)
    at = place(upstream)
    upstream.execute(f"RENAME TABLE {name}.s1 TO {other}.s1, {name}.s2 TO {name}.s1")
    operate_on_event(subtask, Request("skip", name, "source-0", at), None)
    with running_sync(subtask) as sync:
        upstream.execute(f"ALTER TABLE {name}.s3 DROP COLUMN w", f"INSERT INTO {name}.s3 VALUES (3, 3)")
        wait_for_rows(target, name, 2, sync)
        sync.wait_synced()
        assert target.query(f"SELECT id, w FROM {name}.t ORDER BY id") == ((2, 2), (3, None))


@pytest.mark.ci_flavor("mysql")
def test_a_table_made_like_one_that_is_given_up_pauses(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    """The model is the stream's again, and has another structure there than where the table was made."""
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"ALTER TABLE {name}.s1 ADD COLUMN w INT", f"CREATE TABLE {name}.s3 LIKE {name}.s1")
        upstream.execute(f"INSERT INTO {name}.s3 VALUES (31, 1, 1)", f"INSERT INTO {name}.u VALUES (1)")
        wait_until(lambda: bool(target.query(f"SELECT id FROM {name}.u")), "both tables wait")
    lock = f"{name}-`{name}`.`t`"
    decide(subtask, Decision(lock, ("source-0",), TableName(name, "s1"), force_remove=True))
    upstream.execute(f"ALTER TABLE {name}.s2 ADD COLUMN w INT", f"INSERT INTO {name}.u VALUES (2)")
    running = RunningSync(subtask, None)
    wait_until(lambda: len(target.query(f"SELECT id FROM {name}.u")) == 2, "s1 is a new shard, and waited for")
    decide(subtask, Decision(lock))
    error = running.wait_ended()
    assert isinstance(error, DMError)
    assert error.name == "shard-ddl-unsupported"
    assert "does not wait any more" in str(error)
