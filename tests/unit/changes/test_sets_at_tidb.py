"""A SET goes to a TiDB by the names of its members where its number would be taken for something else."""

from __future__ import annotations

import pytest

from dm.changes.column_map import MappedColumn, map_columns
from dm.changes.row_keys import equal
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.dialect import Flavor
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.context import SourceContext

MANY = ",".join(f"'m{number}'" for number in range(64))


def table(members: str) -> TableSchema:
    return parse_create_table(f"CREATE TABLE t (s SET({members}))", SourceContext("mysql", 80011, "s"))


def mapped(members: str, *, flavor: Flavor = "tidb", target: str = "") -> MappedColumn:
    source = table(members)
    there = table(target or members)
    (column,) = map_columns(TableName("s", "t"), source.columns, there, json_types=False, flavor=flavor)
    return column


@pytest.mark.parametrize(
    ("members", "value", "literal"),
    [
        ("'a','b'", 3, b"3"),
        ("'2','1','3'", 3, b"'2,1'"),
        ("'2','1','3'", 0, b"''"),
        ("'2','it''s'", 2, b"'it''s'"),
        ("'','9'", 0, b"0"),
        ("'','9'", 1, b"1"),
        ("'','9'", 3, b"',9'"),
        (MANY, 1 << 63 | 1, b"'m0,m63'"),
        (MANY, None, b"NULL"),
    ],
)
def test_literals(members: str, value: int | None, literal: bytes) -> None:
    assert mapped(members).encode(value) == literal


def test_other_servers_get_numbers() -> None:
    assert mapped("'2','1','3'", flavor="mysql").encode(3) == b"3"
    assert mapped(MANY, flavor="mysql").encode(1 << 63) == b"9223372036854775808"


def test_names_are_the_targets() -> None:
    assert mapped("'a','2'", target="'2','a','x'").encode(3) == b"'2,a'"


@pytest.mark.parametrize(("members", "value"), [("'','1'", 1), ("'','0'", 0), (f"''{MANY[4:]}", 1)])
def test_an_empty_member_that_nothing_would_tell_is_refused(members: str, value: int) -> None:
    with pytest.raises(DMError) as caught:
        mapped(members).encode(value)
    assert caught.value.name == "member-missing"


def test_a_wide_set_is_found_by_its_names() -> None:
    column = mapped(MANY)
    assert equal(column, column.encode(1 << 63)) == b"`s`='m63'"
    column = mapped(MANY, flavor="mysql")
    assert b"|0=" in equal(column, column.encode(1 << 63))
