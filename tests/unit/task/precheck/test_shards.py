"""The prechecks of a shard merge: shards that are alike, and keys that do not meet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm.config.scalar import ShardMode
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.context import SourceContext
from dm.task.precheck.context import CheckResult
from dm.task.precheck.shards import JoiningShard, SourceShards, merged_shards

TARGET = TableName("db", "t")
CONTEXT = SourceContext("mysql", 80036, "db")


def shard(name: str, body: str) -> TableSchema:
    """A table of a source."""
    return parse_create_table(f"CREATE TABLE {name} ({body})", CONTEXT)


def source(
    number: int,
    body: str,
    *,
    extracted: bool = False,
    behind: bool = False,
    there: str | None = None,
    made: bool = False,
    unread: DMError | None = None,
) -> SourceShards:
    """A source with one shard, and what is known of the target."""
    columns = frozenset({"whose"}) if extracted else frozenset[str]()
    one = JoiningShard(f"source-{number}", shard(f"t{number}", body), columns, behind)
    return SourceShards(
        {TARGET: [one]},
        {} if there is None else {TARGET: shard("t", there)},
        frozenset({TARGET} if made else ()),
        {} if unread is None else {TARGET: unread},
    )


def results_of(
    *sources: SourceShards, mode: ShardMode = "pessimistic", ignored: tuple[str, ...] = ()
) -> dict[str, list[CheckResult]]:
    """What is found, by item."""
    results: dict[str, list[CheckResult]] = {}
    for result in merged_shards(mode, ignored, sources):
        results.setdefault(result.item, []).append(result)
    return results


def found(*bodies: str, mode: ShardMode = "pessimistic", ignored: tuple[str, ...] = ()) -> dict[str, list[CheckResult]]:
    """What is found of shards, each on a source of its own."""
    return results_of(*(source(number, body) for number, body in enumerate(bodies)), mode=mode, ignored=ignored)


def test_shards_in_another_order_of_columns_are_alike() -> None:
    results = found("id INT PRIMARY KEY, a INT", "a INT, id INT PRIMARY KEY")
    assert [result.state for result in results["schema_of_shard_tables"]] == ["success"]


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        ("id INT PRIMARY KEY", "column a is there only"),
        ("id INT PRIMARY KEY, a BIGINT", "column a is bigint here and int there"),
        ("id INT PRIMARY KEY, a INT NOT NULL", "column a is int NOT NULL here and int there"),
        ("id INT PRIMARY KEY, a INT DEFAULT 7", "column a is int DEFAULT 7 here and int there"),
        ("id INT PRIMARY KEY, a INT, b INT", "column b is here only"),
        ("id INT PRIMARY KEY, a INT, KEY j (a)", "index j index (a) is here only"),
        ("id INT, a INT", "index PRIMARY primary (id) is there only"),
    ],
)
def test_a_shard_that_differs_is_a_failure_that_says_in_what(other: str, difference: str) -> None:
    (result,) = found("id INT PRIMARY KEY, a INT", other)["schema_of_shard_tables"]
    assert result.state == "failure"
    assert result.message.startswith("db.t1 of source-1 is not like db.t0 of source-0: ")
    assert difference in result.message


@pytest.mark.parametrize(
    ("there", "states"),
    [("id INT PRIMARY KEY, a INT", ["success"]), ("id INT PRIMARY KEY", ["failure"])],
)
def test_optimistic_shards_may_differ_where_the_targets_table_takes_both(there: str, states: list[str]) -> None:
    bodies = ("id INT PRIMARY KEY", "id INT PRIMARY KEY, a INT")
    sources = [source(number, body, there=there) for number, body in enumerate(bodies)]
    results = results_of(*sources, mode="optimistic")["schema_of_shard_tables"]
    assert [result.state for result in results] == states
    assert all("db.t1 of source-1: it lacks `a` int" in result.message for result in results if states == ["failure"])


@pytest.mark.parametrize(("made", "state"), [(False, "success"), (True, "failure")])
def test_a_load_would_make_the_table_like_one_of_shards_that_differ(made: bool, state: str) -> None:
    bodies = ("id INT PRIMARY KEY", "id INT PRIMARY KEY, a INT")
    sources = [source(number, body, made=made) for number, body in enumerate(bodies)]
    (result,) = results_of(*sources, mode="optimistic")["schema_of_shard_tables"]
    assert result.state == state


@pytest.mark.parametrize("mode", ["pessimistic", "optimistic"])
@pytest.mark.parametrize(("behind", "state"), [((False, False), "failure"), ((False, True), "warning")])
@pytest.mark.parametrize("there", ["id INT PRIMARY KEY", None])
def test_what_an_alter_after_the_start_may_explain_stops_nobody(
    mode: ShardMode, behind: tuple[bool, bool], state: str, there: str | None
) -> None:
    """The second shard has another column by now, since a start at an earlier place or the beginning of a copy."""
    bodies = ("id INT PRIMARY KEY", "id INT PRIMARY KEY, a INT")
    sources = [
        source(number, body, behind=behind[number], there=there, made=there is None)
        for number, body in enumerate(bodies)
    ]
    (result,) = results_of(*sources, mode=mode)["schema_of_shard_tables"]
    assert result.state == state


def test_a_target_table_that_cannot_be_read_leaves_the_others_judged() -> None:
    unread = DMError("structure-not-understood", why="a view", statement="CREATE VIEW db.t")
    other, body = TableName("db", "u"), "id INT PRIMARY KEY"
    sources = [
        replace(one, shards={**one.shards, other: one.shards[TARGET]})
        for one in (source(number, body, unread=unread) for number in range(2))
    ]
    found = results_of(*sources, mode="optimistic")["schema_of_shard_tables"]
    assert [(one.subject, one.state) for one in found] == [
        (f"target table {TARGET}", "warning"),
        (f"target table {other}", "success"),
    ]
    assert unread.message in found[0].message


def test_one_table_is_no_merge() -> None:
    assert found("id INT AUTO_INCREMENT PRIMARY KEY") == {}


@pytest.mark.parametrize(
    ("body", "state"),
    [
        ("id INT AUTO_INCREMENT PRIMARY KEY", "warning"),
        ("id INT AUTO_INCREMENT, a INT, PRIMARY KEY (id, a)", "success"),
        ("id INT AUTO_INCREMENT, a INT PRIMARY KEY, KEY (id)", "success"),
        ("id INT AUTO_INCREMENT, a INT PRIMARY KEY, UNIQUE (id)", "warning"),
    ],
)
def test_keys_that_each_shard_counts_for_itself_may_meet(body: str, state: str) -> None:
    (result,) = found(body, body)["auto_increment_ID"]
    assert result.state == state


def test_each_way_out_of_keys_that_may_meet_is_named() -> None:
    body = "id INT AUTO_INCREMENT PRIMARY KEY"
    (warned,) = found(body, body)["auto_increment_ID"]
    for way in (
        "`auto_increment_offset` at the sources",
        "bigger keys at the sources",
        "`ALTER TABLE .. MODIFY id BIGINT AUTO_INCREMENT`",
        "`extract-table`",
        "this column and the one that the shards are split by",
        "a plain index and no key",
        "`ignore-checking-items: [auto_increment_ID]`",
    ):
        assert way in warned.instruction


@pytest.mark.parametrize(("extracted", "warned"), [((True, True), False), ((True, False), True), ((False, True), True)])
def test_rows_do_not_meet_where_all_shards_say_where_they_are_from(extracted: tuple[bool, bool], warned: bool) -> None:
    body = "id INT AUTO_INCREMENT PRIMARY KEY"
    sources = [source(number, body, extracted=extracted[number]) for number in range(2)]
    assert ("auto_increment_ID" in results_of(*sources)) is warned


@pytest.mark.parametrize("of_one_source", [False, True])
def test_each_shard_is_judged_by_its_own_extracted_columns(of_one_source: bool) -> None:
    """Two routes lead into one table, and one of them fills a column that the other leaves out."""
    there = "id INT, whose VARCHAR(20) NOT NULL, PRIMARY KEY (id, whose)"
    one = source(0, "id INT PRIMARY KEY", there=there)
    other = source(1, "id INT PRIMARY KEY", extracted=True, there=there)
    if of_one_source:
        both = {TARGET: [*one.shards[TARGET], *other.shards[TARGET]]}
        found = results_of(replace(one, shards=both), mode="optimistic")
    else:
        found = results_of(one, other, mode="optimistic")
    failed = [result.message for result in found["schema_of_shard_tables"] if result.state == "failure"]
    assert len(failed) == 1
    assert "the rows of db.t0 of source-0" in failed[0]


@pytest.mark.parametrize("mode", ["pessimistic", "optimistic"])
def test_both_items_can_be_ignored(mode: ShardMode) -> None:
    body = "id INT AUTO_INCREMENT PRIMARY KEY"
    assert found(body, f"{body}, a INT", mode=mode, ignored=("schema_of_shard_tables", "auto_increment_ID")) == {}
