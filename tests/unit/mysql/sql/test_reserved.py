"""Words that some server reserves are quoted where they are names, and stay where they are keywords."""

from __future__ import annotations

import pytest

from dm.ident import TableName
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.piece import Piece

_PLACE = TableName("d", "t")


def _routed(sql: str, context: SourceContext) -> str:
    return Piece.of(sql, context).routed(lambda name: _PLACE)


@pytest.mark.parametrize(
    ("sql", "routed"),
    [
        ("ALTER TABLE t ADD rank INT AFTER offset", "ADD `rank` INT AFTER `offset`"),
        ("ALTER TABLE t ADD KEY row (row)", "ADD KEY `row` (`row`)"),
        ("ALTER TABLE t ADD UNIQUE row (row)", "ADD UNIQUE `row` (`row`)"),
        (
            "ALTER TABLE t ADD generated INT GENERATED ALWAYS AS (stored) STORED",
            "ADD `generated` INT GENERATED ALWAYS AS (`stored`) STORED",
        ),
        ("ALTER TABLE t ADD virtual INT AS (virtual + 1) VIRTUAL", "ADD `virtual` INT AS (`virtual` + 1) VIRTUAL"),
        ("ALTER TABLE t ADD CHECK (ROW (a, 1) = (1, lead))", "ADD CHECK (ROW (a, 1) = (1, `lead`))"),
        ("ALTER TABLE t ADD a INT COMMENT 'rank'", "ADD a INT COMMENT 'rank'"),
        ("ALTER TABLE t DROP `rank`", "DROP `rank`"),
    ],
)
def test_of_both(sql: str, routed: str) -> None:
    for context in (SourceContext("mysql", 50744, "d"), SourceContext("mariadb", 100500, "d")):
        assert _routed(sql, context) == f"ALTER TABLE `d`.`t` {routed}"


@pytest.mark.parametrize(
    ("sql", "routed"),
    [
        ("ADD a INT AS (JSON_VALUE(j, '$.a' RETURNING CHAR NULL ON EMPTY))", ""),
        ("ADD CHECK (1 MEMBER OF (j))", ""),
        (
            "ADD returning INT, ADD current_role INT, ADD of INT, ADD empty INT",
            "ADD `returning` INT, ADD `current_role` INT, ADD `of` INT, ADD `empty` INT",
        ),
    ],
)
def test_of_mysql(sql: str, routed: str) -> None:
    assert _routed(f"ALTER TABLE t {sql}", SourceContext("mysql", 90700, "d")) == f"ALTER TABLE `d`.`t` {routed or sql}"


@pytest.mark.parametrize(
    ("sql", "routed"),
    [
        ("ADD a VARCHAR(9) DEFAULT (DATABASE())", ""),
        ("ADD a VARCHAR(9) DEFAULT CURRENT_ROLE", ""),
        ("ADD database INT, ADD schema INT, ADD option INT", "ADD `database` INT, ADD `schema` INT, ADD `option` INT"),
        ("ALTER schema SET DEFAULT 1", "ALTER `schema` SET DEFAULT 1"),
        ("DROP database", "DROP `database`"),
    ],
)
def test_of_mariadb(sql: str, routed: str) -> None:
    context = SourceContext("mariadb", 101100, "d")
    assert _routed(f"ALTER TABLE t {sql}", context) == f"ALTER TABLE `d`.`t` {routed or sql}"


def test_a_schemas_own_words() -> None:
    for verb in ("CREATE DATABASE", "CREATE OR REPLACE SCHEMA", "DROP DATABASE", "ALTER SCHEMA"):
        tail = " COMMENT 'x'" if verb.startswith("ALTER") else ""
        context = SourceContext("mariadb", 101100, "d")
        assert Piece.of(f"{verb} e{tail}", context).routed(lambda name: name) == f"{verb} `e`{tail}"
