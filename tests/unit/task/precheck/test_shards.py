"""The prechecks of a shard merge: shards that are alike, and keys that do not meet."""

from __future__ import annotations

import pytest

from dm.config.choices import ShardMode
from dm.ident import TableName
from dm.schema.parse import parse_create_table
from dm.schema.table import TableSchema
from dm.sql.context import SourceContext
from dm.task.precheck.result import CheckResult
from dm.task.precheck.shards import SourceShards, merged_shards

TARGET = TableName("db", "t")
CONTEXT = SourceContext("mysql", 80036, "db")


def shard(name: str, body: str) -> TableSchema:
    """A table of a source."""
    return parse_create_table(f"CREATE TABLE {name} ({body})", CONTEXT)


def found(
    *bodies: str, mode: ShardMode = "pessimistic", ignored: tuple[str, ...] = (), extracted: bool = False
) -> dict[str, list[CheckResult]]:
    """What is found of shards, each on a source of its own."""
    sources = [
        SourceShards(
            f"source-{number}",
            {TARGET: [shard(f"t{number}", body)]},
            {TARGET: frozenset({"whose"})} if extracted else {},
        )
        for number, body in enumerate(bodies)
    ]
    results: dict[str, list[CheckResult]] = {}
    for result in merged_shards(mode, ignored, sources):
        results.setdefault(result.item, []).append(result)
    return results


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


def test_optimistic_shards_may_differ() -> None:
    (result,) = found("id INT PRIMARY KEY", "id INT PRIMARY KEY, a INT", mode="optimistic")["schema_of_shard_tables"]
    assert result.state == "success"


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


def test_rows_that_say_where_they_are_from_do_not_meet() -> None:
    body = "id INT AUTO_INCREMENT PRIMARY KEY"
    assert "auto_increment_ID" not in found(body, body, extracted=True)


@pytest.mark.parametrize("mode", ["pessimistic", "optimistic"])
def test_both_items_can_be_ignored(mode: ShardMode) -> None:
    body = "id INT AUTO_INCREMENT PRIMARY KEY"
    assert found(body, f"{body}, a INT", mode=mode, ignored=("schema_of_shard_tables", "auto_increment_ID")) == {}
