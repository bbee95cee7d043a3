"""A shard that was made further on comes to its next DDL first: the DDLs that it is beyond get numbers before it.

The statements of `dm.progress` run on SQLite, which takes nearly all their words.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import pytest

from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.progress import shard_tables
from dm.progress.shard_group import Group, GroupDdl, Shard, Standing
from dm.progress.shard_groups import ShardGroups
from dm.progress.shard_structures import ShardStructures
from dm.progress.shard_tables import ShardTables
from dm.progress.tables import SubtaskKey
from dm.schema.serial import schema_to_json
from dm.schema.table import Column, Index, IndexPart, TableSchema

T = TableName("db", "t")
AT_TARGET = TableSchema(T, (Column("id", "int"), Column("v", "int")))
OLD_A, OLD_B, NEW, NEWER = (Shard(TableName("db", name), T) for name in ("a", "b", "new", "newer"))
FIRST, SECOND, THIRD = "add index i", "add index j", "set default"
_WORDS = {
    " FOR UPDATE": "",
    "INSERT IGNORE": "INSERT OR IGNORE",
    "ON DUPLICATE KEY UPDATE": "ON CONFLICT DO UPDATE SET",
    "GREATEST(": "MAX(",
    "LEAST(": "MIN(",
    "IF(": "IIF(",
    "%s": "?",
}


class LikeTarget:
    """The target's tables of a task in memory."""

    def __init__(self, tables: ShardTables) -> None:
        self._base = sqlite3.connect(":memory:", isolation_level=None)
        self._base.execute(f"ATTACH ':memory:' AS {tables.group.schema}")
        made = ("source", "group", "table", "ddl")
        for table, name in zip((tables.source, tables.group, tables.table, tables.ddl), made, strict=True):
            definition = str(getattr(shard_tables, f"_{name.upper()}"))
            definition = re.sub(r" ON UPDATE \w+|    KEY .*\n|ENGINE.*", "", definition).replace("),\n)", ")\n)")
            self._base.execute(definition.format(table=table.sql, charset=""))

    def query(self, text: str, values: Sequence[object] = ()) -> list[tuple[object, ...]]:
        """The rows."""
        for theirs, ours in _WORDS.items():
            text = text.replace(theirs, ours)
        return list(self._base.execute(text, values))

    execute = query


class Side:
    """One source."""

    def __init__(self, like: LikeTarget, source: str, tables: Sequence[Shard]) -> None:
        self.key = SubtaskKey("meta", "task", source)
        self.groups, self._structures = ShardGroups(self.key), ShardStructures(self.key)
        self._connection = cast(TargetConnection, like)
        self._stages = dict.fromkeys(tables, 0)
        self.groups.join(self._connection, tables, lambda _: None)
        self._structures.learn(self._connection, [self._like(shard) for shard in tables])

    def _like(self, shard: Shard) -> TableSchema:
        stage = self._stages[shard]
        indexes = [Index(name, "index", (IndexPart(on),)) for name, on in (("i", "id"), ("j", "v"))]
        default = "5" if stage > 2 else None
        columns = (Column("id", "int"), replace(Column("v", "int"), default=default))
        return TableSchema(shard.table, columns, tuple(indexes[:stage]))

    def made(self, shard: Shard, stage: int) -> None:
        """A table is created behind so many statements."""
        self._stages[shard] = stage
        self.groups.enter(self._connection, shard)
        self._structures.learn(self._connection, [self._like(shard)])

    def arrive(self, shard: Shard, text: str) -> Standing:
        """A shard is at its next statement."""
        self._stages[shard] += 1
        after = self._like(shard)
        self._stages[shard] -= 1
        standing = self.groups.arrive(self._connection, GroupDdl(shard, text, (text,)), after, AT_TARGET)
        self._structures.arrived(self._connection, shard, after, AT_TARGET)
        return standing

    def passes(self, *shards: Shard) -> None:
        """Shards are behind it."""
        for shard in shards:
            self._stages[shard] += 1
            self.groups.passed(self._connection, shard)
            self._structures.passed(self._connection, shard, self._like(shard))

    def executes(self, shard: Shard) -> None:
        """All of it is done."""
        assert self.groups.begin(self._connection, shard) is Standing.COMPLETE
        self.groups.executed(self._connection, shard, None)


@pytest.fixture
def like() -> LikeTarget:
    """The group's tables, with the group in them."""
    tables = ShardTables.of(SubtaskKey("meta", "task", "one"))
    made = LikeTarget(tables)
    made.execute(f"INSERT INTO {tables.group.sql} (t_schema, t_table) VALUES (%s, %s)", tuple(T))
    return made


def test_ddls_that_a_shard_is_beyond_are_put_before_its_own(like: LikeTarget) -> None:
    one, two = Side(like, "one", [OLD_A]), Side(like, "two", [OLD_B])
    two.made(NEW, 2)
    assert two.arrive(NEW, THIRD) is Standing.OWN_MISSING  # nobody is at the first one
    for text in (FIRST, SECOND):
        assert one.arrive(OLD_A, text) is Standing.OTHERS_MISSING
        assert two.arrive(OLD_B, text) is Standing.COMPLETE
        two.executes(OLD_B)
        one.passes(OLD_A)
        two.passes(OLD_B)
    assert one.arrive(OLD_A, THIRD) is Standing.OTHERS_MISSING
    assert two.arrive(OLD_B, THIRD) is Standing.COMPLETE
    two.executes(OLD_B)
    one.passes(OLD_A)
    two.passes(OLD_B, NEW)
    group = one.groups.group(cast(TargetConnection, like), T)
    assert [(each.passed, each.ready) for each in group.members] == [(3, 3)] * 3


def test_the_second_ddl_that_it_is_beyond_comes_when_it_has_stepped_over_the_first(like: LikeTarget) -> None:
    one, two = Side(like, "one", [OLD_A]), Side(like, "two", [OLD_B])
    two.made(NEW, 2)
    two.arrive(OLD_B, FIRST)
    two.arrive(NEW, THIRD)  # the second place is not its own
    assert one.arrive(OLD_A, FIRST) is Standing.COMPLETE
    one.executes(OLD_A)
    one.passes(OLD_A)
    assert one.arrive(OLD_A, SECOND) is Standing.OTHERS_MISSING
    two.passes(OLD_B)
    assert two.arrive(OLD_B, SECOND) is Standing.COMPLETE


def test_a_shard_steps_over_all_that_it_is_beyond(like: LikeTarget) -> None:
    one, two = Side(like, "one", [OLD_A]), Side(like, "two", [OLD_B])
    two.made(NEW, 1)
    two.made(NEWER, 2)
    one.arrive(OLD_A, FIRST)
    two.arrive(NEW, SECOND)
    two.arrive(NEWER, THIRD)  # two are open, and nobody has executed the first one
    members = one.groups.group(cast(TargetConnection, like), T).members
    assert {each.table.table: (each.passed, each.ready) for each in members} == {
        "a": (0, 1),
        "b": (0, 0),
        "new": (1, 2),
        "newer": (2, 3),
    }


def test_a_look_takes_no_other_ddl_for_its_own(like: LikeTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = Side(like, "one", [OLD_A]), Side(like, "two", [])
    two.made(NEW, 1)
    two.arrive(NEW, SECOND)
    group = two.groups.group

    def reads(connection: TargetConnection, target: TableName, executed: int | None = None) -> Group:
        one.arrive(OLD_A, FIRST)
        one.executes(OLD_A)
        return group(connection, target, executed)

    monkeypatch.setattr(two.groups, "group", reads)
    assert two.groups.look(cast(TargetConnection, like), NEW) is Standing.OTHERS_MISSING


def test_a_table_like_one_that_is_held_moves_with_it(like: LikeTarget) -> None:
    one, two = Side(like, "one", [OLD_A]), Side(like, "two", [])
    two.made(NEW, 1)
    two.arrive(NEW, SECOND)
    two.groups.like(cast(TargetConnection, like), NEWER, NEW)
    one.arrive(OLD_A, FIRST)
    members = one.groups.group(cast(TargetConnection, like), T).members
    assert {each.table.table: (each.passed, each.ready) for each in members} == {
        "a": (0, 1),
        "new": (1, 2),
        "newer": (1, 2),
    }


@pytest.mark.parametrize("is_begun", [False, True])
def test_what_only_a_source_came_with_that_is_no_more_is_left_out(like: LikeTarget, is_begun: bool) -> None:
    one, two = Side(like, "one", [OLD_A]), Side(like, "two", [])
    two.made(NEW, 1)
    two.arrive(NEW, SECOND)
    one.arrive(OLD_A, FIRST)
    if is_begun:
        assert one.groups.begin(cast(TargetConnection, like), OLD_A) is Standing.COMPLETE
    one.groups.leave(cast(TargetConnection, like), OLD_A)
    if is_begun:  # the target may have a part of it
        with pytest.raises(DMError) as caught:
            two.executes(NEW)
        assert caught.value.name == "shard-ddl-out-of-turn"
        return
    two.executes(NEW)
    two.passes(NEW)
    group = two.groups.group(cast(TargetConnection, like), T)
    assert (group.executed, [(each.passed, each.ready) for each in group.members]) == (2, [(2, 2)])
    assert like.query(f"SELECT * FROM {ShardTables.of(two.key).ddl.sql}") == []


def _begins(two: Side, like: LikeTarget) -> None:
    like.execute(f"UPDATE {ShardTables.of(two.key).ddl.sql} SET state = 'begun'")


def _skips(two: Side, like: LikeTarget) -> None:
    like.execute(f"UPDATE {ShardTables.of(two.key).ddl.sql} SET skipped = 1")


def _waives(two: Side, like: LikeTarget) -> None:
    like.execute(f"UPDATE {ShardTables.of(two.key).table.sql} SET waived = 1 WHERE s_table = 'b'")


def _is_not_beyond(two: Side, like: LikeTarget) -> None:
    structure = schema_to_json(replace(AT_TARGET, name=NEW.table))
    like.execute(
        f"UPDATE {ShardTables.of(two.key).table.sql} SET structure = %s WHERE s_table = %s", (structure, "new")
    )


@pytest.mark.parametrize("changes", [_begins, _skips, _waives, _is_not_beyond])
def test_a_number_that_is_decided_about_is_kept(like: LikeTarget, changes: Callable[[Side, LikeTarget], None]) -> None:
    one, two = Side(like, "one", [OLD_A]), Side(like, "two", [OLD_B])
    two.made(NEW, 2)
    two.arrive(NEW, THIRD)
    changes(two, like)
    with pytest.raises(DMError) as caught:
        one.arrive(OLD_A, FIRST)
    assert caught.value.name == "shard-ddl-conflict"
