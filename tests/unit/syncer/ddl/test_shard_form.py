"""Which statements of shards count as the same."""

from __future__ import annotations

import pytest

from dm.sql.context import SourceContext
from dm.sql.piece import Piece
from dm.sql.split import split
from dm.syncer.ddl.shard_form import form_of

CONTEXT = SourceContext("mysql", 80036, "db")


def form(text: str) -> str:
    """Of a statement, as its pieces go to the target."""
    return form_of(split(text, CONTEXT))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ALTER TABLE t ADD COLUMN a INT", "alter table `db`.`t` add `A` int"),
        ("ALTER TABLE t ADD COLUMN a INT", "ALTER TABLE t ADD COLUMN a INT FIRST"),
        ("ALTER TABLE t ADD COLUMN a INT AFTER b", "ALTER TABLE t ADD COLUMN a INT AFTER c"),
        ("ALTER TABLE t MODIFY a INT FIRST", "ALTER TABLE t MODIFY a INT"),
        ("ALTER TABLE t ADD a INT, ALGORITHM=INSTANT", "ALTER TABLE t ADD a INT, LOCK = NONE, ALGORITHM = COPY"),
        ("CREATE INDEX i ON t (a)", "CREATE INDEX i ON t (a) ALGORITHM = INPLACE LOCK NONE"),
        ("DROP INDEX i ON t", "DROP INDEX i ON t LOCK = NONE"),
        ("ALTER TABLE t DROP COLUMN first", "ALTER TABLE t DROP first"),
    ],
)
def test_what_does_the_same_is_the_same(one: str, other: str) -> None:
    assert form(one) == form(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ALTER TABLE t ADD COLUMN a INT", "ALTER TABLE t ADD COLUMN a BIGINT"),
        ("ALTER TABLE t ADD COLUMN a INT", "ALTER TABLE t ADD COLUMN a INT DEFAULT 7"),
        ("ALTER TABLE t ADD COLUMN a CHAR(1) DEFAULT 'a'", "ALTER TABLE t ADD COLUMN a CHAR(1) DEFAULT 'A'"),
        ("ALTER TABLE t ADD COLUMN a INT", "ALTER TABLE t ADD COLUMN first INT"),
        ("ALTER TABLE t DROP COLUMN a", "ALTER TABLE t DROP COLUMN first"),
        ("ALTER TABLE t DROP INDEX a", "ALTER TABLE t DROP COLUMN a"),
        ("ALTER TABLE t ADD a INT, ADD b INT", "ALTER TABLE t ADD b INT, ADD a INT"),
        ("ALTER TABLE t ADD a INT, ADD b INT", "ALTER TABLE t ADD a INT"),
        ("CREATE INDEX i ON t (a)", "CREATE INDEX i ON t (`lock`)"),
        ("CREATE UNIQUE INDEX i ON t (a)", "CREATE INDEX i ON t (a)"),
        ("CREATE INDEX i ON t (a)", "CREATE INDEX j ON t (a)"),
        ("ALTER TABLE t COMMENT 'a'", "ALTER TABLE t COMMENT 'b'"),
    ],
)
def test_what_does_something_else_is_another_statement(one: str, other: str) -> None:
    assert form(one) != form(other)


def test_a_piece_without_operations_has_a_form() -> None:
    assert form_of([Piece.of("ALTER TABLE t", CONTEXT)]) == ""
