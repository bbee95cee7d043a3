"""What the target will have, and whether it has it already."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dm.ident import TableName
from dm.mysql.schema.effect import (
    already_effective,
    depends_on_schema_defaults,
    expected_after,
    idempotent,
    same_structure,
    shows_in_structure,
)
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.piece import Piece

_CONTEXT = SourceContext("mysql", 90704, "d")
_T = TableName("d", "t")
_TABLE = (
    "CREATE TABLE t (id INT NOT NULL, a INT DEFAULT '5', b VARCHAR(10), PRIMARY KEY (id), KEY ka (a),"
    " CONSTRAINT f FOREIGN KEY (a) REFERENCES p (id), CONSTRAINT c CHECK (a > 0)) DEFAULT CHARSET=utf8mb4"
    " PARTITION BY HASH (id) PARTITIONS 2"
)


def _now(text: str = _TABLE) -> Mapping[TableName, TableSchema | None]:
    return {_T: parse_create_table(text, _CONTEXT)}


def _piece(text: str) -> Piece:
    return Piece.of(text, _CONTEXT)


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE t ADD COLUMN a INT DEFAULT 5",
        "ALTER TABLE t ADD COLUMN A int(11) DEFAULT (5) AFTER b",
        "ALTER TABLE t ADD b VARCHAR(10)",
        "ALTER TABLE t DROP COLUMN gone",
        "ALTER TABLE t ADD INDEX ka (a)",
        "ALTER TABLE t ADD INDEX (a)",
        "ALTER TABLE t DROP INDEX gone",
        "ALTER TABLE t ADD PRIMARY KEY (id)",
        "ALTER TABLE t RENAME COLUMN gone TO b",
        "ALTER TABLE t CHANGE gone b VARCHAR(10)",
        "ALTER TABLE t RENAME INDEX gone TO ka",
        "ALTER TABLE t ADD CONSTRAINT other FOREIGN KEY (a) REFERENCES p (id)",
        "ALTER TABLE t DROP FOREIGN KEY gone",
        "ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0)",
        "ALTER TABLE t DROP CHECK gone",
        "ALTER TABLE t DROP PARTITION p7",
        "CREATE INDEX ka ON t (a)",
        _TABLE,
        "DROP TABLE nowhere",
        "RENAME TABLE nowhere TO t",
        "RENAME TABLE t TO t",
    ],
)
def test_what_the_target_has_counts_as_done(text: str) -> None:
    assert already_effective(_now(), _piece(text))


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE t ADD COLUMN a BIGINT DEFAULT 5",
        "ALTER TABLE t ADD COLUMN a INT DEFAULT 6",
        "ALTER TABLE t ADD COLUMN a INT NOT NULL DEFAULT 5",
        "ALTER TABLE t DROP COLUMN a",
        "ALTER TABLE t ADD b VARCHAR(10) UNIQUE",
        "ALTER TABLE t MODIFY b VARCHAR(10) UNIQUE",
        "ALTER TABLE t CHANGE b b VARCHAR(10) UNIQUE KEY",
        "ALTER TABLE t MODIFY b VARCHAR(10) CHECK (b > 'a')",
        "ALTER TABLE t ADD b VARCHAR(10) REFERENCES p (id)",
        "ALTER TABLE t ADD INDEX ka (a, b)",
        "ALTER TABLE t ADD UNIQUE INDEX ka (a)",
        "ALTER TABLE t DROP PRIMARY KEY",
        "ALTER TABLE t RENAME COLUMN a TO b",
        "ALTER TABLE t RENAME COLUMN gone TO missing",
        "ALTER TABLE t ADD COLUMN a INT DEFAULT 5, ADD INDEX (b), DROP INDEX ka",
        "ALTER TABLE t MODIFY a INT DEFAULT 5",
        "ALTER TABLE t COMMENT 'x'",
        "ALTER TABLE t DROP PARTITION p1",
        "ALTER TABLE t ADD PARTITION PARTITIONS 2",
        "TRUNCATE TABLE t",
        "CREATE TABLE t (id INT)",
        "CREATE OR REPLACE TABLE t (id INT NOT NULL)",
        "DROP TABLE t",
        "RENAME TABLE t TO u",
        "RENAME TABLE a TO b, b TO t",
    ],
)
def test_what_it_lacks_or_what_cannot_be_seen_is_run(text: str) -> None:
    assert not already_effective(_now(), _piece(text))


@pytest.mark.parametrize(
    ("attribute", "of_table"),
    [
        ("UNIQUE", "UNIQUE KEY (c)"),
        ("NOT NULL PRIMARY KEY", "PRIMARY KEY (c)"),
        ("REFERENCES p (id)", "FOREIGN KEY (c) REFERENCES p (id)"),
        ("CHECK (c > 0)", "CHECK (c > 0)"),
    ],
)
def test_what_a_definition_brings_counts_as_done_only_with_the_column(attribute: str, of_table: str) -> None:
    null = "NOT NULL" if "NOT NULL" in attribute else ""
    without, whole = (f"CREATE TABLE t (id INT, c INT {null}{more})" for more in ("", f", {of_table}"))
    source = parse_create_table(without, _CONTEXT)
    for verb in ("ADD", "MODIFY"):
        piece = _piece(f"ALTER TABLE t {verb} c INT {attribute}")
        assert not already_effective(_now(without), piece, source)
        assert already_effective(_now(whole), piece, source)
    # The source had one of its own before and makes another one.
    assert not already_effective(_now(whole), piece, parse_create_table(whole, _CONTEXT))


@pytest.mark.parametrize(
    ("text", "again", "seen"),
    [
        ("TRUNCATE t", True, False),
        ("ALTER TABLE t MODIFY a INT", True, True),
        ("ALTER TABLE t MODIFY a INT UNIQUE", False, True),
        ("ALTER TABLE t ADD a INT", False, True),
        ("ALTER TABLE t ADD COLUMN IF NOT EXISTS a INT", True, True),
        ("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u", False, False),
        ("ALTER TABLE t REORGANIZE PARTITION p INTO (PARTITION p VALUES LESS THAN (1))", False, False),
        ("ALTER TABLE t DROP PARTITION p", False, True),
        ("ALTER TABLE t COALESCE PARTITION 1", False, True),
        ("ALTER TABLE t ENGINE=InnoDB", True, True),
        ("ALTER TABLE t FORCE", True, False),
        ("CREATE TABLE t (a INT)", False, True),
        ("CREATE TABLE IF NOT EXISTS t (a INT)", True, True),
        ("DROP TABLE t", False, True),
        ("RENAME TABLE a TO b", False, True),
        ("CREATE DATABASE d", False, True),
    ],
)
def test_what_may_run_twice_and_what_shows(text: str, again: bool, seen: bool) -> None:
    assert idempotent(_piece(text)) is again
    assert shows_in_structure(_piece(text)) is seen


def test_expected_structure_is_the_one_that_counts_as_done() -> None:
    before = _now()
    for text in ("ALTER TABLE t ADD c TEXT FIRST", "ALTER TABLE t DROP COLUMN b", "ALTER TABLE t DROP INDEX ka"):
        piece = _piece(text)
        after = expected_after(before, piece)
        assert set(after) == set(before)
        assert not already_effective(before, piece)
        assert already_effective(after, piece)


def test_tables_come_and_go() -> None:
    nothing = {_T: None}
    create = _piece("CREATE TABLE t (id INT, b VARCHAR(3))")
    after = expected_after(nothing, create)
    there = after[_T]
    assert there is not None
    assert there.columns[1].charset is None  # the schema's, which nobody told
    shown = parse_create_table("CREATE TABLE `t` (`id` int, `b` varchar(3)) DEFAULT CHARSET=latin1", _CONTEXT)
    assert same_structure(there, shown)
    assert expected_after(after, _piece("DROP TABLE t")) == nothing
    renamed = expected_after({_T: there, TableName("d", "u"): None}, _piece("RENAME TABLE t TO u"))
    assert renamed[_T] is None
    assert renamed[TableName("d", "u")] is not None


def test_where_the_structure_does_not_allow_it_the_server_shall_say_why() -> None:
    assert expected_after(_now(), _piece("ALTER TABLE t DROP COLUMN nope")) == _now()


_PLAIN = (
    "CREATE TABLE t (id INT NOT NULL, a INT DEFAULT '5', b VARCHAR(10), PRIMARY KEY (id), KEY ka (a),"
    " CONSTRAINT c CHECK (a > 0)) DEFAULT CHARSET=utf8mb4 PARTITION BY RANGE (id) (PARTITION p1 VALUES LESS THAN (9))"
)


def _after_in_schema(text: str, charset: str, collation: str) -> object:
    """The tables after a statement where their schema has these defaults."""
    default = TableSchema(TableName("d", ""), (), charset=charset, collation=collation)
    gone: Mapping[TableName, TableSchema | None] = {TableName("d", "new"): None}
    before = {**_now(_PLAIN), **gone, default.name: default}
    after = expected_after(before, _piece(text))
    assert any(after[name] is not schema for name, schema in before.items())  # it is followed
    return {name: schema for name, schema in after.items() if name.table}


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE t ADD COLUMN c VARCHAR(9)",
        "ALTER TABLE t ADD COLUMN c VARCHAR(9) CHARACTER SET latin1",
        "ALTER TABLE t ADD COLUMN c ENUM('x'), ADD INDEX (c)",
        "ALTER TABLE t MODIFY a TEXT",
        "ALTER TABLE t CHANGE b c CHAR(3)",
        "ALTER TABLE t DROP COLUMN b",
        "ALTER TABLE t RENAME COLUMN b TO c",
        "ALTER TABLE t ADD INDEX (b)",
        "CREATE UNIQUE INDEX k ON t (b)",
        "ALTER TABLE t DROP INDEX ka",
        "DROP INDEX ka ON t",
        "ALTER TABLE t DROP PRIMARY KEY",
        "ALTER TABLE t RENAME INDEX ka TO kb",
        "ALTER TABLE t ALTER INDEX ka INVISIBLE",
        "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES p (id)",
        "ALTER TABLE t ADD CHECK (b > 'a')",
        "ALTER TABLE t DROP CHECK c",
        "ALTER TABLE t ALTER COLUMN b SET DEFAULT 'x'",
        "ALTER TABLE t ADD PARTITION (PARTITION p2 VALUES LESS THAN (99))",
        "ALTER TABLE t RENAME TO new",
        "RENAME TABLE t TO new",
        "DROP TABLE t",
    ],
)
def test_what_asks_for_no_defaults_of_the_schema_does_the_same_under_any(text: str) -> None:
    assert not depends_on_schema_defaults(_piece(text))
    assert _after_in_schema(text, "latin1", "latin1_swedish_ci") == _after_in_schema(text, "utf8mb4", "utf8mb4_bin")


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE new (v VARCHAR(9))",
        "ALTER TABLE t CONVERT TO CHARACTER SET DEFAULT",
        "ALTER TABLE t DEFAULT CHARACTER SET DEFAULT, ADD COLUMN c TEXT",
    ],
)
def test_what_takes_the_defaults_of_the_schema_asks_for_them(text: str) -> None:
    assert depends_on_schema_defaults(_piece(text))
    assert _after_in_schema(text, "latin1", "latin1_swedish_ci") != _after_in_schema(text, "utf8mb4", "utf8mb4_bin")


@pytest.mark.parametrize("text", ["CREATE DATABASE e", "ALTER DATABASE d COLLATE utf8mb4_bin", "DROP DATABASE d"])
def test_what_is_about_a_schema_asks_for_it(text: str) -> None:
    assert depends_on_schema_defaults(_piece(text))
