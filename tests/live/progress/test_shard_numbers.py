"""A shard that was made further on comes to its next DDL first: the DDLs that it is beyond get numbers before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.table import Column, Index, IndexPart, TableSchema, schema_to_json
from dm.progress.lane_rows import claimed
from dm.progress.shards.group import GroupDdl, Shard, ShardGroup, ShardTables, Standing
from dm.progress.shards.optimistic_structures import ShardStructures
from dm.task.shard_locks import give_up
from tests.live.progress.test_shard_groups import Side, T
from tests.testbed.fixtures import SchemaFactory

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

COLUMNS = (Column("id", "int", nullable=False), Column("v", "int"))
AT_TARGET = TableSchema(T, COLUMNS)
OLD_A, OLD_B, NEW, NEWER = (Shard(TableName("db", name), T) for name in ("a", "b", "new", "newer"))
FIRST, SECOND, THIRD = "add index i", "add index j", "set default"


class Staged(Side):
    """One source whose shards are altered by the same statements in the same order."""

    def __init__(self, target: ThrowawayServer, task: str, source: str) -> None:
        super().__init__(target, task, source)
        self._structures = ShardStructures(self.key)
        self._stages = dict[Shard, int]()

    def begins(self, shards: Sequence[Shard]) -> None:
        """Join with these."""
        self._stages = dict.fromkeys(shards, 0)
        self.join(*shards)
        with claimed(self.connection, self.claim):
            self._structures.learn(self.connection, [self._like(shard) for shard in shards])

    def _like(self, shard: Shard) -> TableSchema:
        stage = self._stages[shard]
        indexes = [Index(name, "index", (IndexPart(on),)) for name, on in (("i", "id"), ("j", "v"))]
        default = "5" if stage > 2 else None
        columns = (COLUMNS[0], replace(COLUMNS[1], default=default))
        return TableSchema(shard.table, columns, tuple(indexes[:stage]))

    def made(self, shard: Shard, stage: int) -> None:
        """A table is created after so many statements."""
        self._stages[shard] = stage
        with claimed(self.connection, self.claim):
            self.groups.enter(self.connection, shard)
            self._structures.learn(self.connection, [self._like(shard)])

    def waits(self, shard: Shard, stage: int) -> None:
        """A table is created so, and the target does not take it yet."""
        self._stages[shard] = stage
        with claimed(self.connection, self.claim):
            assert self.groups.waits(self.connection, shard, ())
            self._structures.learn_early(self.connection, self._like(shard))

    def comes(self, shard: Shard, text: str) -> Standing:
        """A shard is at its next statement."""
        self._stages[shard] += 1
        after = self._like(shard)
        self._stages[shard] -= 1
        return self.reaches(shard, text, after, AT_TARGET)

    def reaches(self, shard: Shard, text: str, after: TableSchema, at_target: TableSchema) -> Standing:
        """A shard is at a statement."""
        with claimed(self.connection, self.claim):
            standing = self.groups.arrive(self.connection, GroupDdl(shard, text, (text,)), after, at_target)
            self._structures.arrived(self.connection, shard, after, at_target)
        return standing

    def is_like(self, shard: Shard, structure: TableSchema) -> None:
        """A shard has another structure."""
        with claimed(self.connection, self.claim):
            self._structures.learn(self.connection, [replace(structure, name=shard.table)])

    def follows(self, *shards: Shard) -> None:
        """Shards are after it."""
        for shard in shards:
            self._stages[shard] += 1
            with claimed(self.connection, self.claim):
                self.groups.store_passed(self.connection, shard)
                self._structures.store_passed(self.connection, shard, self._like(shard))

    def begin(self, shard: Shard) -> Standing:
        """It is to be executed now."""
        with claimed(self.connection, self.claim):
            return self.groups.begin(self.connection, shard)

    def does(self, shard: Shard) -> None:
        """All of it is executed."""
        assert self.begin(shard) is Standing.COMPLETE
        self.executes(shard)

    def members(self) -> dict[str, tuple[int, int]]:
        """How far each shard is."""
        found = self.groups.group(self.connection, T).members
        return {each.table.table: (each.passed, each.ready) for each in found}

    def alters(self, text: str, *values: object) -> None:
        """Something else is written into the group's tables."""
        with claimed(self.connection, self.claim):
            self.connection.execute(text, values)


@contextmanager
def staged(
    target: ThrowawayServer, schema: SchemaFactory, ours: Sequence[Shard], theirs: Sequence[Shard]
) -> Iterator[tuple[Staged, Staged]]:
    """Both sources, and with which shards they begin."""
    task = schema(target)
    one, two = Staged(target, task, "s1"), Staged(target, task, "s2")
    try:
        one.begins(ours)
        two.begins(theirs)
        yield one, two
    finally:
        one.connection.close()
        two.connection.close()


def test_ddls_that_a_shard_is_beyond_are_put_before_its_own(target: ThrowawayServer, schema: SchemaFactory) -> None:
    with staged(target, schema, [OLD_A], [OLD_B]) as (one, two):
        two.made(NEW, 2)
        assert two.comes(NEW, THIRD) is Standing.OWN_MISSING  # nobody is at the first one
        for text in (FIRST, SECOND):
            assert one.comes(OLD_A, text) is Standing.OTHERS_MISSING
            assert two.comes(OLD_B, text) is Standing.COMPLETE
            two.does(OLD_B)
            one.follows(OLD_A)
            two.follows(OLD_B)
        assert one.comes(OLD_A, THIRD) is Standing.OTHERS_MISSING
        assert two.comes(OLD_B, THIRD) is Standing.COMPLETE
        two.does(OLD_B)
        one.follows(OLD_A)
        two.follows(OLD_B, NEW)
        assert one.members() == {"a": (3, 3), "b": (3, 3), "new": (3, 3)}


def test_the_second_ddl_that_it_is_beyond_comes_when_it_has_stepped_over_the_first(
    target: ThrowawayServer, schema: SchemaFactory
) -> None:
    with staged(target, schema, [OLD_A], [OLD_B]) as (one, two):
        two.made(NEW, 2)
        two.comes(OLD_B, FIRST)
        two.comes(NEW, THIRD)  # the second place is not its own
        assert one.comes(OLD_A, FIRST) is Standing.COMPLETE
        one.does(OLD_A)
        one.follows(OLD_A)
        assert one.comes(OLD_A, SECOND) is Standing.OTHERS_MISSING
        two.follows(OLD_B)
        assert two.comes(OLD_B, SECOND) is Standing.COMPLETE


def test_a_shard_steps_over_all_that_it_is_beyond(target: ThrowawayServer, schema: SchemaFactory) -> None:
    with staged(target, schema, [OLD_A], [OLD_B]) as (one, two):
        two.made(NEW, 1)
        two.made(NEWER, 2)
        one.comes(OLD_A, FIRST)
        two.comes(NEW, SECOND)
        two.comes(NEWER, THIRD)  # two are open, and nobody has executed the first one
        assert one.members() == {"a": (0, 1), "b": (0, 0), "new": (1, 2), "newer": (2, 3)}


def test_a_look_takes_no_other_ddl_for_its_own(
    target: ThrowawayServer, schema: SchemaFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with staged(target, schema, [OLD_A], []) as (one, two):
        two.made(NEW, 1)
        two.comes(NEW, SECOND)
        group = two.groups.group

        def reads(connection: TargetConnection, table: TableName, executed: int | None = None) -> ShardGroup:
            one.comes(OLD_A, FIRST)
            one.does(OLD_A)
            return group(connection, table, executed)

        monkeypatch.setattr(two.groups, "group", reads)
        assert two.groups.look(two.connection, NEW) is Standing.OTHERS_MISSING


def test_a_table_like_one_that_is_held_moves_with_it(target: ThrowawayServer, schema: SchemaFactory) -> None:
    with staged(target, schema, [OLD_A], []) as (one, two):
        two.made(NEW, 1)
        two.comes(NEW, SECOND)
        with claimed(two.connection, two.claim):
            two.groups.like(two.connection, NEWER, NEW)
        one.comes(OLD_A, FIRST)
        assert one.members() == {"a": (0, 1), "new": (1, 2), "newer": (1, 2)}


def test_all_that_is_open_gets_the_next_numbers(target: ThrowawayServer, schema: SchemaFactory) -> None:
    with staged(target, schema, [OLD_A], [OLD_B]) as (one, two):
        two.made(NEW, 1)
        two.made(NEWER, 2)
        two.comes(NEW, SECOND)
        two.comes(NEWER, THIRD)
        one.comes(OLD_A, FIRST)
        assert one.members() == {"a": (0, 1), "b": (0, 0), "new": (1, 2), "newer": (2, 3)}
        forms = two.connection.query(f"SELECT number, form FROM {ShardTables.of(two.key).ddl.sql} ORDER BY number")
        assert [(int(number), str(form)) for number, form in forms] == [(1, FIRST), (2, SECOND), (3, THIRD)]


def test_a_shard_that_comes_to_what_it_seems_to_be_beyond_stays_there(
    target: ThrowawayServer, schema: SchemaFactory
) -> None:
    """It has a third DEFAULT."""
    key = Index("PRIMARY", "primary", (IndexPart("id"),))
    before, after, third = (
        TableSchema(T, (COLUMNS[0], replace(COLUMNS[1], default=default)), (key,)) for default in (None, "5", "9")
    )
    with staged(target, schema, [OLD_A], [OLD_B]) as (one, two):
        for side, shard, structure in ((one, OLD_A, before), (two, OLD_B, third)):
            side.is_like(shard, structure)
        one.reaches(OLD_A, THIRD, after, before)
        assert one.groups.look(one.connection, OLD_A) is Standing.COMPLETE  # B is beyond it
        assert two.reaches(OLD_B, THIRD, after, before) is Standing.COMPLETE
        assert one.members() == {"a": (0, 1), "b": (0, 1)}


def test_a_table_that_waits_at_its_creation_is_at_no_statement(target: ThrowawayServer, schema: SchemaFactory) -> None:
    with staged(target, schema, [OLD_A], []) as (one, two):
        two.made(NEW, 1)
        two.comes(NEW, SECOND)
        two.waits(NEWER, 1)
        one.comes(OLD_A, FIRST)
        assert one.members() == {"a": (0, 1), "new": (1, 2), "newer": (0, 1)}


def test_what_nobody_is_at_any_more_is_forgotten(target: ThrowawayServer, schema: SchemaFactory) -> None:
    with staged(target, schema, [OLD_A], [OLD_B]) as (one, two):
        two.made(NEW, 2)
        two.comes(NEW, THIRD)
        two.waits(NEWER, 1)
        give_up(two.connection, two.key, NEW.table)
        assert two.groups.look(two.connection, NEWER) is Standing.AGAIN  # what would have let it in does not come
        assert one.comes(OLD_A, FIRST) is Standing.OTHERS_MISSING


def test_a_later_ddl_that_nobody_is_at_any_more_is_forgotten_alone(
    target: ThrowawayServer, schema: SchemaFactory
) -> None:
    with staged(target, schema, [OLD_A], [OLD_B]) as (one, two):
        two.made(NEW, 1)
        one.comes(OLD_A, FIRST)
        two.comes(NEW, SECOND)
        give_up(two.connection, two.key, NEW.table)
        forms = two.connection.query(f"SELECT form FROM {ShardTables.of(two.key).ddl.sql}")
        assert [str(form) for (form,) in forms] == [FIRST]


def test_a_shard_that_was_there_with_another_statement_puts_nothing_before(
    target: ThrowawayServer, schema: SchemaFactory
) -> None:
    """A person has replaced its statement."""
    with staged(target, schema, [OLD_A], [OLD_B]) as (one, two):
        two.made(NEW, 2)
        two.comes(NEW, THIRD)
        one.comes(OLD_A, THIRD)
        with pytest.raises(DMError) as caught:
            one.comes(OLD_A, FIRST)
        assert caught.value.name == "shard-ddl-conflict"


@pytest.mark.parametrize("is_begun", [False, True])
def test_what_only_a_source_came_with_that_is_no_more_is_left_out(
    target: ThrowawayServer, schema: SchemaFactory, is_begun: bool
) -> None:
    with staged(target, schema, [OLD_A], []) as (one, two):
        two.made(NEW, 1)
        two.comes(NEW, SECOND)
        one.comes(OLD_A, FIRST)
        if is_begun:
            assert one.begin(OLD_A) is Standing.COMPLETE
        give_up(one.connection, one.key, OLD_A.table)
        if is_begun:  # the target may have a part of it
            with pytest.raises(DMError) as caught:
                two.does(NEW)
            assert caught.value.name == "shard-ddl-out-of-turn"
            return
        two.does(NEW)
        two.follows(NEW)
        assert two.groups.group(two.connection, T).executed == 2
        assert two.members() == {"new": (2, 2)}
        assert two.connection.query(f"SELECT * FROM {ShardTables.of(two.key).ddl.sql}") == []


def _begins(two: Staged) -> None:
    two.alters(f"UPDATE {ShardTables.of(two.key).ddl.sql} SET state = 'begun'")


def _skips(two: Staged) -> None:
    two.alters(f"UPDATE {ShardTables.of(two.key).ddl.sql} SET skipped = 1")


def _waives(two: Staged) -> None:
    two.alters(f"UPDATE {ShardTables.of(two.key).table.sql} SET waived = 1 WHERE s_table = 'b'")


def _is_not_beyond(two: Staged) -> None:
    structure = schema_to_json(replace(AT_TARGET, name=NEW.table))
    two.alters(f"UPDATE {ShardTables.of(two.key).table.sql} SET structure = %s WHERE s_table = 'new'", structure)


def _is_unknown(two: Staged) -> None:
    two.alters(f"UPDATE {ShardTables.of(two.key).table.sql} SET structure = NULL WHERE s_table = 'new'")


@pytest.mark.parametrize("changes", [_begins, _skips, _waives, _is_not_beyond, _is_unknown])
def test_a_number_that_is_decided_about_is_kept(
    target: ThrowawayServer, schema: SchemaFactory, changes: Callable[[Staged], None]
) -> None:
    with staged(target, schema, [OLD_A], [OLD_B]) as (one, two):
        two.made(NEW, 2)
        two.comes(NEW, THIRD)
        changes(two)
        with pytest.raises(DMError) as caught:
            one.comes(OLD_A, FIRST)
        assert caught.value.name == "shard-ddl-conflict"
