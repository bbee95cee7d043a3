"""Columns and indexes that are hidden at the source, in the words of servers that hide them otherwise or not at all."""

from __future__ import annotations

import pytest

from dm.ident import TableName
from dm.mysql.schema.visibility import with_visibility
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.piece import Piece

MYSQL = SourceContext("mysql", 90704, "s")
MARIADB = SourceContext("mariadb", 101119, "s")
TIDB = SourceContext("tidb", 80011, "")
NEW_TIDB = SourceContext("tidb", 90000, "")  # its version is what its configuration says
OLD_MYSQL = SourceContext("mysql", 80022, "")
OLD_MARIADB = SourceContext("mariadb", 100518, "")  # hides columns, but no indexes
SHOWN = (
    "CREATE TABLE `t` (`visible` int NOT NULL, `h` int DEFAULT '7' COMMENT 'INVISIBLE' /*!80023 INVISIBLE */,"
    " `g` int GENERATED ALWAYS AS (if(`visible`,1,2)) VIRTUAL /*!80023 INVISIBLE */, PRIMARY KEY (`visible`),"
    " KEY `k` (`h`) /*!80000 INVISIBLE */)"
)


def words(text: str) -> str:
    return " ".join(text.split()).replace(" ,", ",").replace(" )", ")")


def piece(statement: str, source: SourceContext, target: SourceContext) -> str:
    return words(with_visibility(Piece.of(statement, source), target).text)


@pytest.mark.parametrize(
    ("context", "hides"),
    [(MYSQL, True), (MARIADB, True), (TIDB, False), (NEW_TIDB, False), (OLD_MYSQL, False), (OLD_MARIADB, True)],
)
def test_who_hides_columns(context: SourceContext, hides: bool) -> None:
    assert context.dialect.hides_columns is hides


def test_what_a_server_shows_is_what_another_one_makes() -> None:
    plain = words(SHOWN.replace("/*!80023 INVISIBLE */", "").replace("/*!80000 INVISIBLE */", "{}"))
    assert piece(SHOWN, MYSQL, TIDB) == words(plain.format("INVISIBLE"))
    assert piece(SHOWN, MYSQL, NEW_TIDB) == words(plain.format("INVISIBLE"))
    assert piece(SHOWN, MYSQL, OLD_MYSQL) == words(plain.format("INVISIBLE"))
    hidden = words(SHOWN.replace("/*!80023 INVISIBLE */", "INVISIBLE").replace("/*!80000 INVISIBLE */", "{}"))
    assert piece(SHOWN, MYSQL, MYSQL) == words(hidden.format("INVISIBLE"))
    assert piece(SHOWN, MYSQL, MARIADB) == words(hidden.format("IGNORED"))
    assert piece(SHOWN, MYSQL, OLD_MARIADB) == words(hidden.format(""))


@pytest.mark.parametrize(
    ("statement", "at_mariadb", "at_tidb"),
    [
        ("ALTER TABLE t ADD h INT VISIBLE FIRST", "ALTER TABLE t ADD h INT FIRST", "ALTER TABLE t ADD h INT FIRST"),
        (
            "ALTER TABLE t ADD (h INT INVISIBLE, visible INT DEFAULT 1)",
            None,
            "ALTER TABLE t ADD (h INT, visible INT DEFAULT 1)",
        ),
        (
            "ALTER TABLE t CHANGE visible invisible INT INVISIBLE DEFAULT 7 AFTER a",
            None,
            "ALTER TABLE t CHANGE visible invisible INT DEFAULT 7 AFTER a",
        ),
        ("ALTER TABLE t MODIFY h ENUM('VISIBLE', 'INVISIBLE')", None, None),
        ("ALTER TABLE t ADD p INT REFERENCES visible (a)", None, None),
        (
            "ALTER TABLE t ADD KEY invisible (a) COMMENT 'x' VISIBLE",
            "ALTER TABLE t ADD KEY invisible (a) COMMENT 'x'",
            "ALTER TABLE t ADD KEY invisible (a) COMMENT 'x'",
        ),
        ("CREATE INDEX k ON t (a) INVISIBLE", "CREATE INDEX k ON t (a) IGNORED", None),
        ("ALTER TABLE t ALTER INDEX visible INVISIBLE", "ALTER TABLE t ALTER INDEX visible IGNORED", None),
        (
            "ALTER TABLE t ALTER KEY k VISIBLE, ADD a INT",
            "ALTER TABLE t ALTER KEY k NOT IGNORED, ADD a INT",
            None,
        ),
        ("ALTER TABLE t ALTER COLUMN h SET INVISIBLE", None, "ALTER TABLE t"),
        ("ALTER TABLE t ALTER visible SET VISIBLE, ALTER h SET VISIBLE, LOCK=NONE", None, "ALTER TABLE t LOCK=NONE"),
        (
            "ALTER TABLE t MODIFY h BIGINT, ALTER h SET INVISIBLE, ALTER h SET DEFAULT 3",
            None,
            "ALTER TABLE t MODIFY h BIGINT, ALTER h SET DEFAULT 3",
        ),
        (
            "ALTER TABLE t ALTER h SET INVISIBLE, ADD b INT PARTITION BY HASH (a) PARTITIONS 2",
            None,
            "ALTER TABLE t ADD b INT PARTITION BY HASH (a) PARTITIONS 2",
        ),
        ("RENAME TABLE invisible TO visible", None, None),
    ],
)
def test_a_statement_of_mysql(statement: str, at_mariadb: str | None, at_tidb: str | None) -> None:
    assert piece(statement, MYSQL, MARIADB) == (at_mariadb or statement)
    assert piece(statement, MYSQL, TIDB) == (at_tidb or statement)
    assert piece(statement, MYSQL, MYSQL) == statement


@pytest.mark.parametrize(
    ("statement", "at_mysql", "at_old_mariadb"),
    [
        (
            "CREATE TABLE t (a int(11), h int(11) INVISIBLE DEFAULT 5, KEY k (h) IGNORED, KEY l (a) NOT IGNORED)",
            "CREATE TABLE t (a int(11), h int(11) INVISIBLE DEFAULT 5, KEY k (h) INVISIBLE, KEY l (a))",
            "CREATE TABLE t (a int(11), h int(11) INVISIBLE DEFAULT 5, KEY k (h), KEY l (a))",
        ),
        ("ALTER TABLE t ALTER INDEX k IGNORED", "ALTER TABLE t ALTER INDEX k INVISIBLE", "ALTER TABLE t"),
        (
            "ALTER TABLE t ADD a INT, ALTER INDEX IF EXISTS k NOT IGNORED",
            "ALTER TABLE t ADD a INT, ALTER INDEX IF EXISTS k VISIBLE",
            "ALTER TABLE t ADD a INT",
        ),
    ],
)
def test_a_statement_of_mariadb(statement: str, at_mysql: str, at_old_mariadb: str) -> None:
    assert piece(statement, MARIADB, MYSQL) == at_mysql
    assert piece(statement, MARIADB, OLD_MARIADB) == at_old_mariadb
    assert piece(statement, MARIADB, MARIADB) == statement


def test_a_piece_that_has_nothing_left_still_names_its_table() -> None:
    left = with_visibility(Piece.of("ALTER TABLE `a b`.t ALTER h SET VISIBLE", MYSQL), TIDB)
    assert left.operations == ()
    assert left.route(lambda name: TableName("x", name.table)).table == TableName("x", "t")
