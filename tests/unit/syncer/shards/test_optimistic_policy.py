"""Optimistic shard merge: what the target gets of a shard's DDL, held against an oracle that keeps every value."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.draft import OperationRefused
from dm.mysql.sql.split import split
from dm.syncer.shards.optimistic_policy import Verdict, alone, decide
from tests.unit.syncer.shards.shard_merge import CONTEXT, FIRST, TARGET, WORDS, Merge, Side, altered, table

STATEMENTS = (
    "ALTER TABLE @ ADD COLUMN a INT NOT NULL AFTER v",
    "ALTER TABLE @ ADD COLUMN b VARCHAR(5) DEFAULT 'q', ADD INDEX by_b (b)",
    "ALTER TABLE @ MODIFY v BIGINT NOT NULL",
    "ALTER TABLE @ ADD COLUMN e ENUM('p', 'q') NOT NULL FIRST, DROP COLUMN n",
    "ALTER TABLE @ MODIFY c VARCHAR(30) DEFAULT 'x'",
    "ALTER TABLE @ DROP INDEX by_c",
    "ALTER TABLE @ MODIFY v BIGINT NULL",
    "ALTER TABLE @ ADD COLUMN w DECIMAL(10, 2) NOT NULL DEFAULT 1.5",
    "CREATE INDEX by_w ON @ (w)",
    "ALTER TABLE @ DROP INDEX by_b, MODIFY w DECIMAL(14, 4) NOT NULL DEFAULT 1.5",
    "ALTER TABLE @ DROP COLUMN v",
    "ALTER TABLE @ MODIFY a BIGINT NOT NULL COMMENT 'wide'",
    "ALTER TABLE @ DROP COLUMN b",
)


def order_of(steps: Iterable[int], shards: Sequence[str]) -> list[str]:
    """Whose turn it is; each has as many turns as there are statements."""
    left = dict.fromkeys(shards, len(STATEMENTS))
    found = []
    for step in steps:
        there = [name for name in shards if left[name]]
        if not there:
            break
        found.append(there[step % len(there)])
        left[found[-1]] -= 1
    return found + [name for name in shards for _ in range(left[name])]


@pytest.mark.parametrize("seed", range(5))
def test_shards_that_run_through_the_same_statements_at_their_own_pace_never_wait(seed: int) -> None:
    drawn = random.Random(seed)
    shards = "abcd"[: 1 + seed % 4]
    steps = [drawn.randrange(24) for _ in range(40)]
    merge, done = Merge(shards), dict.fromkeys(shards, 0)
    for name in order_of(steps, shards):
        merge.row(name)
        verdict = merge.run(name, STATEMENTS[done[name]])
        assert verdict.gate == ""
        done[name] += 1
        merge.row(name)
        merge.check()
    merge.check_same()


PIECES = (
    "ADD COLUMN x INT", "ADD COLUMN x INT NOT NULL", "ADD COLUMN x INT DEFAULT 3", "ADD COLUMN x BIGINT NOT NULL",
    "DROP COLUMN x", "MODIFY x BIGINT", "MODIFY x INT NOT NULL", "MODIFY x BIGINT NOT NULL", "MODIFY x INT",
    "MODIFY x BIGINT DEFAULT 3", "ADD INDEX by_x (x)", "DROP INDEX by_x", "DROP COLUMN v", "ADD COLUMN v INT NOT NULL",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_whatever_shards_do_the_target_has_their_rows_or_it_waits_or_pauses(seed: int) -> None:
    drawn = random.Random(seed)
    merge = Merge("abc")
    seen = set[str]()
    for _ in range(40):
        name, text = drawn.choice("abc"), f"ALTER TABLE @ {drawn.choice(PIECES)}"
        try:
            altered(merge.shards[name].schema, text.replace("@", f"d.{name}"))
        except OperationRefused:  # by the source, so it is in no binlog
            continue
        for each in "abc":
            merge.row(each, "7")
        try:
            seen.add("gate" if merge.run(name, text).gate else "passes")
        except DMError as error:
            seen.add(error.name)
        merge.check()
    assert "passes" in seen
    assert seen <= {"passes", "gate", "shard-structures-differ", "shard-column-kept"}


def verdict_of(text: str, *others: str, target: str | None = None, own: str = FIRST) -> Verdict:
    """What becomes of a statement of shard a, where others have these columns."""
    merge = Merge("a" + "bcd"[: len(others)], own)
    for name, columns in zip("bcd", others, strict=False):
        merge.shards[name] = Side(table(TableName("d", name), columns))
    if target is not None:
        merge.target = Side(table(TARGET, target))
    return merge.run("a", text)


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE @ ADD UNIQUE (v)",
        "ALTER TABLE @ DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)",
        "ALTER TABLE @ MODIFY id BIGINT",
        "ALTER TABLE @ RENAME COLUMN v TO w",
        "ALTER TABLE @ CHANGE v w INT NOT NULL",
        "ALTER TABLE @ MODIFY v SMALLINT NOT NULL",
        "ALTER TABLE @ MODIFY v VARCHAR(20) NOT NULL",
        "ALTER TABLE @ MODIFY c VARCHAR(20) DEFAULT 'y'",
        "ALTER TABLE @ ALTER COLUMN c SET DEFAULT 'y'",
        "ALTER TABLE @ MODIFY n BIGINT NOT NULL",
        "ALTER TABLE @ MODIFY n INT AFTER id",
        "ALTER TABLE @ DROP COLUMN c",
        "ALTER TABLE @ ADD COLUMN g INT AS (v + 1)",
        "ALTER TABLE @ ADD COLUMN at TIMESTAMP DEFAULT CURRENT_TIMESTAMP",
        "ALTER TABLE @ ADD COLUMN at DATE NOT NULL",
        "ALTER TABLE @ ADD COLUMN u INT UNIQUE",
        "ALTER TABLE @ ADD CHECK (v > 0)",
        "ALTER TABLE @ ADD COLUMN fine INT, ADD UNIQUE (v)",
        "ALTER TABLE @ CONVERT TO CHARACTER SET latin1",
        "ALTER TABLE @ COMMENT 'said'",
        "ALTER TABLE @ ADD INDEX ((v + 1))",
    ],
)
def test_statements_that_all_shards_have_to_come_to(text: str) -> None:
    assert verdict_of(text, FIRST).gate != ""


RANGES = tuple(f"PARTITION p{number} VALUES LESS THAN ({number}00)" for number in range(1, 6))


@pytest.mark.parametrize("seed", range(4))
def test_partitions_of_a_range_come_with_the_first_shard_that_adds_them(seed: int) -> None:
    """Shards add the same ones, some in one statement and some one by one, among statements on columns."""
    drawn = random.Random(seed)
    merge, left = Merge("abc", partitions=("p0",)), dict.fromkeys("abc", RANGES)
    while any(left.values()):
        name = drawn.choice([name for name, ranges in left.items() if ranges])
        many = drawn.randint(1, len(left[name]))
        head = drawn.choice(
            ("ADD PARTITION", "add partition if not exists", "ALGORITHM = INPLACE, ADD PARTITION LOCAL")
        )
        assert not merge.run(name, f"ALTER TABLE @ {head} ({', '.join(left[name][:many])})").gate
        left[name] = left[name][many:]
        merge.row(name)
        merge.check()
    for name in "abc":
        assert not merge.run(name, "ALTER TABLE @ ADD COLUMN x INT NOT NULL, MODIFY v BIGINT NOT NULL").gate
    merge.check_same()
    assert merge.target.schema.partitions == ("p0", "p1", "p2", "p3", "p4", "p5")


def test_the_target_gets_just_the_partitions_that_it_lacks() -> None:
    merge, both = (
        Merge("ab", partitions=("p0",)),
        "(PARTITION P1 VALUES IN (1, 2) COMMENT 'a, b', PARTITION p2 VALUES IN (3))",
    )
    merge.run("a", "ALTER TABLE @ ADD PARTITION (PARTITION p1 VALUES IN (1, 2))")
    assert merge.run("b", f"ALTER TABLE @ ADD PARTITION {both}").statements == (
        ("ALTER TABLE d.b ADD PARTITION (PARTITION p2 VALUES IN (3))",),
    )
    assert merge.run("a", "ALTER TABLE @ ADD PARTITION (PARTITION p2 VALUES IN (3))").statements == ((),)


def test_a_target_without_partitions_takes_all_rows_as_it_is() -> None:
    merge = Merge("ab", partitions=("p0",))
    merge.target = Side(table(TARGET))
    assert merge.run("a", f"ALTER TABLE @ ADD PARTITION ({RANGES[0]})") == Verdict(statements=((),))


@pytest.mark.parametrize(
    "what",
    [
        "DROP PARTITION p0",
        "TRUNCATE PARTITION p0",
        "REORGANIZE PARTITION p0 INTO (PARTITION p0 VALUES LESS THAN (5), PARTITION p9 VALUES LESS THAN (10))",
        "EXCHANGE PARTITION p0 WITH TABLE other",
        "REBUILD PARTITION p0",
        "COALESCE PARTITION 1",
        "ADD PARTITION PARTITIONS 2",  # of a HASH: rows move
        "ADD PARTITION (PARTITION p9)",
        "ADD PARTITION (PARTITION p9 HISTORY)",
        "PARTITION BY HASH (id) PARTITIONS 2",
        "ADD COLUMN x INT PARTITION BY HASH (id) PARTITIONS 2",
        "REMOVE PARTITIONING",
    ],
)
def test_other_statements_on_partitions_wait_for_all_shards(what: str) -> None:
    assert Merge("ab", partitions=("p0", "p1")).run("a", f"ALTER TABLE @ {what}").gate != ""


def test_partitions_of_a_table_without_a_key_wait_as_well() -> None:
    merge = Merge("ab", "id INT, v INT", ("p0",))
    assert merge.run("a", f"ALTER TABLE @ ADD PARTITION ({RANGES[0]})").gate == "the target has no key for its rows"


@pytest.mark.parametrize(
    ("own", "target"),
    [
        ("id INT, v INT", "id INT, v INT"),
        ("id INT PRIMARY KEY, v INT", "id INT, v INT, KEY (id)"),  # made by hand, since shards have the same keys
        ("id INT PRIMARY KEY, v INT", "id INT, v INT, UNIQUE (v)"),  # NULL may be there twice
        ("id INT PRIMARY KEY, v INT", "id INT, v INT, region INT DEFAULT 0, PRIMARY KEY (id, region)"),
    ],
)
def test_a_shard_whose_rows_the_target_has_no_key_for_waits_with_everything(own: str, target: str) -> None:
    verdict = verdict_of("ALTER TABLE @ ADD COLUMN x INT", own, own=own, target=target)
    assert verdict.gate == "the target has no key for its rows"


def test_a_shard_without_a_key_goes_on_where_the_target_has_one() -> None:
    target = "id INT PRIMARY KEY, v INT"
    assert not verdict_of("ALTER TABLE @ ADD COLUMN x INT", target, own="id INT, v INT", target=target).gate


def test_columns_of_a_key_that_only_the_target_has_wait() -> None:
    own, target = "id INT PRIMARY KEY, region INT, v INT", "id INT, region INT, v INT, PRIMARY KEY (region, id)"
    for what in ("MODIFY region BIGINT", "DROP COLUMN region"):
        assert verdict_of(f"ALTER TABLE @ {what}", own, own=own, target=target).gate
    assert not verdict_of("ALTER TABLE @ DROP COLUMN v", own, own=own, target=target).gate


def test_extracted_columns_complete_the_targets_key() -> None:
    own, key = "id INT PRIMARY KEY, v INT", "id INT, v INT, shard VARCHAR(9), PRIMARY KEY (id, shard)"
    merge = Merge("a", own)
    merge.target = Side(table(TARGET, key))
    pieces = split("ALTER TABLE d.a ADD COLUMN x INT", CONTEXT)
    for extracted, waits in ((frozenset({"shard"}), False), (frozenset[str](), True)):
        around = replace(merge.around("a"), extracted=extracted)
        assert bool(decide(pieces, merge.shards["a"].schema, around, lambda _: WORDS).gate) is waits


@pytest.mark.parametrize(
    ("text", "other", "why"),
    [
        ("ADD COLUMN x INT", f"{FIRST}, x VARCHAR(3)", "does not hold all values"),
        ("ADD COLUMN x BIGINT", f"{FIRST}, x INT", "does not hold all values"),
        ("ADD COLUMN x INT DEFAULT 3", f"{FIRST}, x INT DEFAULT 4", "another value"),
        ("ADD COLUMN x INT NOT NULL", f"{FIRST}, x INT", "another value"),
        ("ADD COLUMN x INT DEFAULT 3", f"{FIRST}, x INT NOT NULL DEFAULT 3", "is NOT NULL"),
        ("MODIFY c VARCHAR(20) DEFAULT 'x'", FIRST.replace("VARCHAR(10)", "CHAR(30)"), "does not hold|neither type"),
    ],
)
def test_structures_that_no_table_can_have_at_once_pause(text: str, other: str, why: str) -> None:
    with pytest.raises(DMError, match=why) as caught:
        verdict_of(f"ALTER TABLE @ {text}", other, target=other)
    assert caught.value.name == "shard-structures-differ"


def test_the_words_of_the_statement_stay_but_for_what_makes_the_column_optional() -> None:
    verdict = verdict_of("ALTER TABLE @ ADD COLUMN x INT NOT NULL COMMENT 'said' AFTER id", FIRST)
    assert verdict.statements == (("ALTER TABLE d.a ADD COLUMN x INT NOT NULL COMMENT 'said' DEFAULT 0 AFTER id",),)
    assert verdict.loose == {"x"}
    nullable = FIRST.replace("v INT NOT NULL", "v INT")
    widened = verdict_of("ALTER TABLE @ MODIFY v BIGINT NOT NULL", nullable, target=nullable)
    assert widened.statements == (("ALTER TABLE d.a MODIFY v BIGINT NULL",),)


def test_the_last_shard_takes_the_default_away_that_only_the_others_needed() -> None:
    merge = Merge("ab")
    merge.run("a", "ALTER TABLE @ ADD COLUMN x INT NOT NULL")
    verdict = merge.run("b", "ALTER TABLE @ ADD COLUMN x INT NOT NULL")
    assert verdict.statements == ((),)
    assert verdict.narrowing == ("ALTER TABLE `d`.`b` ALTER COLUMN `x` DROP DEFAULT",)
    merge.check_same()


def test_a_column_that_some_have_dropped_comes_back_only_when_all_have() -> None:
    merge = Merge("ab")
    merge.row("a")
    merge.run("a", "ALTER TABLE @ DROP COLUMN n")
    with pytest.raises(DMError) as caught:
        merge.run("a", "ALTER TABLE @ ADD COLUMN n INT")
    assert caught.value.name == "shard-column-kept"
    merge.run("b", "ALTER TABLE @ DROP COLUMN n")
    merge.run("b", "ALTER TABLE @ ADD COLUMN n INT DEFAULT 4")
    merge.run("a", "ALTER TABLE @ ADD COLUMN n INT DEFAULT 4")
    merge.check()
    merge.check_same()


def test_what_a_shard_that_left_had_alone_goes_with_the_next_statement() -> None:
    merge = Merge("ab")
    merge.run("a", "ALTER TABLE @ DROP COLUMN n")
    del merge.shards["b"]
    verdict = merge.run("a", "ALTER TABLE @ ADD COLUMN y INT")
    assert verdict.narrowing == ("ALTER TABLE `d`.`a` DROP COLUMN `n`",)
    merge.check_same()


@pytest.mark.parametrize("seed", range(8))
def test_a_shard_that_is_dropped_leaves_nothing_behind_that_only_it_needed(seed: int) -> None:
    drawn = random.Random(seed)
    shards = "abcd"[: 2 + seed % 3]
    order = order_of((drawn.randrange(24) for _ in range(40)), shards)
    leaving, at = drawn.choice(shards), drawn.randrange(len(order))
    merge, done = Merge(shards), dict.fromkeys(shards, 0)
    for number, name in enumerate(order):
        if number == at:
            merge.leave(leaving)
        if name in merge.shards:
            merge.row(name)
            assert merge.run(name, STATEMENTS[done[name]]).gate == ""
            done[name] += 1
        merge.check()
    merge.check_same()


def test_a_shard_that_all_others_are_ahead_of_waits_for_nobody() -> None:
    merge = Merge("ab", f"{FIRST}, KEY by_n (n)")
    merge.row("a")
    assert merge.run("b", "ALTER TABLE @ DROP COLUMN n").gate
    for part in ("DROP INDEX by_n", "DROP COLUMN n"):
        assert not merge.run("a", f"ALTER TABLE @ {part}").gate
    pieces = split("ALTER TABLE d.b DROP COLUMN n", CONTEXT)
    verdict = alone(pieces, merge.shards["b"].schema, merge.around("b"), lambda _: WORDS)
    assert verdict is not None
    assert verdict.statements == (("ALTER TABLE d.b DROP COLUMN n",),)
    assert alone(pieces, merge.shards["b"].schema, Merge("ab").around("b"), lambda _: WORDS) is None
    assert alone(pieces, merge.shards["b"].schema, Merge("b").around("b"), lambda _: WORDS) is None


def test_rows_are_looked_for_by_all_values_where_a_filled_column_of_the_key_may_be_null() -> None:
    """As the plan of the rows does it: so all shards have to come to the statement."""
    merge = Merge("ab", f"{FIRST}, KEY by_n (n)")
    for part in ("DROP INDEX by_n", "DROP COLUMN n"):
        merge.run("a", f"ALTER TABLE @ {part}")
    pieces = split("ALTER TABLE d.b DROP COLUMN n", CONTEXT)
    for null, waits in (("NOT NULL", False), ("NULL", True)):
        key = f"{FIRST.replace('PRIMARY KEY', 'NOT NULL')}, shard VARCHAR(9) {null}, UNIQUE (id, shard)"
        around = replace(merge.around("b"), target=table(TARGET, key), extracted=frozenset({"shard"}))
        assert (alone(pieces, merge.shards["b"].schema, around, lambda _: WORDS) is None) is waits


def test_the_last_shard_leaves_the_target_as_it_is() -> None:
    assert Merge("a").leave("a").narrowing == ()
