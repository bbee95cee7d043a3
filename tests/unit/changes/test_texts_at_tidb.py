"""Texts of other character sets go to a TiDB in UTF-8, which has no introducers for them."""

from __future__ import annotations

import pytest

from dm.changes.column_map import map_columns
from dm.changes.row_keys import exact
from dm.ident import TableName
from dm.mysql.dialect import Flavor
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import Column, TableSchema
from dm.mysql.sql.context import SourceContext

TABLE = parse_create_table(
    "CREATE TABLE t (l VARCHAR(9) CHARACTER SET latin1, g VARCHAR(9) CHARACTER SET gbk, u VARCHAR(9) CHARACTER SET"
    " utf8mb4, b VARBINARY(9))",
    SourceContext("mysql", 80011, "s"),
)
VALUES = ("Mü€".encode("cp1252"), "中".encode("gbk"), "ü".encode(), b"\xfc")


@pytest.mark.parametrize(
    ("flavor", "literals"),
    [
        ("tidb", ["'Mü€'".encode(), "'中'".encode(), "'ü'".encode(), b"0xfc"]),
        ("mysql", [b"_latin1 0x4dfc80", b"_gbk 0xd6d0", "'ü'".encode(), b"0xfc"]),
    ],
)
def test_literals(flavor: Flavor, literals: list[bytes]) -> None:
    mapped = map_columns(TABLE.name, TABLE.columns, TABLE, json_types=False, flavor=flavor)
    assert [column.encode(value) for column, value in zip(mapped, VALUES, strict=True)] == literals
    assert [column.encode(None) for column in mapped] == [b"NULL"] * 4


def test_a_tidb_has_no_negative_zero_to_look_for() -> None:
    (column,) = map_columns(
        TABLE.name,
        (number := Column("d", "double"),),
        TableSchema(TABLE.name, (number,)),
        json_types=False,
        flavor="tidb",
    )
    assert b"'-'" in exact(column, "mysql", TABLE.name, indexed=False)(-0.0)
    assert b"'-'" not in exact(column, "tidb", TABLE.name, indexed=False)(-0.0)


def test_bytes_that_are_no_text_are_left_to_the_target() -> None:
    mapped = map_columns(TABLE.name, TABLE.columns, TABLE, json_types=False, flavor="tidb")
    assert mapped[1].encode(b"\xff") == b"_utf8mb4 0xff"


def test_a_text_of_latin1_is_found_by_its_bytes_in_utf8() -> None:
    latin1, gbk, *_ = map_columns(TABLE.name, TABLE.columns, TABLE, json_types=False, flavor="tidb")
    name = TableName("s", "t")
    assert b"USING utf8mb4" in exact(latin1, "tidb", name, indexed=False)(VALUES[0])
    assert exact(latin1, "tidb", name, indexed=False)(VALUES[0]).startswith(b"HEX(`l`)=HEX(CONVERT(")
    assert b"USING latin1" in exact(latin1, "mysql", name, indexed=False)(VALUES[0])
    assert exact(latin1, "mysql", name, indexed=False)(VALUES[0]).startswith(b"CAST(`l` AS BINARY)=CAST(CONVERT(")
    assert b"USING gbk" in exact(gbk, "tidb", name, indexed=False)(VALUES[1])
