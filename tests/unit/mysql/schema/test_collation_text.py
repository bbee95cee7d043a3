"""`collation_compatible: strict`: what is written after a character set, and where nothing may be written."""

from __future__ import annotations

import pytest

from dm.errors import DMError
from dm.mysql.schema.translation import with_collations
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.piece import Piece

_MYSQL = SourceContext("mysql", 90700, "d", server_collation="latin1_swedish_ci")
_MARIADB = SourceContext("mariadb", 101119, "d", server_collation="utf8mb4_general_ci")


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (
            "CREATE TABLE t (a CHAR(3) CHARACTER SET utf8mb4 NOT NULL, b INT) CHARSET=utf8mb4 COMMENT='CHARSET x'",
            "CREATE TABLE t (a CHAR(3) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci NOT NULL, b INT)"
            " CHARSET=utf8mb4 COLLATE utf8mb4_0900_ai_ci COMMENT='CHARSET x'",
        ),
        ("CREATE TABLE t (a INT) CHARSET=latin1", None),
        ("CREATE TABLE t (a INT) CHARSET=utf8mb4, COLLATE=utf8mb4_bin", None),
        (
            "CREATE TABLE t (a CHAR(3) CHARACTER SET utf8mb4 BINARY, c CHAR(3) CHARSET utf8mb4 COLLATE utf8mb4_bin)",
            None,
        ),
        ("CREATE TABLE t (a CHAR(9), b CHAR(9) AS (CAST(a AS CHAR CHARACTER SET utf8mb4)))", None),
        ("CREATE TABLE u LIKE t", None),
        (
            "ALTER TABLE t ADD a CHAR(3) CHARSET utf8mb4 AFTER b",
            "ALTER TABLE t ADD a CHAR(3) CHARSET utf8mb4 COLLATE utf8mb4_0900_ai_ci AFTER b",
        ),
        (
            "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4",
            "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci",
        ),
        ("ALTER TABLE t CONVERT TO CHARACTER SET DEFAULT", None),
        ("CREATE DATABASE e CHARSET utf8mb4", "CREATE DATABASE e CHARSET utf8mb4 COLLATE utf8mb4_0900_ai_ci"),
        ("CREATE DATABASE e", "CREATE DATABASE e CHARACTER SET latin1 COLLATE latin1_swedish_ci"),
    ],
)
def test_the_source_s_default_is_written_where_the_target_s_is_another(statement: str, expected: str | None) -> None:
    piece = Piece.of(statement, _MYSQL)
    assert with_collations(piece, _MARIADB).text == (expected or statement)


def test_between_servers_of_one_kind_nothing_is_written() -> None:
    for statement in ("CREATE TABLE t (a CHAR(3) CHARSET utf8mb4) CHARSET utf8mb4", "CREATE DATABASE e"):
        piece = Piece.of(statement, _MYSQL)
        assert with_collations(piece, SourceContext("mysql", 80036, "")) is piece


def test_a_schema_pauses_whose_collation_is_not_told() -> None:
    piece = Piece.of("CREATE DATABASE e", SourceContext("mysql", 90700, "d"))
    with pytest.raises(DMError, match="collation_server"):
        with_collations(piece, _MARIADB)
