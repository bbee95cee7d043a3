"""Which tables' expressions depend on the session's time zone."""

from __future__ import annotations

import pytest

from dm.ident import TableName
from dm.mysql.schema.expressions import column_depends_on_zone, depends_on_zone
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
