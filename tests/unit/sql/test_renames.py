"""Which names are no more behind a RENAME TABLE."""

from __future__ import annotations

import pytest

from dm.sql.context import SourceContext
from dm.sql.piece import Piece


@pytest.mark.parametrize(
    ("renames", "gone"),
    [
        ("a TO b", ["a"]),
        ("a TO b, b TO c", ["a"]),
        ("a TO old, new TO a", ["new"]),
        ("a TO x, b TO a, x TO b", []),
        ("a TO x, b TO a", ["b"]),
    ],
)
def test_a_name_is_gone_where_no_table_has_it_behind_the_statement(renames: str, gone: list[str]) -> None:
    piece = Piece.of(f"RENAME TABLE {renames}", SourceContext("mysql", 80400, "s"))
    assert [name.table for name in piece.names_gone] == gone
