"""Optimistic shard merge: a new shard, and one that waits at its CREATE TABLE until the target takes its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.split import split
from dm.syncer.shards.optimistic_policy import OtherShard, Surrounding, admit, decide
from tests.unit.syncer.shards.shard_merge import CONTEXT, FIRST, TARGET, WORDS, Merge, Side, table


def test_a_new_shard_without_a_key_has_all_columns() -> None:
    around = Merge("ab", "id INT, v INT").around("c")
    admit(table(TableName("d", "c"), "v INT, id INT"), around)
    for columns in ("id INT", "id INT, v SMALLINT"):
        with pytest.raises(DMError) as caught:
            admit(table(TableName("d", "c"), columns), around)
        assert caught.value.name == "shard-structures-differ"


def test_a_new_shard_may_lack_columns_and_must_not_have_others() -> None:
    around = Merge("ab").around("c")
    created = table(TableName("d", "c"), "id INT PRIMARY KEY, c VARCHAR(5)")
    verdict = admit(created, around)
    assert verdict.statements == (("ALTER TABLE `d`.`c` ALTER COLUMN `v` SET DEFAULT 0",),)
    assert verdict.loose == {"v"}
    for columns in ("id INT PRIMARY KEY, v INT, x INT", "id INT PRIMARY KEY, v INT", "id INT, v INT NOT NULL"):
        with pytest.raises(DMError) as caught:
            admit(table(TableName("d", "c"), columns), around)
        assert caught.value.name == "shard-structures-differ"
    with pytest.raises(DMError) as caught:
        admit(table(TableName("d", "c"), "id INT PRIMARY KEY, x INT, y INT"), around)
    assert caught.value.name == "shard-target-behind"
    assert caught.value.retryable
    assert "`x` int, `y` int" in str(caught.value)


@pytest.mark.parametrize(
    ("before", "statement", "theirs"),
    [
        ((), "ADD COLUMN w INT", "w INT"),  # which need not be at the target yet
        (("ADD COLUMN w VARCHAR(10)",), "MODIFY w VARCHAR(20)", "w VARCHAR(30)"),  # the others come to it in steps
    ],
)
def test_columns_of_a_table_that_waits_at_its_create_table_are_no_conflict(
    before: Sequence[str], statement: str, theirs: str
) -> None:
    merge = Merge(["one"])
    for each in before:
        merge.run("one", f"ALTER TABLE d.one {each}")
    (piece,) = split(f"ALTER TABLE d.one {statement}", CONTEXT)
    waits = OtherShard("new", table(TableName("d", "new"), f"{FIRST}, {theirs}"), early=True)
    shard, around = merge.shards["one"].schema, merge.around("one")
    verdict = decide([piece], shard, replace(around, others=(waits,)), lambda _: WORDS)
    assert verdict.statements == ((piece.text,),)
    with pytest.raises(DMError) as caught:
        decide([piece], shard, replace(around, others=(replace(waits, early=False),)), lambda _: WORDS)
    assert caught.value.name == "shard-structures-differ"


def test_a_column_of_a_table_that_waits_at_its_create_table_stays() -> None:
    merge = Merge(["one"])
    merge.run("one", "ALTER TABLE d.one ADD COLUMN w INT")
    waits = OtherShard("new", table(TableName("d", "new"), f"{FIRST}, w INT"), early=True)
    (drop,) = split("ALTER TABLE d.one DROP COLUMN w", CONTEXT)
    verdict = decide([drop], merge.shards["one"].schema, replace(merge.around("one"), others=(waits,)), lambda _: WORDS)
    assert verdict.statements == ((),)
    assert verdict.kept == {"w"}


def test_a_table_that_waits_at_its_creation_keeps_no_index_away() -> None:
    """It may be beyond the statement that drops the index again, and all others come to that one with it."""
    name = TableName("d", "one")
    piece, target, shard = Piece.of("ALTER TABLE d.one ADD INDEX by_n (n)", CONTEXT), table(TARGET), table(name)
    waits = OtherShard("new", table(TableName("d", "new")), early=True)
    for other, added in ((waits, (piece.text,)), (replace(waits, early=False), ())):
        assert decide([piece], shard, Surrounding(target, (other,)), lambda _: WORDS).statements == (added,)


@pytest.mark.parametrize(
    ("created", "target", "fits"),
    [
        # It has no key, and the target's finds its rows.
        ("id INT NOT NULL, v INT", "id INT PRIMARY KEY, v INT", True),
        # The target's table has keys of its own: what goes for the others goes for one like them.
        ("id INT PRIMARY KEY, v INT NOT NULL", "id INT, v INT, PRIMARY KEY (id, v)", True),
        ("id INT PRIMARY KEY, v INT", "id INT NOT NULL, v INT, KEY (id)", True),
        # No key finds its rows, and it lacks a column.
        ("id INT PRIMARY KEY", "id INT, v INT, KEY (id)", False),
        ("id INT PRIMARY KEY", "id INT, v INT DEFAULT 0, PRIMARY KEY (id, v)", False),
        # Keys that nobody has yet.
        ("id INT PRIMARY KEY, v INT, UNIQUE (v)", "id INT PRIMARY KEY, v INT", False),
    ],
)
def test_a_new_shard_has_the_keys_of_the_others_or_of_the_target(created: str, target: str, fits: bool) -> None:
    merge = Merge("ab", "id INT PRIMARY KEY, v INT")
    merge.target = Side(table(TARGET, target))
    around, new = merge.around("c"), table(TableName("d", "c"), created)
    if fits:
        assert admit(new, around).statements == ((),)
        return
    with pytest.raises(DMError) as caught:
        admit(new, around)
    assert caught.value.name == "shard-structures-differ"
