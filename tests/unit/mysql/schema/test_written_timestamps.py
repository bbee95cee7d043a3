"""What TIMESTAMPs mean at the source, in words for a target whose sessions can't be told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.effect import expected_after
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import TableSchema
from dm.mysql.schema.written_timestamps import with_written_timestamps
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.piece import Piece

OLD = SourceContext("mysql", 50624, "s", explicit_defaults_for_timestamp=False)
NEW = SourceContext("mysql", 90704, "s")
TIDB = SourceContext("tidb", 80011, "")
OLDER = SourceContext("mariadb", 100523, "")
OFF = replace(OLDER, explicit_defaults_for_timestamp=False)
TABLE = TableName("s", "t")
FILLED = "DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP"
ZERO = "DEFAULT '0000-00-00 00:00:00'"


def written(
    statement: str, before: str | None = None, target: SourceContext = TIDB, source: SourceContext = OLD
) -> str:
    known = None if before is None else parse_create_table(before, source)
    piece = Piece.of(statement, source)

    def after() -> TableSchema | None:
        return expected_after({TABLE: known}, piece)[TABLE]

    return with_written_timestamps(piece, target, after).text


@pytest.mark.parametrize(
    ("columns", "meant"),
    [
        ("a TIMESTAMP, b TIMESTAMP", f"a TIMESTAMP NOT NULL {FILLED}, b TIMESTAMP NOT NULL {ZERO}"),
        ("a TIMESTAMP NOT NULL, b TIMESTAMP NULL", f"a TIMESTAMP {FILLED} NOT NULL, b TIMESTAMP NULL"),
        ("a TIMESTAMP NULL, b TIMESTAMP", f"a TIMESTAMP NULL, b TIMESTAMP NOT NULL {ZERO}"),
        (
            "a TIMESTAMP(3) COMMENT 'x', KEY (a)",
            "a TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3) COMMENT 'x', KEY (a)",
        ),
        ("a TIMESTAMP DEFAULT NOW()", "a TIMESTAMP NOT NULL DEFAULT NOW()"),
        ("a TIMESTAMP ON UPDATE NOW()", "a TIMESTAMP NOT NULL ON UPDATE NOW()"),
        ("d DATETIME, a TIMESTAMP AS (d)", "d DATETIME, a TIMESTAMP AS (d)"),
        ("timestamp INT, x DATETIME", "timestamp INT, x DATETIME"),
        ("timestamp TIMESTAMP DEFAULT 0", "timestamp TIMESTAMP NOT NULL DEFAULT 0"),
    ],
)
def test_a_created_table_says_what_its_timestamps_have(columns: str, meant: str) -> None:
    assert written(f"CREATE TABLE t ({columns})") == f"CREATE TABLE t ({meant})"


@pytest.mark.parametrize(
    ("before", "operations", "meant"),
    [
        ("a INT", "ADD COLUMN b TIMESTAMP AFTER a", f"ADD COLUMN b TIMESTAMP NOT NULL {FILLED} AFTER a"),
        ("a TIMESTAMP", "ADD COLUMN b TIMESTAMP", f"ADD COLUMN b TIMESTAMP NOT NULL {ZERO}"),
        ("a TIMESTAMP", "ADD COLUMN b TIMESTAMP FIRST", f"ADD COLUMN b TIMESTAMP NOT NULL {FILLED} FIRST"),
        ("a DATETIME", "MODIFY a TIMESTAMP", f"MODIFY a TIMESTAMP NOT NULL {FILLED}"),
        ("a DATETIME", "CHANGE a c TIMESTAMP", f"CHANGE a c TIMESTAMP NOT NULL {FILLED}"),
        ("a DATETIME", "ADD COLUMN b INT", "ADD COLUMN b INT"),
    ],
)
def test_an_alter_says_what_the_whole_table_makes_of_it(before: str, operations: str, meant: str) -> None:
    assert written(f"ALTER TABLE t {operations}", f"CREATE TABLE t ({before})") == f"ALTER TABLE t {meant}"


@pytest.mark.parametrize(
    "target",
    [
        replace(TIDB, flavor="mysql"),
        SourceContext("mariadb", 101000, ""),
        OFF,
    ],
)
def test_a_target_that_is_told_or_means_the_same_gets_the_statement_as_it_is(target: SourceContext) -> None:
    assert written("CREATE TABLE t (a TIMESTAMP)", target=target) == "CREATE TABLE t (a TIMESTAMP)"


def test_a_mariadb_before_10_10_is_told_what_a_source_without_the_setting_means() -> None:
    statement = f"CREATE TABLE t (a TIMESTAMP NOT NULL {FILLED})"
    assert written("CREATE TABLE t (a TIMESTAMP)", target=OLDER) == statement


@pytest.mark.parametrize(
    ("columns", "meant"),
    [
        ("a TIMESTAMP, b INT", "a TIMESTAMP NULL, b INT"),
        ("a TIMESTAMP(3) DEFAULT NOW(3)", "a TIMESTAMP(3) NULL DEFAULT NOW(3)"),
        ("a TIMESTAMP DEFAULT NULL", "a TIMESTAMP NULL DEFAULT NULL"),
        (
            "a TIMESTAMP NOT NULL DEFAULT NOW(), b TIMESTAMP NULL",
            "a TIMESTAMP NOT NULL DEFAULT NOW(), b TIMESTAMP NULL",
        ),
    ],
)
def test_a_target_without_the_setting_is_told_what_a_source_with_it_means(columns: str, meant: str) -> None:
    assert written(f"CREATE TABLE t ({columns})", target=OFF, source=NEW) == f"CREATE TABLE t ({meant})"


def test_a_default_that_the_target_would_add_pauses() -> None:
    with pytest.raises(DMError, match="TIMESTAMP a has no default, and the target gives it one"):
        written("CREATE TABLE t (a TIMESTAMP NOT NULL)", target=OFF, source=NEW)


@pytest.mark.parametrize("said", ["NULL", "NULL DEFAULT NULL", "DEFAULT NULL NULL", f"NOT NULL {FILLED}"])
def test_what_says_all_needs_no_table(said: str) -> None:
    statement = f"ALTER TABLE t ADD COLUMN b TIMESTAMP {said}"
    assert written(statement) == statement


@pytest.mark.parametrize("statement", ["CREATE TABLE t LIKE o", "CREATE TABLE IF NOT EXISTS t (LIKE o)"])
def test_a_copied_table_has_what_the_targets_own_has(statement: str) -> None:
    assert written(statement) == statement


def test_a_table_that_is_not_known_pauses() -> None:
    with pytest.raises(DMError, match="depends on a table that is not known"):
        written("ALTER TABLE t ADD COLUMN b TIMESTAMP")
