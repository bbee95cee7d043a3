"""Which changes of a type convert nothing."""

from __future__ import annotations

import pytest

from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import Column, widens
from dm.mysql.sql.context import SourceContext

CONTEXT = SourceContext("mysql", 90700, "d")


def column(definition: str) -> Column:
    return parse_create_table(f"CREATE TABLE t (c {definition}) CHARSET utf8mb4", CONTEXT).columns[0]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("INT(5)", "INT(11) NOT NULL"),
        ("TINYINT UNSIGNED", "BIGINT UNSIGNED"),
        ("DECIMAL(6,2)", "DECIMAL(7,3)"),
        ("VARCHAR(5)", "VARCHAR(5) COLLATE utf8mb4_bin"),
        ("VARCHAR(5) CHARACTER SET utf8mb3", "VARCHAR(6)"),
        ("VARCHAR(16383)", "TEXT"),
        ("TEXT", "LONGTEXT"),
        ("VARBINARY(5)", "VARBINARY(6)"),
        ("VARBINARY(255)", "TINYBLOB"),
        ("CHAR(5)", "CHAR(6)"),
        ("BIT(3)", "BIT(4)"),
        ("TIME", "TIME(1)"),
        ("DATETIME(3)", "DATETIME(6)"),
        ("TIMESTAMP NULL", "TIMESTAMP(2) NULL"),
        ("ENUM('a','b')", "ENUM('a','b','c')"),
        ("SET('a')", "SET('a','b')"),
        ("JSON", "JSON NOT NULL"),
        ("VARCHAR(9)", "INT AS (1) VIRTUAL"),
    ],
)
def test_what_holds_every_value_as_it_is_widens(before: str, after: str) -> None:
    assert widens(column(before), column(after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("INT", "SMALLINT"),
        ("INT", "BIGINT UNSIGNED"),
        ("INT", "VARCHAR(20)"),
        ("INT", "DECIMAL(20)"),
        ("DECIMAL(6,2)", "DECIMAL(6,3)"),
        ("DECIMAL(6,2)", "DECIMAL(9,1)"),
        ("DECIMAL(6,2)", "DECIMAL(6,2) UNSIGNED"),
        ("FLOAT", "DOUBLE"),
        ("VARCHAR(6)", "VARCHAR(5)"),
        ("VARCHAR(5)", "VARCHAR(6) CHARACTER SET latin1"),
        ("VARCHAR(5)", "VARBINARY(20)"),
        ("VARCHAR(64)", "TINYTEXT"),
        ("VARCHAR(5)", "CHAR(5)"),
        ("CHAR(5)", "VARCHAR(5)"),
        ("TEXT", "VARCHAR(16383)"),
        ("MEDIUMTEXT", "TEXT"),
        ("TEXT", "BLOB"),
        ("BINARY(5)", "BINARY(6)"),
        ("DATETIME(6)", "DATETIME"),
        ("DATETIME", "TIMESTAMP NULL"),
        ("DATETIME", "YEAR"),
        ("ENUM('a','b')", "ENUM('b','a')"),
        ("ENUM('a','b')", "SET('a','b')"),
        ("LONGTEXT", "JSON"),
    ],
)
def test_what_rounds_cuts_or_reads_anew_does_not(before: str, after: str) -> None:
    assert not widens(column(before), column(after))
