"""Which target tables a cancelled addition drops, after what the source has executed meanwhile."""

from __future__ import annotations

import pytest

from dm.ident import TableName
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.piece import Piece
from dm.progress.joining.table_joining import made_after


def names(text: str) -> frozenset[TableName]:
    return frozenset(TableName("s", name) for name in text.split())


@pytest.mark.parametrize(
    ("made", "statement", "there", "after"),
    [
        ("a", "CREATE TABLE b (id INT)", "a", "a b"),
        ("a", "CREATE TABLE b LIKE a", "a", "a b"),
        ("a", "CREATE TABLE IF NOT EXISTS b (id INT)", "a b", "a"),  # somebody else's
        ("a", "CREATE OR REPLACE TABLE b (id INT)", "b", "a"),
        ("a", "RENAME TABLE a TO b", "a", "a b"),  # as long as it may be undone by a crash
        ("a", "ALTER TABLE a RENAME TO b", "a", "a b"),
        ("a", "RENAME TABLE x TO b", "a x", "a"),
        ("a", "RENAME TABLE a TO b, x TO a", "a x", ""),
        ("a c", "RENAME TABLE a TO old, c TO a", "a c", "a c old"),
        ("new", "RENAME TABLE x TO old, new TO x", "new x", ""),
        ("a b", "RENAME TABLE a TO t, x TO a, t TO x", "a b x", "b"),
        ("a", "ALTER TABLE x ADD COLUMN v INT", "a x", "a"),
        ("a", "DROP TABLE a", "a", "a"),
        ("a", "TRUNCATE TABLE a", "a", "a"),
    ],
)
def test_only_what_is_surely_of_the_load_is_dropped(made: str, statement: str, there: str, after: str) -> None:
    piece = Piece.of(statement, SourceContext("mariadb", 101106, "s"))
    assert made_after(names(made), piece, names(there)) == names(after)
