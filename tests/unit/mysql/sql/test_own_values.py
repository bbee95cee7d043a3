"""What a statement writes into rows by the server's own lights."""

from __future__ import annotations

import pytest

from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.effect_on_rows import own_values
from dm.mysql.sql.piece import Piece

CONTEXT = SourceContext("mariadb", 101119, "d")


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("ALTER TABLE t ADD COLUMN c CHAR(36) DEFAULT uuid()", "UUID as the value of the new column c"),
        ("ALTER TABLE t ADD c INT DEFAULT (1 + floor(10 * RAND ()))", "RAND as the value of the new column c"),
        ("ALTER TABLE t ADD c CHAR(80) DEFAULT CURRENT_USER", "CURRENT_USER as the value of the new column c"),
        ("ALTER TABLE t ADD c INT DEFAULT (NEXT VALUE FOR s)", "NEXT VALUE as the value of the new column c"),
        ("ALTER TABLE t ADD c INT DEFAULT (@@server_id)", "a variable as the value of the new column c"),
        ("ALTER TABLE t ADD c INT AUTO_INCREMENT PRIMARY KEY", "the numbers of the new column c"),
        ("ALTER TABLE t ADD c SERIAL", "the numbers of the new column c"),
        ("ALTER TABLE t ADD c BIGINT UNSIGNED SERIAL DEFAULT VALUE", "the numbers of the new column c"),
        ("ALTER TABLE t MODIFY c INT AUTO_INCREMENT", "the numbers that column c gets in place of 0 and NULL"),
        ("ALTER TABLE t CHANGE c e INT AUTO_INCREMENT", "the numbers that column c gets in place of 0 and NULL"),
        ("ALTER IGNORE TABLE t ADD UNIQUE (c)", "which of the rows with one key stays"),
    ],
)
def test_what_only_the_server_decides_is_named(statement: str, what: str) -> None:
    assert [own.what for own in own_values(Piece.of(statement, CONTEXT))] == [what]


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ADD c DATETIME DEFAULT CURRENT_TIMESTAMP",  # the event's timestamp
        "ALTER TABLE t ADD c INT DEFAULT 5 COMMENT 'rand()'",
        "ALTER TABLE t ADD c INT AS (`rand`) STORED",
        "ALTER TABLE t ADD c INT AS (serial + 1)",
        "ALTER TABLE t ADD `user` CHAR(9) DEFAULT (concat(`user`, user))",
        "ALTER TABLE t MODIFY c CHAR(36) DEFAULT uuid()",  # rows that are there keep what they have
        "ALTER TABLE t ALTER c SET DEFAULT (uuid())",
        "ALTER TABLE `IGNORE` ADD UNIQUE (c)",
        "CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY, c CHAR(36) DEFAULT uuid())",
    ],
)
def test_what_the_statement_and_its_session_tell_is_not(statement: str) -> None:
    assert own_values(Piece.of(statement, CONTEXT)) == []
