"""Statements are cut and names replaced in the original text, and nothing else changes."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.operation import AddColumn, ColumnPlace, ModifyColumn
from dm.mysql.sql.piece import Piece, splice
from dm.mysql.sql.split import separate, split
from dm.mysql.sql.token import tokenize

_CONTEXT = SourceContext("mysql", 90704, "d")
_MARIADB = SourceContext("mariadb", 101119, "d")


def _texts(text: str, context: SourceContext = _CONTEXT) -> list[str]:
    return [piece.text for piece in split(text, context)]


def _routed(text: str, context: SourceContext = _CONTEXT) -> list[str]:
    def route(name: TableName) -> TableName:
        return TableName(name.schema.upper(), name.table and f"{name.table}_x")

    return [piece.routed(route) for piece in split(text, context)]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        (
            "ALTER TABLE t ADD a INT, ADD COLUMN (b INT, c INT), DROP d, ALGORITHM=INPLACE, LOCK=NONE",
            [
                "ALTER TABLE t ADD a INT, ALGORITHM=INPLACE, LOCK=NONE",
                "ALTER TABLE t ADD COLUMN b INT, ALGORITHM=INPLACE, LOCK=NONE",
                "ALTER TABLE t ADD COLUMN c INT, ALGORITHM=INPLACE, LOCK=NONE",
                "ALTER TABLE t DROP d, ALGORITHM=INPLACE, LOCK=NONE",
            ],
        ),
        (
            "ALTER TABLE t ADD a INT, RENAME TO u, ADD b INT",
            ["ALTER TABLE t ADD a INT", "ALTER TABLE t RENAME TO u", "ALTER TABLE `d`.`u` ADD b INT"],
        ),
        ("DROP TABLE IF EXISTS a, x.b CASCADE", ["DROP TABLE IF EXISTS a CASCADE", "DROP TABLE IF EXISTS x.b CASCADE"]),
        (
            "ALTER TABLE t DROP FOREIGN KEY f, DROP INDEX f",
            ["ALTER TABLE t DROP FOREIGN KEY f", "ALTER TABLE t DROP INDEX f"],
        ),
        (
            "ALTER TABLE t ADD a INT COMMENT 'x, y', -- , z\n DROP b",
            ["ALTER TABLE t ADD a INT COMMENT 'x, y'", "ALTER TABLE t DROP b"],
        ),
        ("/*!40000 ALTER TABLE t ADD a INT */;", ["ALTER TABLE t ADD a INT"]),
        ("CREATE TABLE t (a INT) START TRANSACTION", ["CREATE TABLE t (a INT)"]),
        ("CREATE TABLE t (a INT) ENGINE=InnoDB START TRANSACTION", ["CREATE TABLE t (a INT) ENGINE=InnoDB"]),
    ],
)
def test_split(text: str, pieces: list[str]) -> None:
    assert _texts(text) == pieces


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a",
        "ALTER TABLE t CHANGE a b INT, CHANGE b a INT",
        "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (b)",
        "ALTER TABLE t ADD id INT AUTO_INCREMENT, ADD KEY (id)",
        "ALTER TABLE t DROP COLUMN a, ADD COLUMN a BIGINT",
        "ALTER TABLE t ADD INDEX (a), ADD COLUMN a INT",
        "ALTER TABLE t DROP INDEX f, ADD INDEX f (a, b)",
        "ALTER TABLE t DROP COLUMN a, DROP INDEX a",
        "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4, MODIFY a TEXT CHARACTER SET latin1",
        "ALTER TABLE t ADD a INT PARTITION BY HASH (a) PARTITIONS 3",
        "ALTER TABLE t ORDER BY a, b DESC, c",
        "RENAME TABLE a TO tmp, b TO a, tmp TO b",
    ],
)
def test_what_is_invalid_alone_stays_whole(text: str) -> None:
    assert _texts(text) == [text]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("DROP INDEX f, ADD INDEX f (a, b)", ["DROP INDEX f", "ADD INDEX f (a, b)"]),
        ("ADD INDEX f (a, b), DROP INDEX f", ["DROP INDEX f", "ADD INDEX f (a, b)"]),
        ("ADD INDEX n (b), DROP INDEX k, DROP a", ["ADD INDEX n (b)", "DROP INDEX k", "DROP a"]),
        ("DROP COLUMN a, MODIFY b BIGINT, DROP INDEX k", ["DROP INDEX k", "DROP COLUMN a", "MODIFY b BIGINT"]),
        ("ADD c INT, DROP INDEX k, ADD INDEX k (c)", ["DROP INDEX k", "ADD c INT", "ADD INDEX k (c)"]),
        ("DROP PRIMARY KEY, ADD PRIMARY KEY (b)", ["DROP PRIMARY KEY", "ADD PRIMARY KEY (b)"]),
        ("DROP FOREIGN KEY f, DROP INDEX f, DROP a", ["DROP FOREIGN KEY f", "DROP INDEX f", "DROP a"]),
        ("DROP INDEX k, RENAME INDEX j TO k", ["DROP INDEX k", "RENAME INDEX j TO k"]),
        # Names bind these.
        ("RENAME INDEX j TO k, DROP INDEX k", ["RENAME INDEX j TO k, DROP INDEX k"]),
        ("CHANGE a b INT, CHANGE b a INT", ["CHANGE a b INT, CHANGE b a INT"]),
        ("DROP COLUMN a, ADD COLUMN a BIGINT", ["DROP COLUMN a, ADD COLUMN a BIGINT"]),
        ("ADD id INT AUTO_INCREMENT, ADD KEY (id)", ["ADD id INT AUTO_INCREMENT, ADD KEY (id)"]),
        # The index may be gone with the column.
        ("DROP COLUMN a, DROP FOREIGN KEY f, DROP INDEX k", ["DROP COLUMN a, DROP FOREIGN KEY f, DROP INDEX k"]),
    ],
)
def test_a_tidb_gets_indexes_and_columns_one_by_one(text: str, pieces: list[str]) -> None:
    found = [
        piece.text.removeprefix("ALTER TABLE t ") for piece in split(f"ALTER TABLE t {text}", _CONTEXT, singly=True)
    ]
    assert found == pieces


def test_a_filter_may_still_have_every_operation_alone() -> None:
    (piece,) = split("ALTER TABLE t DROP COLUMN a, DROP INDEX b", _CONTEXT)
    assert piece.events == ("drop column", "drop index")
    assert [one.text for one in separate(piece)] == ["ALTER TABLE t DROP COLUMN a", "ALTER TABLE t DROP INDEX b"]


@pytest.mark.parametrize(
    ("text", "routed"),
    [
        ("CREATE TABLE t (a INT, t INT)", ["CREATE TABLE `D`.`t_x` (a INT, t INT)"]),
        ("CREATE TABLE t LIKE x . `u`", ["CREATE TABLE `D`.`t_x` LIKE `X`.`u_x`"]),
        (
            "CREATE TABLE t (a INT REFERENCES p(id), FOREIGN KEY (a) REFERENCES x.p (id))",
            ["CREATE TABLE `D`.`t_x` (a INT REFERENCES `D`.`p_x`(id), FOREIGN KEY (a) REFERENCES `X`.`p_x` (id))"],
        ),
        ("RENAME TABLE a TO x.b, c TO a", ["RENAME TABLE `D`.`a_x` TO `X`.`b_x`, `D`.`c_x` TO `D`.`a_x`"]),
        ("ALTER TABLE x.t RENAME u", ["ALTER TABLE `X`.`t_x` RENAME `D`.`u_x`"]),
        (
            "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u WITHOUT VALIDATION",
            ["ALTER TABLE `D`.`t_x` EXCHANGE PARTITION p WITH TABLE `D`.`u_x` WITHOUT VALIDATION"],
        ),
        ("CREATE INDEX t ON t (t)", ["CREATE INDEX t ON `D`.`t_x` (t)"]),
        ("DROP INDEX t ON t", ["DROP INDEX t ON `D`.`t_x`"]),
        ("ALTER DATABASE CHARSET latin1", ["ALTER DATABASE `D` CHARSET latin1"]),
        ("CREATE DATABASE `a``b`", ["CREATE DATABASE `A``B`"]),
        ("TRUNCATE t", ["TRUNCATE `D`.`t_x`"]),
        ("ALTER TABLE t UNION=(a, x.b)", ["ALTER TABLE `D`.`t_x` UNION=(`D`.`a_x`, `X`.`b_x`)"]),
        ("ALTER TABLE t/* c */ADD a INT", ["ALTER TABLE `D`.`t_x`/* c */ADD a INT"]),
    ],
)
def test_every_name_is_routed_and_nothing_else(text: str, routed: list[str]) -> None:
    assert _routed(text) == routed


def test_the_target_reads_quotes_and_backslashes_as_the_source_did() -> None:
    context = SourceContext("mysql", 90704, "d", ansi_quotes=True, no_backslash_escapes=True)
    (routed,) = _routed("""ALTER TABLE "t" ADD "a" VARCHAR(9) DEFAULT 'a\\' COMMENT 'it''s'""", context)
    assert routed == """ALTER TABLE `D`.`t_x` ADD `a` VARCHAR(9) DEFAULT 'a\\\\' COMMENT 'it''s'"""


def test_a_parent_without_a_schema_is_in_that_of_its_child() -> None:
    for text in (
        "CREATE TABLE x.t (a INT REFERENCES p(id))",
        "ALTER TABLE x.t ADD FOREIGN KEY (a) REFERENCES p (id)",
        "ALTER TABLE x.t ADD COLUMN a INT REFERENCES p (id)",
        "ALTER TABLE x.t MODIFY a INT REFERENCES p (id)",
    ):
        (piece,) = split(text, _CONTEXT)
        assert piece.references == (TableName("x", "p"),)


@pytest.mark.parametrize("word", ["first", "FIRST", "`first`"])
def test_a_column_may_be_called_first(word: str) -> None:
    pieces = split(f"ALTER TABLE t ADD COLUMN a INT AFTER {word}, MODIFY b BIGINT FIRST", _CONTEXT)
    places = [piece.operation.place for piece in pieces if isinstance(piece.operation, AddColumn | ModifyColumn)]
    assert places == [ColumnPlace(after=word.strip("`")), ColumnPlace(first=True)]


def test_lower_case_servers_name_tables_in_lower_case() -> None:
    context = SourceContext("mysql", 90704, "d", lower_case_names=True)
    (piece,) = split("RENAME TABLE Foo TO X.Bar", context)
    assert piece.tables == (TableName("d", "foo"), TableName("x", "bar"))


def test_parents_are_mentioned_not_changed() -> None:
    (piece,) = split("ALTER TABLE c ADD FOREIGN KEY (a) REFERENCES p (id)", _CONTEXT)
    assert piece.tables == (TableName("d", "c"),)
    assert piece.references == (TableName("d", "p"),)


@pytest.mark.parametrize(
    ("text", "event"),
    [
        ("CREATE TABLE t (a INT)", "create table"),
        ("ALTER TABLE t ADD a INT", "add column"),
        ("ALTER TABLE t ADD INDEX (a)", "alter table"),
        ("CREATE INDEX i ON t (a)", "create index"),
        ("ALTER TABLE t ADD PRIMARY KEY (a)", "add primary key"),
        ("ALTER TABLE t CHANGE a b INT", "rename column"),
        ("ALTER TABLE t CHANGE a a INT", "modify column"),
        ("ALTER TABLE t DROP PARTITION p", "drop table partition"),
        ("ALTER TABLE t COMMENT='x'", "modify table comment"),
        ("ALTER TABLE t RENAME u", "rename table"),
        ("ALTER TABLE t", "alter table"),
        ("DROP DATABASE d", "drop database"),
    ],
)
def test_event_names_are_dm_s(text: str, event: str) -> None:
    (piece,) = split(text, _CONTEXT)
    assert piece.event == event


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t AS SELECT 1",
        "CREATE TABLE t (a INT) SELECT 1",
        "CREATE TABLE t (SELECT 1)",
        "CREATE SEQUENCE s",
        "ALTER TABLE t FROBNICATE 1",
        "ALTER TABLE t ADD",
        "ALTER TABLE t ADD a INT,",
        "ALTER TABLE t CONVERT TABLE u TO PARTITION p VALUES LESS THAN (1)",
        "ALTER TABLE t ADD SYSTEM VERSIONING",
        "CREATE TABLE t (a INT) WITH SYSTEM VERSIONING",
        "RENAME TABLE a",
        "DROP TABLE a b",
        "ALTER TABLE t ADD a INT COMMENT 'x",
        "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES p (id), RENAME TO x.t",
    ],
)
def test_what_is_not_understood_pauses(text: str) -> None:
    with pytest.raises(DMError) as caught:
        split(text, _MARIADB)
    assert caught.value.name == "ddl-not-understood"
    assert caught.value.message.endswith(text)


_NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)


@given(_NAMES, _NAMES, _NAMES, _NAMES)
def test_hostile_names_are_routed_both_ways(schema: str, table: str, to_schema: str, to_table: str) -> None:
    source, target = TableName(schema, table), TableName(to_schema, to_table)
    column = Ident(table).sql
    (piece,) = split(f"ALTER TABLE {source.sql} ADD {column} INT COMMENT 'x' AFTER {column}", _CONTEXT)
    assert piece.table == source
    routed = piece.route(lambda name: target)
    assert routed.table == target
    assert routed.route(lambda name: source).text == piece.text


@given(st.text(max_size=60))
def test_any_text_is_pieces_or_a_named_error(text: str) -> None:
    for statement in (text, f"ALTER TABLE t {text}", f"CREATE TABLE t ({text})"):
        with contextlib.suppress(DMError):
            pieces = split(statement, _CONTEXT)
            assert all(Piece.of(piece.text, _CONTEXT).operations == piece.operations for piece in pieces)


@pytest.mark.parametrize(
    ("sql", "routed"),
    [
        ("ALTER TABLE t MODIFY t.a INT", "ALTER TABLE `e`.`u` MODIFY   a INT"),
        ("ALTER TABLE d.t CHANGE d.t.a `t`.b INT", "ALTER TABLE `e`.`u` CHANGE     a     b INT"),
        ("ALTER TABLE t ADD (t.x INT, y DOUBLE DEFAULT 1.5)", "ADD COLUMN x INT|ADD COLUMN y DOUBLE DEFAULT 1.5"),
        ("ALTER TABLE t DROP IF EXISTS .a", "ALTER TABLE `e`.`u` DROP IF EXISTS  a"),
        ("CREATE TABLE t (t.a INT, CHECK (a > 1.5))", "CREATE TABLE `e`.`u` (  a INT, CHECK (a > 1.5))"),
    ],
)  # fmt: skip
def test_a_table_named_before_a_column_is_left_out(sql: str, routed: str) -> None:
    maria = SourceContext("mariadb", 101100, "d")
    texts = [piece.routed(lambda name: TableName("e", "u")) for piece in split(sql, maria)]
    wanted = [part if "TABLE" in part else f"ALTER TABLE `e`.`u` {part}" for part in routed.split("|")]
    assert texts == wanted


@pytest.mark.parametrize(
    ("sql", "pieces"),
    [
        ("CREATE OR REPLACE TABLE t (a INT)", ["DROP TABLE IF EXISTS t", "CREATE TABLE t (a INT)"]),
        (
            "/*x*/ CREATE OR\nREPLACE TABLE `d`.t LIKE u",
            ["DROP TABLE IF EXISTS `d`.t", "/*x*/ CREATE TABLE `d`.t LIKE u"],
        ),
        ("CREATE OR REPLACE SCHEMA e CHARSET latin1", ["DROP DATABASE IF EXISTS e", "CREATE SCHEMA e CHARSET latin1"]),
        ("CREATE TABLE t (a INT COMMENT 'OR REPLACE')", ["CREATE TABLE t (a INT COMMENT 'OR REPLACE')"]),
    ],
)
def test_where_nothing_is_replaced_a_table_is_dropped_and_created(sql: str, pieces: list[str]) -> None:
    maria = SourceContext("mariadb", 101100, "d")
    assert [piece.text for piece in split(sql, maria, replaces=False)] == pieces
    assert [piece.text for piece in split(sql, maria)] == [sql]


def test_modes_that_give_types_another_meaning_pause() -> None:
    oracle = SourceContext.of_sql_mode("mariadb", 101119, "d", 512)
    with pytest.raises(DMError, match="ORACLE"):
        split("CREATE TABLE t (a DATE)", oracle)
    assert len(split("DROP TABLE t", oracle)) == 1
    assert len(split("CREATE TABLE t (a DATE)", SourceContext.of_sql_mode("mysql", 50744, "d", 512))) == 1


@pytest.mark.parametrize(("old", "new", "why"), [("x", "y", "reads differently"), ("`u`", "`w`", "other tables")])
def test_a_text_that_says_anything_else_than_other_names_is_refused(
    monkeypatch: pytest.MonkeyPatch, old: str, new: str, why: str
) -> None:
    """What makes the text has never failed so; what is checked here is that nothing of it would be executed."""

    def otherwise(*arguments: Any) -> tuple[str, list[tuple[str, str]]]:
        text, meanings = splice(*arguments)
        text = text.replace(old, new)
        return text, meanings if why == "reads differently" else [token.meaning for token in tokenize(text, _CONTEXT)]

    piece = Piece.of("ALTER TABLE t ADD x INT", _CONTEXT)
    monkeypatch.setattr("dm.mysql.sql.piece.splice", otherwise)
    with pytest.raises(DMError, match=why) as refused:
        piece.routed(lambda name: TableName("e", "u"))
    assert refused.value.name == "ddl-splice-mismatch"
