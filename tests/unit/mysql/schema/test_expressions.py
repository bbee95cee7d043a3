"""Which tables' expressions depend on the session: its time zone, its weeks, its backslashes."""

from __future__ import annotations

import pytest

from dm.ident import TableName
from dm.mysql.schema.expressions import (
    column_depends_on_zone,
    depends_on_zone,
    leaves_week_format,
    reads_backslashes,
)
from dm.mysql.schema.table import Column, TableSchema


@pytest.mark.parametrize(
    ("base", "name", "expression", "depends"),
    [
        ("timestamp", "ts", "hour(`ts`)", True),
        ("timestamp", "timestamp", "cast(`timestamp` as date)", True),
        ("datetime", "ts", "hour(`ts`)", False),
        ("datetime", "timestamp", "cast(`timestamp` as date)", False),  # the name of a column, not the function
        ("varchar", "v", "timestamp(`v`)", True),
        ("datetime", "ts", "unix_timestamp(`ts`)", True),
        ("int", "unix_timestamp", "(`unix_timestamp` + 1)", False),
    ],
)
def test_moments_and_functions_that_ask_for_the_zone_depend_on_it(
    base: str, name: str, expression: str, depends: bool
) -> None:
    made = Column("made", "varchar", length=40, generated="stored", expression=expression)
    table = TableSchema(TableName("d", "t"), (Column(name, base), made))
    assert depends_on_zone(table) is depends
    assert column_depends_on_zone(made, table) is depends


@pytest.mark.parametrize(
    ("expression", "leaves"),
    [
        ("week(`d`)", True),
        ("(WEEK (`d`) + 1)", True),
        ("week(concat(`a`,'-01'))", True),  # a comma of another call
        ("week(`d`,0)", False),
        ("week(greatest(`a`,`b`),3)", False),
        ("concat(`week`,'week(d)')", False),
        ("yearweek(`d`,0)", False),
        ("week(`d`,3) + week(`d`)", True),
    ],
)
def test_a_week_without_a_mode_is_the_sessions(expression: str, leaves: bool) -> None:
    assert leaves_week_format(expression) is leaves


@pytest.mark.parametrize(
    ("expression", "reads"),
    [
        (r"(`c` like _utf8mb4'a\\_b')", True),
        ("(`c` like `d`)", True),
        (r"concat(`c`,_utf8mb4'\\')", True),
        ("(`c` like _utf8mb4'a|_b' escape _utf8mb4'|')", False),
        ("((`c` like _utf8mb4'a|_b' escape _utf8mb4'|') or (`c` like `d`))", True),
        ("(`like` + 1)", False),
        ("concat(`c`,_utf8mb4'like')", False),
    ],
)
def test_backslashes_and_escapes_that_are_not_named_are_the_modes(expression: str, reads: bool) -> None:
    assert reads_backslashes(expression) is reads
