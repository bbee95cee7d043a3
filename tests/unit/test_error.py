"""What an error shows of its details."""

from __future__ import annotations

from dm.errors import DMError


def test_a_long_statement_is_shown_by_its_beginning() -> None:
    statement = "ALTER TABLE t ADD c INT COMMENT '" + "x" * 5000 + "'"
    error = DMError("ddl-not-understood", statement=statement, why="it is long")
    assert statement[:400] in error.message
    assert len(error.message) < 700
    assert error.details["statement"] == statement
