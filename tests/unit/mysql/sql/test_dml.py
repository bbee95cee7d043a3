"""Which tables a statement that changes rows writes to."""

from __future__ import annotations

import pytest

from dm.ident import TableName
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.statement import written_tables

_CONTEXT = SourceContext("mysql", 90704, "d")


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t VALUES (1)",
        "INSERT t SET a = RAND(), b = @b",
        "INSERT LOW_PRIORITY IGNORE INTO `t` (a) VALUES (1) ON DUPLICATE KEY UPDATE a = VALUES(a)",
        "INSERT HIGH_PRIORITY INTO d.t PARTITION (p0) VALUES (1)",
        "/*!50000 INSERT */ INTO t /* u */ SELECT * FROM u, x.y FOR UPDATE",
        "REPLACE INTO t VALUES ('INTO TABLE u')",
        "REPLACE DELAYED t SELECT * FROM u",
        "LOAD DATA LOCAL INFILE 'INTO TABLE u' REPLACE INTO TABLE t CHARACTER SET utf8 (a, @b) SET c = @b",
        "LOAD XML INFILE 'x' INTO TABLE `t`",
        "UPDATE LOW_PRIORITY IGNORE t SET a = 1 ORDER BY b LIMIT 3",
        "DELETE QUICK FROM t WHERE a = 'u' LIMIT 1",
        "SET STATEMENT max_statement_time = 1 FOR INSERT INTO t VALUES (1)",
    ],
)
def test_the_one_table_that_is_written(text: str) -> None:
    assert written_tables(text, _CONTEXT) == (TableName("d", "t"),)


@pytest.mark.parametrize(
    "text",
    [
        "UPDATE t JOIN x.u ON t.a = u.a SET u.b = 1",
        "DELETE LOW_PRIORITY t, x.u FROM t INNER JOIN x.u",
        "WITH q AS (SELECT a FROM x.u) DELETE FROM t WHERE a IN (SELECT a FROM q)",
    ],
)
def test_statements_over_several_tables_name_them_all(text: str) -> None:
    assert {TableName("d", "t"), TableName("x", "u")} <= set(written_tables(text, _CONTEXT) or ())


@pytest.mark.parametrize("text", ["DO f()", "SELECT NEXTVAL(s)", "INSERT INTO 't'", "LOAD DATA INFILE 'x'", "UPDATE"])
def test_what_can_not_be_told_is_not_guessed(text: str) -> None:
    assert written_tables(text, _CONTEXT) is None
