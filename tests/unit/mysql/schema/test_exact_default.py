"""Which DEFAULTs of new columns give the rows of a table the same values on every server."""

from __future__ import annotations

import pytest

from dm.mysql.schema.exact_default import exact_default, loses_digits
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import Column, TableSchema
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.token import tokenize

MARIADB = SourceContext("mariadb", 101100, "d")
COLUMNS = "i INT, u BIGINT UNSIGNED, v VARCHAR(9), f DOUBLE, d DATETIME(6), `now` INT"


def added(definition: str) -> tuple[Column, TableSchema]:
    table = parse_create_table(f"CREATE TABLE t ({COLUMNS}, c {definition}) CHARSET utf8mb4", MARIADB)
    return table.columns[-1], table


@pytest.mark.parametrize(
    "definition",
    [
        "INT",
        "INT DEFAULT -5",
        "VARCHAR(9) DEFAULT 'UPPER(v)'",
        "VARCHAR(9) DEFAULT ('x')",
        "VARBINARY(9) DEFAULT x'41'",
        "VARCHAR(9) DEFAULT NULL",
        "DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6)",
        "TIMESTAMP DEFAULT '2024-01-02 03:04:05'",
        "DATE DEFAULT (CURDATE())",
        "DATETIME(3) DEFAULT (UTC_TIMESTAMP(3))",
        "BIGINT DEFAULT (NOW())",
        "VARCHAR(40) DEFAULT (NOW(3))",
        "VARCHAR(20) DEFAULT (v)",
        "VARCHAR(20) DEFAULT v",
        "BIGINT DEFAULT (`i`)",
        "INT DEFAULT (`now`)",
        "BIGINT DEFAULT (i * 2 - (`u` + 1))",
    ],
)
def test_what_no_server_computes_is_exact(definition: str) -> None:
    assert exact_default(*added(definition))


@pytest.mark.parametrize(
    "definition",
    [
        "VARCHAR(9) DEFAULT (UPPER(v))",
        "VARCHAR(9) DEFAULT UPPER(v)",
        "VARCHAR(9) DEFAULT (CONCAT(v, 'x'))",
        "TEXT DEFAULT (JSON_OBJECT('a', f))",
        "DATETIME DEFAULT (d)",
        "VARCHAR(40) DEFAULT (d)",
        "VARCHAR(40) DEFAULT (i)",
        "INT DEFAULT (i / 2)",
        "INT DEFAULT (i DIV 2)",
        "INT DEFAULT (v)",
        "INT DEFAULT (i + f)",
        "INT DEFAULT (i + 0.5)",
        "INT DEFAULT (i < v)",
        "INT DEFAULT (ABS(i))",
        "DATETIME DEFAULT (NOW() + INTERVAL 1 DAY)",
        # A MySQL rounds what a MariaDB cuts off, whatever its sql_mode is.
        "TIME(2) DEFAULT (CURTIME(6))",
        "DATE DEFAULT (UTC_TIMESTAMP(1))",
    ],
)
def test_what_a_server_computes_is_not(definition: str) -> None:
    assert not exact_default(*added(definition))


@pytest.mark.parametrize(
    ("definition", "loses"),
    [
        ("DATETIME DEFAULT (NOW(3))", True),
        ("DATETIME(2) DEFAULT ((current_timestamp(3)))", True),
        ("BIGINT DEFAULT (NOW(3))", True),
        ("DATE DEFAULT (NOW(1))", True),
        ("DATETIME(3) DEFAULT (NOW(3))", False),
        ("DATETIME(6) DEFAULT NOW(3)", False),
        ("DATETIME DEFAULT NOW(0)", False),
        ("DATETIME DEFAULT '2020-01-01' ON UPDATE NOW(3)", False),
        ("VARCHAR(30) DEFAULT (NOW(3))", False),
    ],
)
def test_digits_of_a_second_that_a_column_has_not(definition: str, loses: bool) -> None:
    words = definition.partition(" DEFAULT ")[2]
    assert loses_digits(added(definition)[0], tokenize(words, MARIADB)) is loses
