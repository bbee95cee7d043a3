"""Whether a RENAME TABLE gives a table a name for a moment only."""

from __future__ import annotations

import pytest

from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.piece import Piece


@pytest.mark.parametrize(
    ("renames", "passes"),
    [
        ("a TO b", False),
        ("a TO old, new TO a", False),
        ("a TO b, b TO c", True),
        ("a TO x, b TO a, x TO b", True),
    ],
)
def test_a_name_that_is_taken_away_again(renames: str, passes: bool) -> None:
    piece = Piece.of(f"RENAME TABLE {renames}", SourceContext("mysql", 80400, "s"))
    assert piece.passes_through is passes
