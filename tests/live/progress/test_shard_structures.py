"""What the optimistic mode stores of a group, on both flavours of target."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.context import SourceContext
from dm.progress.lane_rows import claimed
from dm.progress.shards.group import Shard, Standing
from dm.progress.shards.numbered_ddls import ShardGroups
from dm.progress.shards.optimistic_structures import GroupSurvey, ShardStructures
from tests.live.progress.test_shard_groups import A, B, C, Side, ddl, sides
from tests.testbed.fixtures import SchemaFactory

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mariadb")]

NOTHING = frozenset[str]()


def like(shard: Shard, columns: str = "id INT PRIMARY KEY") -> TableSchema:
    """The shard's structure."""
    parsed = parse_create_table(f"CREATE TABLE x ({columns})", SourceContext("mysql", 90700, "db"))
    return replace(parsed, name=shard.table)


def learn(side: Side, *schemas: TableSchema) -> None:
    """The source's structures at L."""
    with claimed(side.connection, side.claim):
        ShardStructures(side.key).learn(side.connection, schemas)


def survey(side: Side, shard: Shard, *there: str, form: str = "") -> GroupSurvey:
    """A decision begins."""
    with claimed(side.connection, side.claim):
        return ShardStructures(side.key).survey(side.connection, shard, form, there)


def store(side: Side, shard: Shard, found: GroupSurvey, columns: str, *kept: str) -> None:
    """It ends."""
    with claimed(side.connection, side.claim):
        ShardStructures(side.key).store(
            side.connection, shard, like(shard, columns), found, kept=frozenset(kept), loose=NOTHING
        )


def test_nothing_is_decided_before_all_have_joined_and_are_known(
    target: ThrowawayServer, schema: SchemaFactory
) -> None:
    with sides(target, schema) as (one, two):
        one.join(A, B)
        learn(one, like(A), like(B))
        assert not survey(one, A).ready
        two.join(C)
        assert not survey(one, A).ready
        assert one.groups.look(one.connection, A) is Standing.OTHERS_MISSING
        learn(two, like(C, "id INT PRIMARY KEY, x INT"))
        found = survey(one, A)
        assert found.ready
        assert {other.table: other.schema for other in found.others} == {
            B.table: like(B),
            C.table: like(C, "id INT PRIMARY KEY, x INT"),
        }
        assert one.groups.look(one.connection, A) is Standing.COMPLETE


def test_a_table_that_is_no_shard_is_read_again_when_all_shards_are_known(
    target: ThrowawayServer, schema: SchemaFactory
) -> None:
    with sides(target, schema) as (one, two):
        groups = ShardGroups(one.key, optimistic=True)
        one.join(A)
        two.join(C)
        learn(two, like(C))
        assert groups.look(one.connection, B) is Standing.OTHERS_MISSING
        learn(one, like(A))
        assert groups.look(one.connection, B) is Standing.AGAIN


def test_a_structure_is_stored_only_if_nobody_has_decided_meanwhile(
    target: ThrowawayServer, schema: SchemaFactory
) -> None:
    with sides(target, schema) as (one, two):
        one.join(A)
        two.join(C)
        learn(one, like(A))
        learn(two, like(C))
        first = survey(one, A)
        survey(two, C)
        with pytest.raises(DMError) as caught:
            store(one, A, first, "id INT PRIMARY KEY, x INT")
        assert caught.value.name == "shard-ddl-out-of-turn"
        store(one, A, survey(one, A), "id INT PRIMARY KEY, x INT")
        (other,) = survey(two, C).others
        assert other.schema == like(A, "id INT PRIMARY KEY, x INT")


def test_a_structure_that_a_person_tells_ends_the_decision_that_has_not_seen_it(
    target: ThrowawayServer, schema: SchemaFactory
) -> None:
    with sides(target, schema) as (one, two):
        one.join(A)
        two.join(C)
        learn(one, like(A))
        learn(two, like(C))
        found = survey(two, C)
        told = like(A, "id INT PRIMARY KEY, x INT")
        with claimed(one.connection, one.claim):
            ShardStructures(one.key).told(one.connection, A, told)
        with pytest.raises(DMError) as caught:
            store(two, C, found, "id INT PRIMARY KEY")
        assert caught.value.name == "shard-ddl-out-of-turn"
        (other,) = survey(two, C).others
        assert other.schema == told


def test_what_the_target_has_no_more_nobody_keeps(target: ThrowawayServer, schema: SchemaFactory) -> None:
    with sides(target, schema) as (one, two):
        one.join(A)
        two.join(C)
        learn(one, like(A))
        learn(two, like(C))
        store(one, A, survey(one, A), "id INT PRIMARY KEY", "x", "y")
        assert survey(one, A, "id", "X", "y").kept == {"x", "y"}
        (other,) = survey(two, C, "id", "y").others
        assert other.kept == {"y"}
        assert survey(one, A, "id", "x", "y").kept == {"y"}


def test_a_shard_that_waits_goes_on_waiting_and_its_structure_counts_as_the_one_after(
    target: ThrowawayServer, schema: SchemaFactory
) -> None:
    with sides(target, schema) as (one, two):
        one.join(A)
        two.join(C)
        learn(one, like(A))
        learn(two, like(C))
        after = like(A, "id INT PRIMARY KEY, x INT UNIQUE")
        with claimed(one.connection, one.claim):
            one.groups.arrive(one.connection, ddl(A))
            ShardStructures(one.key).arrived(one.connection, A, after, like(A))
        assert survey(one, A, form="another").gated
        assert survey(two, C, form=ddl(C).form).gated
        assert not survey(two, C, form="another").gated
        (other,) = survey(two, C).others
        assert other.schema == like(A)
        two.arrive(ddl(C))
        two.executes(C)
        (other,) = survey(two, C).others
        assert other.schema == after


def test_a_table_whose_create_table_waits_is_told_from_the_others(
    target: ThrowawayServer, schema: SchemaFactory
) -> None:
    with sides(target, schema) as (one, two):
        one.join(A)
        two.join()
        learn(one, like(A))
        one.arrive(ddl(A))
        created = like(C, "id INT PRIMARY KEY, x INT UNIQUE, to_come INT")
        with claimed(two.connection, two.claim):
            assert two.groups.waits(two.connection, C, ())
            ShardStructures(two.key).learn_early(two.connection, created)
        (other,) = survey(one, A).others
        assert (other.schema, other.early) == (created, True)
        one.executes(A)
        with claimed(two.connection, two.claim):
            two.groups.enter(two.connection, C)
        learn(two, created)
        (other,) = survey(one, A).others
        assert (other.schema, other.early) == (created, False)
