"""The kind of a statement is known from how it begins."""

from __future__ import annotations

import pytest

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.statement import classify

_CONTEXT = SourceContext("mysql", 90704, "d")

_KINDS = {
    "begin": ["BEGIN", "begin", "START TRANSACTION", "/* x */ BEGIN"],
    "commit": ["COMMIT", "commit /* x */"],
    "rollback": ["ROLLBACK", "ROLLBACK WORK"],
    "savepoint": ["SAVEPOINT `a`", "ROLLBACK TO `a`", "ROLLBACK WORK TO a", "RELEASE SAVEPOINT a"],
    "xa": ["XA START X'61',X'',1", "XA COMMIT X'61',X'',1"],
    "ddl": [
        "CREATE TABLE a (b INT)", "create or replace table a (b int)", "ALTER TABLE a ADD b INT", "DROP TABLE a",
        "RENAME TABLE a TO b", "TRUNCATE a", "CREATE DATABASE x", "CREATE UNIQUE INDEX i ON t (a)", "DROP INDEX i ON t",
        "CREATE SPATIAL INDEX i ON t (a)", "/*!40000 ALTER TABLE t DISABLE KEYS */",
        "ALTER SCHEMA x CHARACTER SET utf8mb4",
        "SET STATEMENT max_statement_time=1 FOR ALTER TABLE t ADD a INT", "ALTER IGNORE TABLE t ADD a INT",
        ";;;;;; DROP TABLE a",
    ],
    "skip": [
        "GRANT ALL ON *.* TO x", "CREATE USER a", "ALTER USER a IDENTIFIED BY 'x'", "SET PASSWORD = 'x'",
        "FLUSH TABLES",
        "CREATE DEFINER=`root`@`localhost` PROCEDURE p() BEGIN SELECT 'it''s \\' ok'; END",
        "CREATE ALGORITHM=UNDEFINED DEFINER=a@b SQL SECURITY DEFINER VIEW v AS SELECT 1",
        "CREATE OR REPLACE VIEW v AS SELECT 1",
        "CREATE TRIGGER t BEFORE INSERT ON a FOR EACH ROW SET NEW.a = 1", "DROP VIEW v", "ALTER EVENT e DISABLE",
        "CREATE FUNCTION f RETURNS STRING SONAME 'x.so'", "CREATE AGGREGATE FUNCTION f RETURNS INT SONAME 'x'",
        "DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `x`", "CREATE TEMPORARY TABLE t (a INT)", "ANALYZE TABLE t",
        "OPTIMIZE LOCAL TABLE t", "CREATE ROLE r", "DROP SERVER s", "CREATE TABLESPACE x",
        "ALTER INSTANCE ROTATE INNODB MASTER KEY",
        "CREATE SPATIAL REFERENCE SYSTEM 4120 NAME 'x'", "INSTALL PLUGIN x SONAME 'y'", "-- only a comment", "",
        "/*!99999 ALTER TABLE t */", "RENAME USER a TO b", "CREATE UNDO TABLESPACE x ADD DATAFILE 'y'",
    ],
    "dml": ["INSERT INTO t VALUES (1)", "update t set a = 1", "DELETE FROM t", "REPLACE INTO t SELECT 1", "CALL p()",
            "LOAD DATA INFILE 'x' INTO TABLE t", "WITH c AS (SELECT 1) DELETE FROM t", "DO 1"],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in _KINDS.items() for text in texts])
def test_kind(kind: str, text: str) -> None:
    assert classify(text, _CONTEXT).kind == kind


@pytest.mark.parametrize(
    "text", ["FROBNICATE x", "CREATE FOO x", "ALTER", "'x'", "DROP SOMETHING y", "SET STATEMENT a=1"]
)
def test_what_is_not_known_pauses(text: str) -> None:
    with pytest.raises(DMError) as caught:
        classify(text, _CONTEXT)
    assert caught.value.name == "ddl-not-understood"
    assert text in caught.value.message


def test_a_dml_statement_names_its_tables() -> None:
    assert classify("INSERT INTO t SELECT * FROM x.y", _CONTEXT).tables == (TableName("d", "t"),)
    assert classify("CALL p()", _CONTEXT).tables is None
