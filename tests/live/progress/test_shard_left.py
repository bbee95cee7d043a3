"""What shards that are no more leave behind: DDLs that nobody is at, tables that wait for nobody."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.mysql.schema.table import TableSchema
from dm.progress.lane_rows import claimed
from dm.progress.shards.group import Shard, ShardTables, Standing
from dm.progress.tables import remove_progress
from dm.task.shard_locks import give_up, read_locks, unlock
from tests.live.progress.test_shard_groups import END, A, B, C, D, E, Side, T, ddl, sides, table
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
        side.groups.store_executed(side.connection, shard, table(shard, *columns))


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


def test_a_ddl_goes_with_the_last_shard_that_is_at_it(target: ThrowawayServer, schema: SchemaFactory) -> None:
    with sides(target, schema) as (one, two):
        joins(one, table(A, "id"), table(B, "id"))
        joins(two, table(C, "id"))
        one.arrive(ddl(A, "add typo"))
        one.arrive(ddl(B, "add typo"))
        give_up(two.connection, one.key, A.table)
        assert [lock.statements for lock in read_locks(two.connection, two.key)] == [("add typo",)]  # B is at it
        give_up(two.connection, one.key, B.table)
        assert read_locks(two.connection, two.key) == []
        assert two.arrive(ddl(C, "add good")) is Standing.COMPLETE
        executes(two, C, "id", "good")


def test_a_ddl_that_is_begun_stays(target: ThrowawayServer, schema: SchemaFactory) -> None:
    with sides(target, schema) as (one, two):
        joins(one, table(A, "id"))
        joins(two)
        one.arrive(ddl(A, "add typo"))
        with claimed(one.connection, one.claim):
            assert one.groups.begin(one.connection, A) is Standing.COMPLETE
        assert creates(two, C, "id") is False
        give_up(two.connection, one.key, A.table)
        with pytest.raises(DMError) as caught:
            two.arrive(ddl(D, "add good"))
        assert caught.value.name == "shard-ddl-conflict"


def test_a_shard_that_a_person_has_waived_comes_again(target: ThrowawayServer, schema: SchemaFactory) -> None:
    with sides(target, schema) as (one, two):
        joins(one, table(A, "id"), table(B, "id"))
        joins(two, table(C, "id"), table(D, "id"))
        one.arrive(ddl(A, "add typo"))
        unlock(two.connection, two.key, T, lambda member: member.table != B.table, skip=False)
        assert two.arrive(ddl(C, "add good")) is Standing.OTHERS_MISSING  # it executes nothing of its own
        assert not creates(two, E, "id", "good")
        give_up(two.connection, one.key, A.table)
        assert look(two, C) is Standing.AGAIN
        assert look(two, E) is Standing.OTHERS_MISSING  # it still waits for a DDL
        assert two.arrive(ddl(C, "add good")) is Standing.OWN_MISSING  # nobody has waived D at this one
        assert two.arrive(ddl(D, "add good")) is Standing.OTHERS_MISSING
        one.claim = one.take()
        assert one.arrive(ddl(B, "add good")) is Standing.COMPLETE
        executes(one, B, "id", "good")
        assert {look(two, C), look(two, D), look(two, E)} == {Standing.EXECUTED}
        assert creates(two, E, "id", "good")
        assert two.connection.query(f"SELECT COUNT(*) FROM {ShardTables.of(two.key).ddl.sql}") == [(1,)]


def test_a_shard_that_was_waived_is_there_after_what_it_has_waited_for(
    target: ThrowawayServer, schema: SchemaFactory
) -> None:
    with sides(target, schema) as (one, two):
        joins(one, table(A, "id"), table(B, "id"))
        joins(two, table(C, "id"))
        one.arrive(ddl(A, "add x"))
        unlock(two.connection, two.key, T, lambda member: member.table == C.table, skip=False)
        assert two.arrive(ddl(C, "add y")) is Standing.OTHERS_MISSING
        assert one.arrive(ddl(B, "add x")) is Standing.COMPLETE
        executes(one, B, "id", "x")
        leaves(one, A)
        leaves(one, B)
        assert not creates(one, D, "id", "z")
        assert look(one, D) is Standing.OTHERS_MISSING
        assert look(two, C) is Standing.EXECUTED


def test_a_shard_that_waits_for_a_moment_executes_no_ddl_that_is_gone(
    target: ThrowawayServer, schema: SchemaFactory
) -> None:
    with sides(target, schema) as (one, two):
        joins(one, table(A, "id"))
        joins(two, table(C, "id"))
        one.arrive(ddl(A, "add typo"))
        unlock(two.connection, two.key, T, lambda _: True, skip=False)
        two.arrive(ddl(C, "add good"))
        give_up(two.connection, one.key, A.table)
        with claimed(two.connection, two.claim):
            assert two.groups.begin(two.connection, C) is Standing.AGAIN
        assert two.groups.announced_piece(two.connection, C, END) is None


def test_a_ddl_goes_with_the_progress_of_its_source(target: ThrowawayServer, schema: SchemaFactory) -> None:
    with sides(target, schema) as (one, two):
        joins(one, table(A, "id"))
        joins(two, table(C, "id"))
        one.arrive(ddl(A, "add typo"))
        remove_progress(one.connection, one.key)
        one.claim = one.take()
        joins(one, table(A, "id"))
        assert two.arrive(ddl(C, "add good")) is Standing.OTHERS_MISSING
