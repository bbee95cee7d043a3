"""What counts as the same structure, where the target tells it in another way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm.equality.structure import ColumnFacts, Structure, differences


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
    assert (differences(table(source), table(target), same_flavor=True, tidb=True) == []) is equal


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
    assert (differences(*sides, same_flavor=True, tidb=True) == []) is equal
    assert differences(*sides, same_flavor=True)


@pytest.mark.parametrize(("rest", "there"), [("", ""), ("auto_increment ", "auto_increment")])
def test_a_tidb_has_no_invisible_columns(rest: str, there: str) -> None:
    hidden = ColumnFacts("c", "int", True, None, None, None, f"{rest}invisible", "", "")
    shown = ColumnFacts("c", "int", True, None, None, None, there, "", "")
    sides = [Structure((column,), (), frozenset(), frozenset()) for column in (hidden, shown)]
    assert differences(*sides, same_flavor=True, tidb=True) == []
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
