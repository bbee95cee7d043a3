"""The precheck of an optimistic merge: whether the target's table takes the rows of each shard as it is now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from dm.ident import TableName
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.context import SourceContext
from dm.task.precheck.context import Answers, CheckResult
from dm.task.precheck.shards import JoiningShard, joined_shards

TARGET = TableName("db", "t")
CONTEXT = SourceContext("mysql", 80036, "db")
KEY = "id INT PRIMARY KEY"


def table(name: str, body: str) -> TableSchema:
    """A table of the schema `db`."""
    return parse_create_table(f"CREATE TABLE {name} ({body}) CHARSET utf8mb4", CONTEXT)


def shards_of(*bodies: str) -> list[JoiningShard]:
    """A shard of each body, each on a source of its own."""
    return [JoiningShard(f"source-{number}", table(f"s{number}", body)) for number, body in enumerate(bodies)]


def found(shards: Sequence[JoiningShard], there: str | None, *, made: bool = False) -> list[CheckResult]:
    """What is found of shards and the target's table."""
    target = None if there is None else table("t", there)
    return list(joined_shards(Answers("schema_of_shard_tables", "x"), TARGET, shards, target, made=made))


def altered(there: str, instruction: str) -> str:
    """The body of the target's table after an instruction of one ALTER TABLE, played by hand."""
    head, _, change = instruction.partition("ALTER TABLE `db`.`t` ")
    assert head == ""
    verb, _, definition = change.partition(" COLUMN ")
    if verb == "ADD":
        return f"{there}, {definition}"
    name = definition.split()[0].strip("`")
    columns = [part for part in there.split(", ") if not part.startswith(name)]
    if verb == "MODIFY":
        return ", ".join([*columns, definition])
    (old,) = (part for part in there.split(", ") if part.startswith(name))
    return ", ".join([*columns, old + definition.partition("SET")[2]])


def test_a_table_that_takes_all_shards_is_fine() -> None:
    shards = shards_of(f"{KEY}, a INT", f"{KEY}, b VARCHAR(10)", f"{KEY}, a SMALLINT NOT NULL")
    (result,) = found(shards, f"{KEY}, b VARCHAR(20), a BIGINT")
    assert (result.state, result.message) == ("success", "the table takes the rows of 3 shards")


@pytest.mark.parametrize(
    ("shard", "there", "why"),
    [
        (f"{KEY}, a INT", KEY, "it lacks `a` int"),
        (f"{KEY}, a BIGINT", f"{KEY}, a INT", "`a` bigint goes into `a` int"),
        (f"{KEY}, a DECIMAL(10,4)", f"{KEY}, a DECIMAL(12,2)", "`a` decimal(10,4) goes into `a` decimal(12,2)"),
        (f"{KEY}, a INT", f"{KEY}, a INT NOT NULL", "`a` int goes into `a` int NOT NULL"),
        (KEY, f"{KEY}, a INT NOT NULL", "the shard has no value for `a` int NOT NULL"),
        (KEY, f"{KEY}, a DATE NOT NULL", "the shard has no value for `a` date NOT NULL"),
    ],
)
def test_a_table_that_does_not_take_a_shards_rows_is_a_failure(shard: str, there: str, why: str) -> None:
    shards = shards_of(there, shard)
    (result,) = found(shards, there)
    assert result.state == "failure"
    assert result.message == f"the target's table and the rows of db.s1 of source-1: {why}"
    if "decimal" in why:
        assert "a type that holds both" in result.instruction
        return
    (after,) = found(shards, altered(there, result.instruction))
    assert after.state == "success", f"{result.instruction} does not help: {after}"


def test_all_that_is_wrong_with_a_shard_is_said_at_once() -> None:
    (result,) = found(shards_of(KEY, f"{KEY}, a INT, b INT"), f"{KEY}, c INT NOT NULL, a TINYINT")[1:]
    for why in ("it lacks `b` int", "`a` int goes into `a` tinyint", "no value for `c` int NOT NULL"):
        assert why in result.message
    assert result.instruction.count("ALTER TABLE `db`.`t`") == 3


@pytest.mark.parametrize(
    ("shard", "there", "why"),
    [
        (f"{KEY}, a INT UNSIGNED", f"{KEY}, a BIGINT", "of another type"),
        (KEY, "id INT, PRIMARY KEY (id), UNIQUE KEY more (id)", ""),
        ("id INT, k INT NOT NULL, PRIMARY KEY (id, k)", "id INT PRIMARY KEY, k INT NOT NULL", "the key PRIMARY there"),
        ("id INT PRIMARY KEY, k INT", "id INT PRIMARY KEY, k INT, UNIQUE KEY by_k (k)", "the key by_k there"),
        ("id INT PRIMARY KEY, k INT NOT NULL", "id INT, k INT NOT NULL, PRIMARY KEY (id, k)", ""),
    ],
)
def test_what_may_be_meant_is_a_warning_at_most(shard: str, there: str, why: str) -> None:
    states = [result.state for result in found(shards_of(shard, shard), there)]
    assert states == (["warning", "warning"] if why else ["success"])
    assert all(why in result.message for result in found(shards_of(shard, shard), there))


def test_without_a_key_each_shard_has_all_columns() -> None:
    (result,) = found(shards_of("a INT, b INT", "a INT"), "a INT, b INT")
    assert result.state == "failure"
    assert result.instruction == "ALTER TABLE `db`.`s1` ADD COLUMN `b` int (at the source)"


def test_columns_that_parts_of_names_fill_are_no_shards() -> None:
    there = "id INT, whose VARCHAR(10) NOT NULL, PRIMARY KEY (id, whose)"
    shards = shards_of(KEY, KEY)
    assert [result.state for result in found(shards, there)] == ["failure", "failure"]
    filled = [replace(shard, extracted=frozenset({"whose"})) for shard in shards]
    assert [result.state for result in found(filled, there)] == ["success"]


def test_an_alter_after_the_start_may_mend_it() -> None:
    shards = [replace(shard, from_position=True) for shard in shards_of(KEY, f"{KEY}, a INT")]
    (result,) = found(shards, KEY)
    assert result.state == "warning"
    assert "an ALTER after the start may still mend that" in result.message


def test_narrower_columns_may_be_accepted() -> None:
    shards = [replace(shard, narrower_accepted=True) for shard in shards_of(f"{KEY}, a INT", f"{KEY}, a BIGINT")]
    (result,) = found(shards, f"{KEY}, a INT")
    assert result.state == "warning"


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        (KEY, f"{KEY}, a INT NOT NULL", "it lacks `a` int NOT NULL"),
        (f"{KEY}, a INT", f"{KEY}, a BIGINT NOT NULL", "`a` bigint NOT NULL goes into `a` int"),
        (f"{KEY}, a INT", f"{KEY}, a INT, UNIQUE KEY by_a (a)", "may be one for the key by_a there"),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_a_load_would_create_the_table_like_one_shard(one: str, other: str, why: str, turned: bool) -> None:
    shards = shards_of(*((other, one) if turned else (one, other)))
    (result,) = found(shards, None, made=True)
    assert result.state == "failure"
    assert why in result.message
    statement = result.instruction.removesuffix(" (at the target, before)")
    body = statement.removeprefix("CREATE TABLE `db`.`t` (").rpartition(")")[0]
    assert [each.state for each in found(shards, body)] == ["success"], statement
    (result,) = found(shards, None)
    assert result.state == "success", "who creates the table may still do it right"


def test_shards_that_are_alike_may_be_the_first_in_any_order() -> None:
    (result,) = found(shards_of(f"{KEY}, a INT", f"a INT, {KEY}"), None, made=True)
    assert result.state == "success"


@pytest.mark.parametrize(("made", "state"), [(True, "failure"), (False, "warning")])
def test_types_of_which_none_holds_the_others_values_are_not_joined(made: bool, state: str) -> None:
    (result,) = found(shards_of(f"{KEY}, a INT", f"{KEY}, a VARCHAR(10)", KEY), None, made=made)
    assert result.state == state
    assert "db.s0 of source-0 has `a` int; db.s1 of source-1 has `a` varchar(10)" in result.message


@pytest.mark.parametrize(("loads", "state"), [(False, "success"), (True, "failure")])
def test_what_only_the_load_refuses_is_said_where_there_is_one(loads: bool, state: str) -> None:
    """MariaDB's JSON is the same document to the stream; a load does not write it into MySQL's."""
    shards = [replace(shard, loads=loads) for shard in shards_of(f"{KEY}, a LONGTEXT", f"{KEY}, a LONGTEXT")]
    results = found(shards, f"{KEY}, a JSON")
    assert {result.state for result in results} == {state}
    assert all("the load refuses the table" in result.message for result in results if loads)


@pytest.mark.parametrize(
    ("column", "added"), [("a INT NOT NULL", "`a` int NOT NULL DEFAULT 0"), ("a DATE NOT NULL", "`a` date")]
)
def test_a_column_that_is_to_be_added_is_optional_where_another_shard_lacks_it(column: str, added: str) -> None:
    (result,) = found(shards_of(KEY, f"{KEY}, {column}"), KEY)
    assert result.instruction == f"ALTER TABLE `db`.`t` ADD COLUMN {added}"


@pytest.mark.parametrize(
    ("lacks", "there", "state"),
    [
        # A key whose columns the shard has not all finds none of its rows.
        (KEY, "id INT, v INT, region INT NOT NULL DEFAULT 0, w INT, PRIMARY KEY (id, region)", "failure"),
        # A key that NULL may be in, or whose column has another kind of values there.
        (KEY, "id INT, v INT, region INT, w INT, UNIQUE KEY (id)", "failure"),
        ("id VARCHAR(20) PRIMARY KEY", "id VARCHAR(10) PRIMARY KEY, region INT, w INT", "failure"),
        # The target's key counts, not that of the shard.
        ("id INT NOT NULL", "id INT PRIMARY KEY, v INT, region INT, w INT", ""),
        # No shard has the column: rows that are alike in all others are one and the same to the sources.
        ("id INT, w INT, region INT", "id INT, w INT, region INT, seen BIGINT, KEY (id)", ""),
    ],
)
def test_a_shard_whose_rows_no_key_of_the_targets_finds_has_all_columns_of_the_others(
    lacks: str, there: str, state: str
) -> None:
    shards = [replace(one, narrower_accepted=True) for one in shards_of(lacks, f"{KEY}, region INT NOT NULL, w INT")]
    results = [one for one in found(shards, there) if one.state == "failure" and "of source-0" in one.message]
    assert bool(results) is (state == "failure")
    assert all("no key there finds its rows" in one.message and "`w` int" in one.message for one in results)
