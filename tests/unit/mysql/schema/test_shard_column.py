"""Columns that shards of a merged table have in different forms."""

from __future__ import annotations

import pytest

from dm.mysql.dialect import Flavor
from dm.mysql.schema.merged_table import (
    Filling,
    column_change,
    differing_values,
    filling,
    fits,
    implicit_default,
    needs_value,
)
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import Column
from dm.mysql.sql.context import SourceContext


def column(definition: str, flavor: Flavor = "mysql") -> Column:
    """The column of that definition."""
    context = SourceContext(flavor, 90700 if flavor == "mysql" else 101100, "d")
    return parse_create_table(f"CREATE TABLE t (c {definition}) CHARSET utf8mb4", context).columns[0]


@pytest.mark.parametrize(
    ("definition", "literal"),
    [
        ("INT NOT NULL", "0"),
        ("DECIMAL(5, 2) NOT NULL", "0"),
        ("YEAR NOT NULL", "0"),
        ("VARCHAR(3) NOT NULL", "''"),
        ("VARBINARY(3) NOT NULL", "''"),
        ("SET('a') NOT NULL", "''"),
        ("BIT(3) NOT NULL", "b'0'"),
        ("ENUM('p', 'q') NOT NULL", "'p'"),
        ("ENUM('p''s') NOT NULL", None),
        ("DATE NOT NULL", None),
        ("TEXT NOT NULL", None),
        ("JSON NOT NULL", None),
        ("POINT NOT NULL", None),
    ],
)
def test_what_fills_a_column_that_demands_a_value(definition: str, literal: str | None) -> None:
    assert implicit_default(column(definition)) == literal
    assert needs_value(column(definition))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("INT", "INT DEFAULT NULL", True),
        ("INT NOT NULL", "INT NOT NULL DEFAULT '0'", True),
        ("INT NOT NULL", "INT", False),
        ("DECIMAL(5, 2) DEFAULT 1.5", "DECIMAL(7, 3) DEFAULT '1.500'", True),
        ("VARCHAR(3) DEFAULT 'a'", "VARCHAR(3) DEFAULT 'A'", False),
        ("ENUM('p', 'q') NOT NULL", "ENUM('p', 'q') DEFAULT 'p'", True),
    ],
)
def test_two_shards_fill_old_rows_alike(one: str, other: str, same: bool) -> None:
    assert (filling(column(one)) == filling(column(other))) is same


@pytest.mark.parametrize("definition", ["TIMESTAMP DEFAULT CURRENT_TIMESTAMP", "INT DEFAULT (RAND())", "DATE NOT NULL"])
def test_what_is_no_constant_fills_nothing(definition: str) -> None:
    assert filling(column(definition)) is None
    assert filling(column("INT")) == Filling(None)


@pytest.mark.parametrize(
    ("one", "there", "flavor", "wanted"),
    [
        ("INT", "INT(11)", "mariadb", True),
        ("YEAR", "YEAR(4)", "mariadb", True),
        ("JSON", "JSON", "mariadb", True),
        ("INT", "BIGINT", "mysql", True),
        ("BIGINT", "INT", "mysql", False),
        ("VARCHAR(5)", "TEXT", "mysql", True),
        ("INT UNSIGNED", "BIGINT", "mysql", False),
        ("INT", "INT AS (1)", "mysql", False),
    ],
)
def test_whether_values_fit(one: str, there: str, flavor: Flavor, wanted: bool) -> None:
    assert fits(column(one), column(there, flavor)) is wanted


def test_what_became_of_a_column() -> None:
    change = column_change(column("INT NOT NULL"), column("BIGINT NULL"))
    assert (change.widens, change.to_null, change.to_not_null, change.other) == (True, True, False, "")
    assert column_change(column("INT(11)"), column("INT")).nothing
    assert column_change(column("INT"), column("INT NOT NULL")).to_not_null
    for before, after in (
        ("INT", "SMALLINT"),
        ("INT", "INT DEFAULT 1"),
        ("VARCHAR(5)", "VARCHAR(5) COLLATE utf8mb4_bin"),
        ("INT", "INT INVISIBLE"),
        ("DATETIME", "DATETIME ON UPDATE CURRENT_TIMESTAMP"),
        ("INT AS (1)", "INT AS (2)"),
        ("INT DEFAULT (1 + 1)", "INT DEFAULT (1 + 2)"),
    ):
        assert column_change(column(before), column(after)).other, after


@pytest.mark.parametrize(
    ("definition", "differing"),
    [
        ("DATETIME DEFAULT CURRENT_TIMESTAMP", "rows have another"),
        ("TIMESTAMP NOT NULL DEFAULT LOCALTIME", "rows have another"),
        ("DATE DEFAULT (CURDATE())", "rows have another"),
        ("DATE DEFAULT ((NOW() + INTERVAL 1 DAY))", "rows have another"),
        ("BIGINT DEFAULT (UNIX_TIMESTAMP())", "rows have another"),
        ("TIMESTAMP NOT NULL DEFAULT '2020-01-01 00:00:00'", "rows may have another"),  # if their time zones differ
        ("TIMESTAMP NOT NULL DEFAULT '0000-00-00 00:00:00'", ""),  # the same in every zone
        ("TIMESTAMP NULL DEFAULT NULL", ""),
        ("DATETIME DEFAULT '2020-01-01 00:00:00'", ""),
        ("JSON DEFAULT (JSON_ARRAY())", ""),
        ("VARCHAR(9) DEFAULT 'now'", ""),
        ("INT NOT NULL", ""),
    ],
)
def test_shards_differ_in_a_new_column_where_the_moment_or_the_session_decides(definition: str, differing: str) -> None:
    found = differing_values(column(definition))
    assert differing in found
    assert bool(found) is bool(differing)
