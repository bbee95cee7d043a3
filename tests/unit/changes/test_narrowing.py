"""Which target columns have room: what must be listed, and what must not, since nothing of it can be cut."""

from __future__ import annotations

import pytest

from dm.changes.column_map import keeps_values
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import Column
from dm.mysql.sql.context import SourceContext

CONTEXT = SourceContext("mysql", 80400, "d")


def _column(definition: str) -> Column:
    return parse_create_table(f"CREATE TABLE t (v {definition}) DEFAULT CHARSET utf8mb4", CONTEXT).columns[0]


@pytest.mark.parametrize(
    ("source", "target", "room"),
    [
        ("CHAR(10)", "VARCHAR(10)", True),
        ("CHAR(10)", "VARCHAR(9)", False),
        ("CHAR(10)", "CHAR(10) CHARACTER SET latin1", True),
        ("CHAR(10)", "CHAR(9)", False),
        ("VARCHAR(10)", "CHAR(10)", False),
        ("CHAR(63)", "TINYTEXT", True),
        ("CHAR(64)", "TINYTEXT", False),
        ("CHAR(85) CHARACTER SET utf8mb3", "TINYTEXT", True),
        ("CHAR(255) CHARACTER SET ascii", "TINYTEXT", True),
        ("CHAR(255) CHARACTER SET latin1", "TINYTEXT CHARACTER SET latin1", True),
        ("CHAR(255) CHARACTER SET latin1", "TINYTEXT", False),
        ("CHAR(255)", "TEXT", True),
        ("VARCHAR(255) CHARACTER SET ascii", "TINYTEXT", True),
        ("ENUM('ab\\n','c')", "VARCHAR(3)", True),
        ("ENUM('ab\\n','c')", "CHAR(3)", True),
        ("ENUM('ab\\n','c')", "VARCHAR(2)", False),
        (f"ENUM('{'a' * 255}')", "TINYTEXT", True),
        (f"ENUM('{'é' * 127}\\n\\n')", "TINYTEXT", False),
        (f"ENUM('{'é' * 127}\\n\\n')", "TINYTEXT CHARACTER SET latin1", True),
        ("ENUM('a ') CHARACTER SET binary", "CHAR(10)", False),
        ("SET('ab\\n','c')", "VARCHAR(5)", True),
        ("SET('ab\\n','c')", "VARCHAR(4)", False),
        ("JSON", "TINYTEXT", True),  # a document ends in no white space: the server refuses what is too long
    ],
)
def test_a_text_that_may_be_too_long_has_no_room(source: str, target: str, room: bool) -> None:
    assert keeps_values(_column(source), _column(target)) is room
