"""The latch transactions of shard merge, on both flavours of target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.table import Column, TableSchema
from dm.position import Position
from dm.progress.checkpoint import Checkpoint, TablePoint, read_checkpoint, write_new
from dm.progress.intent import Intent
from dm.progress.lane_rows import CONTROL, LaneClaim, claimed, raise_epoch
from dm.progress.operators import Operator, change_operators, put_operator, read_operators
from dm.progress.shards.group import GroupDdl, Shard, ShardTables, Standing, create_shard_tables
from dm.progress.shards.held_shards import HeldTable, begin_second, put_held, read_held, return_second, undecided_before
from dm.progress.shards.members import expect_sources, remove_source
from dm.progress.shards.numbered_ddls import ShardGroups
from dm.progress.tables import SubtaskKey, create_tables, remove_progress
from dm.task.shard_locks import give_up, read_locks, unlock
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import endpoint_of

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

T = TableName("db", "t")
A, B, C, D, E = (Shard(TableName("db", name), T) for name in "abcde")
END = Position("uuid", "bin.000001", 500)


def ddl(shard: Shard, text: str = "alter add x") -> GroupDdl:
    """The same statement in a shard's binlog."""
    return GroupDdl(shard, text, (text,))


class Side:
    """One source of the task, with a claim."""

    def __init__(self, target: ThrowawayServer, task: str, source: str, sources: Sequence[str] = ("s1", "s2")) -> None:
        self.connection = TargetConnection(endpoint_of(target))
        self.key = SubtaskKey(f"meta_{task}", task, source)
        create_tables(self.connection, self.key)
        create_shard_tables(self.connection, self.key)
        self.claim = self.take()
        self.expect(*sources)
        self.groups = ShardGroups(self.key)
        self.groups.ensure(self.connection, [T])

    def take(self) -> LaneClaim:
        """Begin a run."""
        epoch, _ = raise_epoch(self.connection, self.key, [CONTROL])
        return LaneClaim(self.key, CONTROL, epoch)

    def expect(self, *sources: str) -> None:
        """Say which sources the task has."""
        with claimed(self.connection, self.claim):
            expect_sources(self.connection, self.key, sources)

    def join(self, *shards: Shard) -> None:
        """Say which shards there are."""
        with claimed(self.connection, self.claim):
            self.groups.join(self.connection, shards, lambda _: None)

    def arrive(self, one: GroupDdl) -> Standing:
        """A shard is at its next DDL."""
        with claimed(self.connection, self.claim):
            return self.groups.arrive(self.connection, one)

    def passes(self, shard: Shard) -> None:
        """A shard is after it."""
        with claimed(self.connection, self.claim):
            self.groups.store_passed(self.connection, shard)

    def executes(self, shard: Shard) -> None:
        """All of the DDL is done."""
        with claimed(self.connection, self.claim):
            self.groups.store_executed(self.connection, shard, None)


@contextmanager
def sides(target: ThrowawayServer, schema: SchemaFactory) -> Iterator[tuple[Side, Side]]:
    """Both sources."""
    task = schema(target)
    one, two = Side(target, task, "s1"), Side(target, task, "s2")
    try:
        yield one, two
    finally:
        one.connection.close()
        two.connection.close()


def test_a_ddl_is_complete_when_every_source_has_joined_and_every_shard_is_there(
    target: ThrowawayServer, schema: SchemaFactory
) -> None:
    with sides(target, schema) as (one, two):
        one.join(A, B)
        assert one.arrive(ddl(A)) is Standing.OWN_MISSING
        assert one.arrive(ddl(B)) is Standing.OTHERS_MISSING  # the second source has not joined
        two.join(C)
        assert one.groups.look(one.connection, A) is Standing.OTHERS_MISSING
        assert two.arrive(ddl(C)) is Standing.COMPLETE
        assert one.groups.look(one.connection, A) is Standing.COMPLETE
        two.executes(C)
        assert one.groups.look(one.connection, A) is Standing.EXECUTED
        two.passes(C)
        assert two.arrive(ddl(C, "alter drop x")) is Standing.OTHERS_MISSING
        one.passes(A)
        one.passes(B)
        assert one.arrive(ddl(A, "alter drop x")) is Standing.OWN_MISSING


def test_another_statement_at_the_same_number_is_a_conflict(target: ThrowawayServer, schema: SchemaFactory) -> None:
    with sides(target, schema) as (one, two):
        one.join(A)
        two.join(C)
        one.arrive(ddl(A))
        with pytest.raises(DMError) as caught:
            two.arrive(ddl(C, "alter drop x"))
        assert caught.value.name == "shard-ddl-conflict"
        assert one.groups.look(one.connection, A) is Standing.OTHERS_MISSING  # nothing of it is stored


def test_what_was_announced_is_found_by_whoever_has_the_turn_next(
    target: ThrowawayServer, schema: SchemaFactory
) -> None:
    with sides(target, schema) as (one, two):
        one.join(A)
        two.join(C)
        one.arrive(ddl(A))
        two.arrive(ddl(C))
        assert two.groups.announced_piece(two.connection, C, END) is None
        intent = Intent(END, 0, "ALTER TABLE t ADD x INT", 17, {T: None}, {T: None})
        with claimed(one.connection, one.claim):
            one.groups.announce(one.connection, A, intent)
        assert two.groups.announced_piece(two.connection, C, END) == intent
        two.executes(C)
        with pytest.raises(DMError) as caught, claimed(one.connection, one.claim):
            one.groups.announce(one.connection, A, intent)
        assert caught.value.name == "shard-ddl-out-of-turn"


def test_a_shard_that_leaves_may_complete_the_others(target: ThrowawayServer, schema: SchemaFactory) -> None:
    with sides(target, schema) as (one, two):
        one.join(A, B)
        two.join()
        assert one.arrive(ddl(A)) is Standing.OWN_MISSING
        with claimed(one.connection, one.claim):
            one.groups.leave(one.connection, B)
        assert one.groups.look(one.connection, A) is Standing.COMPLETE


def test_an_older_run_changes_nothing(target: ThrowawayServer, schema: SchemaFactory) -> None:
    with sides(target, schema) as (one, two):
        one.join(A)
        two.join(C)
        older, one.claim = one.claim, one.take()
        with pytest.raises(DMError) as caught, claimed(one.connection, older):
            one.groups.arrive(one.connection, ddl(A))
        assert caught.value.name == "fenced"
        assert two.arrive(ddl(C)) is Standing.OTHERS_MISSING


def test_held_tables_go_through_a_second_pass_and_return(target: ThrowawayServer, schema: SchemaFactory) -> None:
    with sides(target, schema) as (one, _):
        places = [Position("uuid", "bin.000001", offset) for offset in (900, 400)]
        write_new(one.connection, one.key, Checkpoint(Position("uuid", "bin.000001", 2000)))
        held = [HeldTable(shard.table, place, None) for shard, place in zip((A, B), places, strict=True)]
        with claimed(one.connection, one.claim):
            for each in held:
                put_held(one.connection, one.key, each)
        assert set(read_held(one.connection, one.key)) == set(held)
        begin_second(one.connection, one.claim, held)
        assert read_held(one.connection, one.key) == ()
        stored = read_checkpoint(one.connection, one.key.second)
        assert stored is not None
        assert stored.position == places[1]
        assert {table: point.point for table, point in stored.tables.items()} == {
            A.table: places[0],
            B.table: places[1],
        }
        epoch, _ = raise_epoch(one.connection, one.key.second, [CONTROL])
        return_second(one.connection, one.claim, LaneClaim(one.key.second, CONTROL, epoch))
        assert read_checkpoint(one.connection, one.key.second) is None
        main = read_checkpoint(one.connection, one.key)
        assert main is not None
        assert set(main.tables) == {A.table, B.table}


def test_a_source_without_progress_has_to_join_again(target: ThrowawayServer, schema: SchemaFactory) -> None:
    with sides(target, schema) as (one, two):
        one.join(A)
        two.join(C)
        one.arrive(ddl(A))
        remove_progress(two.connection, two.key)
        assert one.groups.look(one.connection, A) is Standing.OTHERS_MISSING
        two.claim = two.take()
        two.join()
        assert one.groups.look(one.connection, A) is Standing.COMPLETE
        for side in (one, two):
            remove_progress(side.connection, side.key)
        assert one.groups.group(one.connection, T).executed == 0
        assert not one.groups.group(one.connection, T).members


def test_a_source_that_left_the_task_is_waited_for_no_more_and_its_run_ends(
    target: ThrowawayServer, schema: SchemaFactory
) -> None:
    with sides(target, schema) as (one, two):
        one.join(A)
        two.join(C)
        assert one.arrive(ddl(A)) is Standing.OTHERS_MISSING
        one.expect("s1")
        assert one.groups.look(one.connection, A) is Standing.COMPLETE
        with pytest.raises(DMError) as caught:
            two.arrive(ddl(C))
        assert caught.value.name == "fenced"


@pytest.mark.parametrize("in_a_pass", [False, True])
def test_rows_that_a_source_holds_do_not_go_with_it_unless_somebody_says_so(
    target: ThrowawayServer, schema: SchemaFactory, in_a_pass: bool
) -> None:
    place = Position("uuid", "bin.000001", 400)
    with sides(target, schema) as (one, two):
        one.join(A)
        two.join(C)
        one.arrive(ddl(A))
        two.arrive(ddl(C))
        held = HeldTable(C.table, place, None)
        with claimed(two.connection, two.claim):
            put_held(two.connection, two.key, held)
        if in_a_pass:
            begin_second(two.connection, two.claim, [held])
        with pytest.raises(DMError) as caught:
            one.expect("s1")
        assert caught.value.name == "shard-source-left"
        assert "source s2 is not in the file" in str(caught.value)
        assert "`db`.`c` from (bin.000001, 400)" in str(caught.value)
        two.passes(C)  # its run goes on
        with claimed(one.connection, one.claim):
            remove_source(one.connection, two.key)
        one.expect("s1")
        assert read_held(one.connection, two.key) == ()
        assert read_checkpoint(one.connection, two.key.second) is None
        assert [member.table for member in one.groups.group(one.connection, T).members] == [A.table]


def test_one_shard_is_given_up(target: ThrowawayServer, schema: SchemaFactory) -> None:
    place = Position("uuid", "bin.000001", 400)
    with sides(target, schema) as (one, two):
        one.join(A, B)
        two.join(C)
        one.arrive(ddl(A))
        with claimed(one.connection, one.claim):
            for shard in (A, B):
                put_held(one.connection, one.key, HeldTable(shard.table, place, None))
        assert give_up(two.connection, one.key, A.table) == [(A.table, place)]
        assert [held.table for held in read_held(one.connection, one.key)] == [B.table]
        assert [member.table for member in one.groups.group(one.connection, T).members] == [B.table, C.table]
        with pytest.raises(DMError) as caught:
            one.arrive(ddl(B))
        assert caught.value.name == "fenced"


def test_a_table_whose_rows_were_given_up_is_a_new_shard_from_the_next_run_on(
    target: ThrowawayServer, schema: SchemaFactory
) -> None:
    with sides(target, schema) as (one, two):
        one.join(A, B)
        two.join(C)
        write_new(one.connection, one.key, Checkpoint(END))
        for shard in (A, B):
            give_up(two.connection, one.key, shard.table)
        checkpoint = read_checkpoint(one.connection, one.key)
        assert checkpoint is not None
        assert checkpoint.tables == {shard.table: TablePoint(None) for shard in (A, B)}
        one.claim = one.take()
        with claimed(one.connection, one.claim):
            one.groups.join_later(one.connection, [], [A], lambda _: None)  # the other one is gone
        assert two.arrive(ddl(C)) is Standing.OTHERS_MISSING
        with claimed(one.connection, one.claim):
            one.groups.join_later(one.connection, [], [A, B], lambda _: None)  # B has come again, and is to be created
        assert [member.table for member in one.groups.group(one.connection, T).members] == [A.table, C.table]


def test_a_table_that_is_known_and_no_shard_joins_unless_a_ddl_is_begun(
    target: ThrowawayServer, schema: SchemaFactory
) -> None:
    with sides(target, schema) as (one, two):
        with claimed(one.connection, one.claim):
            one.groups.join(one.connection, [A], {A.table: table(A, "id")}.get)
        two.join()
        with pytest.raises(DMError) as caught, claimed(two.connection, two.claim):
            two.groups.join_later(two.connection, [C], [], {C.table: table(C, "id", "x")}.get)
        assert caught.value.name == "shard-not-alike"
        one.arrive(ddl(A))
        with claimed(one.connection, one.claim):
            assert one.groups.begin(one.connection, A) is Standing.COMPLETE
        with claimed(two.connection, two.claim):
            two.groups.join_later(two.connection, [C], [], {C.table: table(C, "id")}.get)
        assert [member.table for member in one.groups.group(one.connection, T).members] == [A.table]
        one.executes(A)
        with claimed(two.connection, two.claim):
            two.groups.join_later(two.connection, [C], [], {C.table: table(C, "id", "x")}.get)
        one.passes(A)
        assert one.arrive(ddl(A, "alter drop x")) is Standing.OTHERS_MISSING


def test_nobody_waits_for_a_shard_that_a_person_has_waived(target: ThrowawayServer, schema: SchemaFactory) -> None:
    with sides(target, schema) as (one, two):
        one.join(A, B)
        two.join(C)
        one.arrive(ddl(A))
        (lock,) = read_locks(one.connection, one.key)
        assert (lock.id, lock.owner, lock.synced, lock.unsynced) == (f"{one.key.task}-`db`.`t`", "s1", (), ("s1", "s2"))
        unlock(one.connection, one.key, T, lambda member: member.source_id == "s2", skip=False)
        assert one.groups.look(one.connection, A) is Standing.OWN_MISSING
        # With other words it can't execute what the others wait for.
        assert two.arrive(ddl(C, "alter drop x")) is Standing.OTHERS_MISSING
        assert one.arrive(ddl(B)) is Standing.COMPLETE
        assert two.groups.look(two.connection, C) is Standing.OTHERS_MISSING
        one.executes(B)
        assert two.arrive(ddl(C, "alter drop x")) is Standing.EXECUTED
        two.passes(C)
        assert read_locks(one.connection, one.key) == []
        with pytest.raises(DMError) as caught:
            unlock(one.connection, one.key, T, lambda _: True, skip=False)
        assert caught.value.name == "shard-lock-not-found"


def test_a_ddl_that_is_being_executed_can_not_be_skipped(target: ThrowawayServer, schema: SchemaFactory) -> None:
    with sides(target, schema) as (one, two):
        one.join(A)
        two.join()
        one.arrive(ddl(A))
        assert not one.groups.is_skipped(one.connection, A)
        with claimed(one.connection, one.claim):
            one.groups.announce(one.connection, A, Intent(END, 0, "ALTER TABLE t ADD x INT", 17, {T: None}, {T: None}))
        with pytest.raises(DMError) as caught:
            unlock(one.connection, one.key, T, lambda _: True, skip=True)
        assert caught.value.name == "shard-lock-resolving"
        with claimed(one.connection, one.claim):
            one.groups.store_refused(one.connection, A)
        unlock(one.connection, one.key, T, lambda _: True, skip=True)
        assert one.groups.is_skipped(one.connection, A)


def table(shard: Shard, *columns: str) -> TableSchema:
    """The structure of a shard."""
    return TableSchema(shard.table, tuple(Column(name, "int") for name in columns))


def test_a_shard_that_is_not_like_the_others_does_not_join(target: ThrowawayServer, schema: SchemaFactory) -> None:
    with sides(target, schema) as (one, two):
        first = {A.table: table(A, "id", "v")}
        with claimed(one.connection, one.claim):
            one.groups.join(one.connection, [A], first.get)
        with pytest.raises(DMError) as caught, claimed(two.connection, two.claim):
            two.groups.join(two.connection, [C], {C.table: table(C, "v", "id", "w")}.get)
        assert caught.value.name == "shard-not-alike"
        assert "db.c of source s2" in str(caught.value)
        assert "column w is here only" in str(caught.value)
        with claimed(two.connection, two.claim):
            two.groups.join(two.connection, [C], {C.table: table(C, "v", "id")}.get)  # in another order
        assert one.groups.group(one.connection, T).joined


def test_a_table_created_with_a_structure_to_come_is_early(target: ThrowawayServer, schema: SchemaFactory) -> None:
    with sides(target, schema) as (one, two):
        with claimed(one.connection, one.claim):
            one.groups.join(one.connection, [A], {A.table: table(A, "id")}.get)
        two.join()
        with claimed(two.connection, two.claim):
            assert not two.groups.created(two.connection, C, table(C, "id", "x"))
        assert two.groups.look(two.connection, C) is Standing.OTHERS_MISSING
        assert one.arrive(ddl(A)) is Standing.COMPLETE  # it is there already
        with claimed(one.connection, one.claim):
            one.groups.store_executed(one.connection, A, table(A, "id", "x"))
        assert two.groups.look(two.connection, C) is Standing.EXECUTED
        with claimed(two.connection, two.claim):
            assert two.groups.created(two.connection, C, table(C, "id", "x"))  # its CREATE TABLE is read again
        one.passes(A)
        assert one.arrive(ddl(A, "alter add y")) is Standing.OTHERS_MISSING
        assert two.arrive(ddl(C, "alter add y")) is Standing.COMPLETE


def test_nobody_joins_after_a_ddl_that_is_begun(target: ThrowawayServer, schema: SchemaFactory) -> None:
    with sides(target, schema) as (one, two):
        with claimed(one.connection, one.claim):
            one.groups.join(one.connection, [A], {A.table: table(A, "id")}.get)
        two.join()
        assert one.arrive(ddl(A)) is Standing.COMPLETE
        with claimed(two.connection, two.claim):
            assert two.groups.created(two.connection, C, table(C, "id"))
        with claimed(one.connection, one.claim):
            assert one.groups.begin(one.connection, A) is Standing.OTHERS_MISSING  # it has come before
        assert two.arrive(ddl(C)) is Standing.COMPLETE
        with claimed(one.connection, one.claim):
            assert one.groups.begin(one.connection, A) is Standing.COMPLETE
        assert one.groups.announced_piece(one.connection, A, END) is None
        with claimed(two.connection, two.claim):
            assert not two.groups.created(two.connection, D, table(D, "id"))  # its rows would meet what comes
        assert two.groups.look(two.connection, C) is Standing.COMPLETE
        with pytest.raises(DMError) as caught:
            unlock(one.connection, one.key, T, lambda _: True, skip=True)
        assert caught.value.name == "shard-lock-resolving"
        one.expect("s1", "s2", "s3")
        assert two.groups.look(two.connection, C) is Standing.COMPLETE  # a new source holds up nothing
        three = Side(target, one.key.task, "s3", ("s1", "s2", "s3"))
        try:
            with pytest.raises(DMError) as caught:
                three.join(E)
            assert caught.value.name == "shard-ddl-under-way"
            two.executes(C)
            three.join(E)
        finally:
            three.connection.close()


def test_tables_of_an_earlier_build_get_the_columns_that_they_lack(
    target: ThrowawayServer, schema: SchemaFactory
) -> None:
    place = Position("uuid", "bin.000001", 400)
    with sides(target, schema) as (one, _):
        tables = ShardTables.of(one.key)
        with claimed(one.connection, one.claim):
            put_held(one.connection, one.key, HeldTable(A.table, place, None))
        of_all = (tables.source, tables.held, tables.table, tables.group)
        whole = [target.query(f"SHOW COLUMNS FROM {table.sql}") for table in of_all]
        target.execute(
            f"ALTER TABLE {tables.source.sql} DROP COLUMN undecided",
            f"ALTER TABLE {tables.held.sql} DROP COLUMN undecided",
            f"ALTER TABLE {tables.table.sql} DROP COLUMN early, DROP COLUMN waived, DROP COLUMN kept",
            f"ALTER TABLE {tables.group.sql} DROP COLUMN target",
        )
        create_shard_tables(one.connection, one.key)
        found = [target.query(f"SHOW COLUMNS FROM {table.sql}") for table in of_all]
        assert [set(columns) for columns in found] == [set(columns) for columns in whole]
        assert read_held(one.connection, one.key) == (HeldTable(A.table, place, None),)
        assert undecided_before(one.connection, one.key) == ()


def test_a_second_pass_has_the_operators_of_the_stream(target: ThrowawayServer, schema: SchemaFactory) -> None:
    held = HeldTable(A.table, Position("uuid", "bin.000001", 400), None)
    first, later = (Operator("uuid", "bin.000001", offset, "inject", ("..",), done=True) for offset in (500, 600))
    words = ("A's", "another's", "B's")
    left = Operator("uuid", "bin.000001", 550, "inject", words, done=True, left=frozenset({(0, 0), (2, 0)}))
    with sides(target, schema) as (one, _):
        write_new(one.connection, one.key, Checkpoint(Position("uuid", "bin.000001", 2000)))
        for operator in (first, left):
            change_operators(one.connection, [one.key], put=operator)
        with claimed(one.connection, one.claim):
            put_held(one.connection, one.key, held)
        begin_second(one.connection, one.claim, [held])
        assert read_operators(one.connection, one.key.second) == [first, left]
        change_operators(one.connection, [one.key.second, one.key], put=later)
        with claimed(one.connection, one.claim):
            executed = replace(left, left=frozenset({(1, 0), (2, 0)}))  # those of A
            put_operator(one.connection, one.key.second, executed)
        epoch, _ = raise_epoch(one.connection, one.key.second, [CONTROL])
        return_second(one.connection, one.claim, LaneClaim(one.key.second, CONTROL, epoch))
        assert read_operators(one.connection, one.key.second) == []
        assert read_operators(one.connection, one.key) == [first, replace(left, left=frozenset({(2, 0)})), later]


def test_operators_of_an_earlier_build_mean_what_they_meant(target: ThrowawayServer, schema: SchemaFactory) -> None:
    columns = "id, server_uuid, binlog_name, binlog_pos, action, statements, done"
    with sides(target, schema) as (one, _):
        for done in (0, 1):
            values = f"""'{one.key.source_id}', 'uuid', 'bin.000001', {done}, 'inject', '["..", ".."]', {done}"""
            target.execute(f"INSERT INTO {one.key.operator.sql} ({columns}) VALUES ({values})")
        found = read_operators(one.connection, one.key)
    assert [each.statements for each in found] == [("..", "..")] * 2
    assert [(each.done, each.partly, each.to_come) for each in found] == [(False, False, True), (True, False, False)]
