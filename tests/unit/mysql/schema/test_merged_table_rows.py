"""Whether a key of the target's table finds the rows of a shard: the same answer as that of the rows' plan."""

from __future__ import annotations

import pytest

from dm.dumpfiles.destination import is_keyed
from dm.mysql.schema.merged_table import finds_rows, keys_for_rows, unfilled
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.context import SourceContext


def table(columns: str) -> TableSchema:
    """A structure."""
    return parse_create_table(f"CREATE TABLE t ({columns}) CHARSET utf8mb4", SourceContext("mysql", 80036, "db"))


@pytest.mark.parametrize(
    ("shard", "there", "finds"),
    [
        ("id INT PRIMARY KEY", "id INT PRIMARY KEY", True),
        ("id INT", "id INT PRIMARY KEY", True),
        ("ID INT", "id BIGINT PRIMARY KEY, more INT", True),
        ("id INT PRIMARY KEY", "id INT, KEY (id)", False),
        ("id INT PRIMARY KEY", "id INT, UNIQUE (id)", False),
        ("id INT PRIMARY KEY", "id INT NOT NULL, UNIQUE (id)", True),
        ("id INT PRIMARY KEY", "id INT, region INT, PRIMARY KEY (id, region)", False),
        ("id INT, region INT", "id INT, region INT, PRIMARY KEY (id, region)", True),
        ("id INT PRIMARY KEY", "id INT, k INT, PRIMARY KEY (id, k), UNIQUE (k)", False),
        ("id VARCHAR(20) PRIMARY KEY", "id VARCHAR(10) PRIMARY KEY", False),
        ("id VARCHAR(10) PRIMARY KEY", "id VARCHAR(20) PRIMARY KEY", True),
        ("id FLOAT PRIMARY KEY", "id DECIMAL(10, 2) PRIMARY KEY", False),
        ("id INT PRIMARY KEY", "id INT, g INT AS (1) STORED NOT NULL, UNIQUE (g)", False),
        ("id INT, name VARCHAR(9)", "id INT, name VARCHAR(9) NOT NULL, UNIQUE (name(3))", True),
    ],
)
def test_what_finds_rows(shard: str, there: str, finds: bool) -> None:
    assert finds_rows(table(shard), table(there)) is finds
    assert is_keyed(table(shard), table(there), "mysql") is finds


def test_columns_that_parts_of_names_fill_complete_a_key() -> None:
    shard, there = table("id INT"), table("id INT, whose VARCHAR(9), PRIMARY KEY (id, whose), UNIQUE (whose)")
    assert not finds_rows(shard, there)
    assert finds_rows(shard, there, frozenset({"whose"}))
    left = unfilled(there, frozenset({"whose"}))
    assert finds_rows(shard, left)
    assert [index.columns for index in left.indexes] == [("id",)], "no key is left of one that has no other column"


@pytest.mark.parametrize(("null", "finds"), [("NOT NULL", True), ("NULL", False)])
def test_a_filled_column_that_may_be_null_is_no_part_of_a_key_that_finds_rows(null: str, finds: bool) -> None:
    whose = frozenset({"whose"})
    shard, there = table("id INT"), table(f"id INT NOT NULL, Whose VARCHAR(9) {null}, UNIQUE (id, Whose)")
    assert finds_rows(shard, there, whose) is finds
    assert finds_rows(shard, keys_for_rows(there, whose)) is finds
    assert {"id"} <= {name for index in keys_for_rows(there, whose).unique_indexes for name in index.columns}
