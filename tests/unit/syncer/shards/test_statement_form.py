"""Which statements of shards count as the same."""

from __future__ import annotations

import pytest

from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.split import split
from dm.syncer.shards.statement_form import form_of

CONTEXT = SourceContext("mysql", 80036, "db")


def form(text: str) -> str:
    """Of a statement, as its pieces go to the target."""
    return form_of(split(text, CONTEXT))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ALTER TABLE t ADD COLUMN a INT", "alter table `db`.`t` add `A` int"),
        ("ALTER TABLE t ADD COLUMN a INT", "ALTER TABLE t ADD COLUMN a INT FIRST"),
        ("ALTER TABLE t ADD COLUMN a INT AFTER b", "ALTER TABLE t ADD COLUMN a INT AFTER c"),
        ("ALTER TABLE t MODIFY a INT FIRST", "ALTER TABLE t MODIFY a INT"),
        ("ALTER TABLE t ADD a INT, ALGORITHM=INSTANT", "ALTER TABLE t ADD a INT, LOCK = NONE, ALGORITHM = COPY"),
        ("CREATE INDEX i ON t (a)", "CREATE INDEX i ON t (a) ALGORITHM = INPLACE LOCK NONE"),
        ("DROP INDEX i ON t", "DROP INDEX i ON t LOCK = NONE"),
        ("ALTER TABLE t DROP COLUMN first", "ALTER TABLE t DROP first"),
        ("ALTER TABLE t ADD INDEX i (a)", "ALTER TABLE t ADD KEY i (a)"),
        ("ALTER TABLE t ADD INDEX (a)", "ALTER TABLE t ADD KEY (a)"),
        ("CREATE INDEX i ON t (a)", "ALTER TABLE t ADD INDEX i (a)"),
        ("CREATE INDEX i USING BTREE ON t (a)", "ALTER TABLE t ADD KEY i USING BTREE (a)"),
        ("CREATE UNIQUE INDEX i ON t (a)", "ALTER TABLE t ADD UNIQUE i (a)"),
        ("ALTER TABLE t ADD UNIQUE KEY i (a)", "ALTER TABLE t ADD UNIQUE INDEX i (a)"),
        ("ALTER TABLE t ADD FULLTEXT i (a)", "CREATE FULLTEXT INDEX i ON t (a)"),
        ("ALTER TABLE t MODIFY a BIGINT", "ALTER TABLE t CHANGE COLUMN a a BIGINT"),
        ("ALTER TABLE t ADD a INT", "ALTER TABLE t ADD a INTEGER"),
        ("ALTER TABLE t ADD a INT(9) UNSIGNED", "ALTER TABLE t ADD a INTEGER(9) UNSIGNED NULL"),
        ("ALTER TABLE t ADD a INT", "ALTER TABLE t ADD a INT4"),
        ("ALTER TABLE t ADD a TINYINT", "ALTER TABLE t ADD a INT1"),
        ("ALTER TABLE t ADD a SMALLINT", "ALTER TABLE t ADD a INT2"),
        ("ALTER TABLE t ADD a MEDIUMINT", "ALTER TABLE t ADD a INT3"),
        ("ALTER TABLE t ADD a MEDIUMINT", "ALTER TABLE t ADD a MIDDLEINT"),
        ("ALTER TABLE t ADD a BIGINT", "ALTER TABLE t ADD a INT8"),
        ("ALTER TABLE t ADD a TINYINT(1) DEFAULT 0", "ALTER TABLE t ADD a BOOL DEFAULT 0"),
        ("ALTER TABLE t ADD a TINYINT(1)", "ALTER TABLE t ADD a BOOLEAN"),
        ("ALTER TABLE t ADD a DECIMAL(9, 2)", "ALTER TABLE t ADD a NUMERIC(9, 2)"),
        ("ALTER TABLE t ADD a DEC(9, 2)", "ALTER TABLE t ADD a FIXED(9, 2)"),
        ("ALTER TABLE t ADD a DOUBLE", "ALTER TABLE t ADD a DOUBLE PRECISION"),
        ("ALTER TABLE t ADD a DOUBLE", "ALTER TABLE t ADD a FLOAT8"),
        ("ALTER TABLE t ADD a FLOAT", "ALTER TABLE t ADD a FLOAT4"),
        ("ALTER TABLE t ADD a CHAR(3)", "ALTER TABLE t ADD a CHARACTER(3)"),
        ("ALTER TABLE t ADD a VARCHAR(3)", "ALTER TABLE t ADD a CHARACTER VARYING(3)"),
        ("ALTER TABLE t ADD a VARCHAR(3)", "ALTER TABLE t ADD a CHAR VARYING(3)"),
        ("ALTER TABLE t ADD a VARCHAR(3)", "ALTER TABLE t ADD a VARCHARACTER(3)"),
        ("ALTER TABLE t ADD a DECIMAL", "ALTER TABLE t ADD a NUMERIC(10, 0)"),
        ("ALTER TABLE t ADD a DOUBLE", "ALTER TABLE t ADD a REAL"),
        ("ALTER TABLE t ADD a DOUBLE", "ALTER TABLE t ADD a FLOAT(53)"),
        ("ALTER TABLE t ADD a YEAR", "ALTER TABLE t ADD a YEAR(4)"),
        ("ALTER TABLE t ADD a DATETIME", "ALTER TABLE t ADD a DATETIME(0)"),
        ("ALTER TABLE t ADD a INT", "ALTER TABLE t ADD a INT NULL"),
        ("ALTER TABLE t MODIFY a INT", "ALTER TABLE t MODIFY a INT NULL"),
        ("ALTER TABLE t CHANGE a b VARCHAR(3) DEFAULT NULL", "ALTER TABLE t CHANGE a b VARCHAR(3) NULL DEFAULT NULL"),
    ],
)
def test_what_does_the_same_is_the_same(one: str, other: str) -> None:
    assert form(one) == form(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ALTER TABLE t ADD COLUMN a INT", "ALTER TABLE t ADD COLUMN a BIGINT"),
        ("ALTER TABLE t ADD COLUMN a INT", "ALTER TABLE t ADD COLUMN a INT DEFAULT 7"),
        ("ALTER TABLE t ADD COLUMN a CHAR(1) DEFAULT 'a'", "ALTER TABLE t ADD COLUMN a CHAR(1) DEFAULT 'A'"),
        ("ALTER TABLE t ADD COLUMN a INT", "ALTER TABLE t ADD COLUMN first INT"),
        ("ALTER TABLE t DROP COLUMN a", "ALTER TABLE t DROP COLUMN first"),
        ("ALTER TABLE t DROP INDEX a", "ALTER TABLE t DROP COLUMN a"),
        ("ALTER TABLE t ADD a INT, ADD b INT", "ALTER TABLE t ADD b INT, ADD a INT"),
        ("ALTER TABLE t ADD a INT, ADD b INT", "ALTER TABLE t ADD a INT"),
        ("CREATE INDEX i ON t (a)", "CREATE INDEX i ON t (`lock`)"),
        ("CREATE UNIQUE INDEX i ON t (a)", "CREATE INDEX i ON t (a)"),
        ("CREATE INDEX i ON t (a)", "CREATE INDEX j ON t (a)"),
        ("ALTER TABLE t COMMENT 'a'", "ALTER TABLE t COMMENT 'b'"),
        ("ALTER TABLE t ADD INDEX i (a)", "ALTER TABLE t ADD INDEX (a)"),
        ("ALTER TABLE t ADD INDEX i (a)", "ALTER TABLE t ADD INDEX `key` (a)"),
        ("ALTER TABLE t ADD UNIQUE (a)", "ALTER TABLE t ADD UNIQUE `index` (a)"),
        ("ALTER TABLE t ADD UNIQUE i (a)", "ALTER TABLE t ADD INDEX i (a)"),
        ("ALTER TABLE t ADD UNIQUE i (a)", "ALTER TABLE t ADD PRIMARY KEY (a)"),
        ("CREATE INDEX i ON t (a)", "ALTER TABLE t ADD INDEX j (a)"),
        ("ALTER TABLE t MODIFY a BIGINT", "ALTER TABLE t CHANGE a b BIGINT"),
        ("ALTER TABLE t ADD a INT", "ALTER TABLE t ADD a INT NOT NULL"),
        ("ALTER TABLE t ADD a TIMESTAMP", "ALTER TABLE t ADD a TIMESTAMP NULL"),
        ("ALTER TABLE t ADD a TIMESTAMP(3)", "ALTER TABLE t ADD a TIMESTAMP(3) NULL"),
        ("ALTER TABLE t ADD a VARCHAR(3)", "ALTER TABLE t ADD a CHAR(3)"),
        ("ALTER TABLE t ADD a DOUBLE", "ALTER TABLE t ADD a FLOAT"),
        ("ALTER TABLE t ADD a INT UNSIGNED", "ALTER TABLE t ADD a INT ZEROFILL"),
        ("ALTER TABLE t ADD a CHAR(3)", "ALTER TABLE t ADD a NCHAR(3)"),
        ("ALTER TABLE t ADD a CHAR(3)", "ALTER TABLE t ADD a CHAR(3) CHARACTER SET latin1"),
        ("ALTER TABLE t ADD a DATETIME", "ALTER TABLE t ADD a DATETIME(3)"),
        ("ALTER TABLE t ADD a SERIAL", "ALTER TABLE t ADD a BIGINT UNSIGNED"),
        ("ALTER TABLE t ADD a ENUM('int')", "ALTER TABLE t ADD a ENUM('integer')"),
        ("ALTER TABLE t ADD COLUMN IF NOT EXISTS a INT", "ALTER TABLE t ADD COLUMN a INT"),
    ],
)
def test_what_does_something_else_is_another_statement(one: str, other: str) -> None:
    assert form(one) != form(other)


def test_a_piece_without_operations_has_a_form() -> None:
    assert form_of([Piece.of("ALTER TABLE t", CONTEXT)]) == ""
