"""What the load makes of extracted columns."""

from __future__ import annotations

import pyarrow
import pytest

from dm.dumpfiles.literals import constant_literal, row_literals
from dm.loader.target_tables import misfit
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import Column, TableSchema
from dm.mysql.sql.context import SourceContext

CONTEXT = SourceContext("mysql", 80400, "s")


def parsed(body: str) -> TableSchema:
    return parse_create_table(f"CREATE TABLE t ({body})", CONTEXT)


@pytest.mark.parametrize(
    ("value", "column", "literal"),
    [
        ("1", Column("c", "varchar", 1, charset="utf8mb4"), b"_utf8mb4 0x31"),
        ("é'", Column("c", "varchar", 2, charset="utf8mb4"), b"_utf8mb4 0xc3a927"),
        ("é", Column("c", "varbinary", 2), b"_binary 0xc3a9"),
        ("", Column("c", "varchar", 1, charset="utf8mb4"), b"''"),
    ],
)
def test_a_constant_says_in_which_character_set_it_is(value: str, column: Column, literal: bytes) -> None:
    assert constant_literal(value.encode(), column) == literal


def test_constants_stand_after_the_columns_of_the_file() -> None:
    batch = pyarrow.RecordBatch.from_arrays([pyarrow.array([b"1", None], pyarrow.binary())], names=["a"])
    assert list(row_literals(batch, [Column("a", "int")], [b"'x'", b"''"])) == [b"('1','x','')", b"(NULL,'x','')"]


def test_a_column_that_a_route_fills_may_demand_a_value() -> None:
    source, target = parsed("id INT"), parsed("id INT, c VARCHAR(9) NOT NULL, d INT NOT NULL")
    assert misfit(source, target, {"c", "d"}) is None
    assert misfit(source, target, {"c"}) == "its column d demands a value"
