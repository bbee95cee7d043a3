"""What shards that are no more leave behind: DDLs that nobody is at, tables that wait for nobody."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from dm.progress.lane_rows import claimed
from dm.progress.shard_group import Shard, Standing
from dm.schema.table import TableSchema
from tests.live.progress.test_shard_groups import A, B, C, D, Side, T, ddl, sides, table
from tests.testbed.fixtures import SchemaFactory

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]


def joins(side: Side, *schemas: TableSchema) -> None:
    """A source says what its shards are like."""
    found = {each.name: each for each in schemas}
    with claimed(side.connection, side.claim):
        side.groups.join(side.connection, [Shard(name, T) for name in found], found.get)


def creates(side: Side, shard: Shard, *columns: str) -> bool:
    """A table is created, or its CREATE TABLE is read again."""
    with claimed(side.connection, side.claim):
        return side.groups.created(side.connection, shard, table(shard, *columns))


def leaves(side: Side, shard: Shard) -> None:
    """It is dropped."""
    with claimed(side.connection, side.claim):
        side.groups.leave(side.connection, shard)


def executes(side: Side, shard: Shard, *columns: str) -> None:
    """All of the DDL is done."""
    with claimed(side.connection, side.claim):
        assert side.groups.begin(side.connection, shard) is Standing.COMPLETE
        side.groups.executed(side.connection, shard, table(shard, *columns))


def look(side: Side, shard: Shard) -> Standing:
    """What a shard may do."""
    return side.groups.look(side.connection, shard)


def test_a_table_that_is_alone_is_let_in_as_it_is(target: ThrowawayServer, schema: SchemaFactory) -> None:
    with sides(target, schema) as (one, two):
        joins(one, table(A, "id"))
        joins(two)
        assert not creates(one, B, "id", "x")
        assert not creates(two, C, "id", "y")
        assert not creates(two, D, "id", "x")
        leaves(one, A)
        assert {look(one, B), look(two, C), look(two, D)} == {Standing.AGAIN}
        assert creates(one, B, "id", "x")
        assert {look(two, C), look(two, D)} == {Standing.AGAIN}  # there is something to be like again
        assert not creates(two, C, "id", "y")
        assert look(two, C) is Standing.OTHERS_MISSING
        assert one.arrive(ddl(B)) is Standing.OTHERS_MISSING  # D has not been read again
        assert creates(two, D, "id", "x")
        assert two.arrive(ddl(D)) is Standing.COMPLETE


def test_a_table_is_not_alone_before_every_source_has_joined(target: ThrowawayServer, schema: SchemaFactory) -> None:
    with sides(target, schema) as (one, two):
        joins(one, table(A, "id"))
        assert not creates(one, B, "id", "x")
        leaves(one, A)
        assert look(one, B) is Standing.OTHERS_MISSING
        assert not creates(one, D, "id", "y")
        joins(two, table(C, "id"))
        assert not creates(one, B, "id", "x")
        assert two.arrive(ddl(C)) is Standing.COMPLETE
        executes(two, C, "id", "x")
        assert look(one, B) is Standing.EXECUTED


def test_a_shard_that_is_made_anew_is_like_itself(target: ThrowawayServer, schema: SchemaFactory) -> None:
    with sides(target, schema) as (one, two):
        joins(one, table(A, "id"))
        joins(two)
        leaves(one, A)
        assert creates(one, A, "id", "x")
        assert not creates(two, C, "id")
        assert creates(two, D, "id", "x")
