"""Of a statement that is not understood, what its head tells."""

from __future__ import annotations

import pytest

from dm.ident import TableName
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.statement import subjects

MARIADB = SourceContext("mariadb", 101119, "d")


def names(text: str, context: SourceContext = MARIADB) -> list[str]:
    return [str(name) for name in subjects(text, context)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE SEQUENCE s START WITH 5", ["d.s"]),
        ("CREATE OR REPLACE SEQUENCE IF NOT EXISTS `e`.`s` NOCACHE", ["e.s"]),
        ("/* by hand */ ALTER SEQUENCE IF EXISTS s RESTART 9", ["d.s"]),
        ("DROP SEQUENCE IF EXISTS s, e.s", ["d.s", "e.s"]),
        ("SET STATEMENT max_statement_time=9 FOR CREATE SEQUENCE s", ["d.s"]),
        ("CREATE TABLE h (a INT) WITH SYSTEM VERSIONING", ["d.h"]),
        ("CREATE TABLE IF NOT EXISTS e.h (a DATE, b DATE, PERIOD FOR p (a, b))", ["e.h"]),
        ("ALTER TABLE h ADD SYSTEM VERSIONING", ["d.h"]),
        ("ALTER ONLINE IGNORE TABLE IF EXISTS h DROP PERIOD FOR p", ["d.h"]),
        ("ALTER TABLE h RENAME COLUMN a TO c, RENAME INDEX i TO j, DROP SYSTEM VERSIONING", ["d.h"]),
        ("ALTER TABLE h CONVERT TO CHARACTER SET latin1, DROP SYSTEM VERSIONING", ["d.h"]),
    ],
)
def test_the_head_names_what_a_statement_is_about(text: str, expected: list[str]) -> None:
    assert names(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE h RENAME TO other, DROP SYSTEM VERSIONING",
        "ALTER TABLE h RENAME other",
        "ALTER TABLE h EXCHANGE PARTITION p WITH TABLE t",
        "ALTER TABLE h CONVERT PARTITION p TO TABLE t",
        "ALTER TABLE h CONVERT TABLE t TO PARTITION p",
        "CREATE UNKNOWN h",
        "FLY TO THE MOON",
        "CREATE TABLE",
    ],
)
def test_what_may_move_a_table_and_what_has_no_head_tells_nothing(text: str) -> None:
    assert names(text) == []


def test_quotes_are_those_of_the_session() -> None:
    quoting = SourceContext("mariadb", 101119, "d", ansi_quotes=True)
    assert subjects('CREATE SEQUENCE "s;x"', quoting) == (TableName("d", "s;x"),)
