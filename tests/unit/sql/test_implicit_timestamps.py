"""Which statements depend on explicit_defaults_for_timestamp."""

from __future__ import annotations

import pytest

from dm.sql.context import SourceContext
from dm.sql.implicit_timestamps import has_implicit_timestamps

CONTEXT = SourceContext("mariadb", 100611, "d")


@pytest.mark.parametrize(
    ("statement", "depends"),
    [
        ("CREATE TABLE t (id INT PRIMARY KEY, d DATETIME)", False),
        ("CREATE TABLE t (a TIMESTAMP)", True),
        ("CREATE TABLE t (a TIMESTAMP(3), b INT)", True),
        ("CREATE TABLE t (a TIMESTAMP NULL)", False),
        ("CREATE TABLE t (a TIMESTAMP NULL DEFAULT NULL, b INT NOT NULL)", False),
        ("CREATE TABLE t (a TIMESTAMP DEFAULT NULL)", True),
        ("CREATE TABLE t (a TIMESTAMP NOT NULL, b INT DEFAULT 5)", True),
        ("CREATE TABLE t (a TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP)", False),
        ("CREATE TABLE t (a TIMESTAMP(3) DEFAULT CURRENT_TIMESTAMP(3) NOT NULL, b INT)", False),
        ("CREATE TABLE t (a TIMESTAMP DEFAULT CURRENT_TIMESTAMP)", True),
        ("CREATE TABLE t (`timestamp` INT)", False),
        ("CREATE TABLE t (a DATETIME DEFAULT CURRENT_TIMESTAMP, b VARCHAR(9) DEFAULT 'TIMESTAMP')", False),
        ("CREATE TABLE t (a TIMESTAMP NOT NULL DEFAULT '2020-01-01', b TIMESTAMP NOT NULL)", True),
        ("CREATE TABLE t AS SELECT * FROM s", True),
        ("ALTER TABLE t ADD COLUMN c TIMESTAMP", True),
        ("ALTER TABLE t MODIFY c TIMESTAMP NULL, ADD d INT", False),
        ("DROP TABLE t", False),
    ],
)
def test_a_statement_depends_on_it_where_a_timestamp_does_not_say_all(statement: str, depends: bool) -> None:
    assert has_implicit_timestamps(statement, CONTEXT) is depends
