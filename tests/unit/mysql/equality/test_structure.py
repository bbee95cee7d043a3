"""What counts as the same structure, where the target tells it in another way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm.mysql.dialect import Flavor
from dm.mysql.equality.structure import ColumnFacts, Structure, column_facts, differences


def table(type_: str, default: str | None = None) -> Structure:
    column = ColumnFacts("c", type_, True, default, None, None, "", "", "")
    return Structure((column,), (), frozenset(), frozenset())


@pytest.mark.parametrize(
    ("source", "target", "equal"),
    [
        ("int(10) unsigned zerofill", "int unsigned", True),
        ("decimal(10,2) unsigned zerofill", "decimal(10,2) unsigned", True),
        ("int(10) unsigned zerofill", "int", False),
        ("int", "int unsigned", False),
        ("decimal(10,2) unsigned zerofill", "decimal(10,3) unsigned", False),
    ],
)
def test_a_tidb_tells_of_no_zerofill(source: str, target: str, equal: bool) -> None:
    assert (differences(table(source), table(target), same_flavor=True, respells=True) == []) is equal


def test_elsewhere_zerofill_counts() -> None:
    assert differences(table("int(10) unsigned zerofill"), table("int unsigned"), same_flavor=True)


@pytest.mark.parametrize(
    ("type_", "source", "target", "equal"),
    [
        ("decimal(30,9)", "-0.500000000", "-0.5", True),
        ("decimal(9,3)", "0.000", "0", True),
        ("decimal(9,3)", "0.100", "0.01", False),
        ("decimal(9,0)", "0", "0.000000001", True),
        (
            "decimal(65,30)",
            "1234567890123456789012345678901234.500000000000000000000000000000",
            "1234567890123456789012345678901234.5",
            True,
        ),
        ("decimal(9,1)", "0.1", "0.06", True),
        ("decimal(9,1)", "0.0", "0.06", False),
        ("float", "16777200", "16777216", True),
        ("float", "16777200", "16787216", False),
        ("float(9,2)", "1.50", "1.5", True),
        ("double", "16777200", "16777216", False),
        ("datetime(3)", "2024-01-01 00:00:00.500", "2024-01-01 00:00:00.5", True),
        ("datetime", "2024-01-01 00:00:00", "2024-01-01", True),
        ("datetime", "2024-01-01 00:00:01", "2024-01-01", False),
        ("time", "00:00:00", "00:00:01", False),
        ("varchar(9)", "1.0", "1", False),
        ("binary(2)", "0x", "\0\0", True),
        ("char(9)", "a", "a  ", True),
        ("varchar(9)", "a", "a  ", False),
        ("year", "0000", "0", True),
        ("year", "2000", "0", True),
        ("year", "2024", "24", True),
        ("year", "1999", "99", True),
        ("year", "2001", "0", False),
        ("int", "1", None, False),
    ],
)
def test_a_tidb_tells_a_default_as_it_was_written(type_: str, source: str, target: str | None, equal: bool) -> None:
    sides = table(type_, source), table(type_, target)
    assert (differences(*sides, same_flavor=True, respells=True) == []) is equal
    assert differences(*sides, same_flavor=True)


@pytest.mark.parametrize(("rest", "there"), [("", ""), ("auto_increment ", "auto_increment")])
def test_a_tidb_has_no_invisible_columns(rest: str, there: str) -> None:
    hidden = ColumnFacts("c", "int", True, None, None, None, f"{rest}invisible", "", "")
    shown = ColumnFacts("c", "int", True, None, None, None, there, "", "")
    sides = [Structure((column,), (), frozenset(), frozenset()) for column in (hidden, shown)]
    assert differences(*sides, same_flavor=True, respells=True) == []
    assert differences(*sides, same_flavor=True) == [
        f"column c: extra is {hidden.extra!r} at the source, {there!r} at the target"
    ]


@pytest.mark.parametrize(
    ("source", "target", "equal"),
    [
        ("stored", "stored (`a` + 1)", True),
        ("virtual (`a` + 1)", "virtual", True),
        ("virtual", "stored (`a` + 1)", False),
        ("virtual", "", False),
        ("stored (`a` + 1)", "stored (`a` + 2)", False),
    ],
)
def test_an_expression_that_one_side_does_not_tell_is_not_compared(source: str, target: str, equal: bool) -> None:
    one, other = (replace(table("int").columns[0], generated=each) for each in (source, target))
    of_one, of_other = (Structure((each,), (), frozenset(), frozenset()) for each in (one, other))
    assert (differences(of_one, of_other, same_flavor=True) == []) is equal


@pytest.mark.parametrize(
    ("flavor", "version", "type_", "default", "extra", "told"),
    [
        ("mysql", 50624, "timestamp", "CURRENT_TIMESTAMP", "", "current_timestamp"),
        ("mysql", 50624, "datetime(3)", "CURRENT_TIMESTAMP(3)", "", "current_timestamp(3)"),
        ("mysql", 90704, "timestamp", "CURRENT_TIMESTAMP", "DEFAULT_GENERATED", "current_timestamp"),
        ("mysql", 50624, "varchar(20)", "CURRENT_TIMESTAMP", "", "CURRENT_TIMESTAMP"),
        ("mariadb", 100123, "timestamp", "CURRENT_TIMESTAMP", "", "current_timestamp"),
        ("mariadb", 100206, "varchar(9)", "it's", "", "it's"),
        ("mariadb", 100206, "varchar(9)", "'", "", "'"),
        ("mariadb", 100206, "varchar(9)", "NULL", "", "NULL"),
        ("mariadb", 100207, "varchar(9)", "'it''s'", "", "it's"),
        ("mariadb", 100207, "varchar(9)", "NULL", "", None),
        ("mariadb", 101119, "timestamp", "current_timestamp()", "", "current_timestamp"),
    ],
)
def test_a_default_is_the_same_however_a_version_writes_it(
    flavor: Flavor, version: int, type_: str, default: str, extra: str, told: str | None
) -> None:
    row = ("c", type_, "YES", default, None, None, extra, None, "")
    assert column_facts(row, [], flavor, version).default == told


def test_what_older_servers_call_utf8_is_utf8mb3() -> None:
    row = ("c", "char(9)", "YES", None, "utf8", "utf8_bin", "", None, "")
    older = column_facts(row, [], "mysql", 50624)
    assert (older.charset, older.collation) == ("utf8mb3", "utf8mb3_bin")
    row = ("c", "char(9)", "YES", None, "utf8mb4", "utf8mb4_bin", "", None, "")
    assert column_facts(row, [], "mysql", 50624).collation == "utf8mb4_bin"


@pytest.mark.parametrize(
    ("extra", "expression", "generated"),
    [
        ("PERSISTENT", None, "stored"),
        ("VIRTUAL", None, "virtual"),
        ("STORED GENERATED", "`a` + 1", "stored `a` + 1"),
        ("VIRTUAL GENERATED INVISIBLE", "`a` + 1", "virtual `a` + 1"),
        ("auto_increment", None, ""),
    ],
)
def test_a_generated_column_has_a_kind_also_without_an_expression(
    extra: str, expression: str | None, generated: str
) -> None:
    row = ("c", "int", "YES", None, None, None, extra, expression, "")
    assert column_facts(row, [], "mariadb", 100123).generated == generated
