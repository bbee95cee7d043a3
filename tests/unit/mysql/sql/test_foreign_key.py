"""Which statements bring a foreign key that changes rows by itself."""

from __future__ import annotations

import pytest

from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.split import split

CONTEXT = SourceContext("mariadb", 101100, "d")


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE", True),
        ("ALTER TABLE c ADD CONSTRAINT f FOREIGN KEY (p) REFERENCES p (id) ON UPDATE /* ! */ SET  NULL", True),
        ("ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES p (id) ON DELETE RESTRICT ON UPDATE cascade", True),
        ("ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES p (id) ON DELETE NO ACTION ON UPDATE RESTRICT", False),
        ("ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES p (id)", False),
        ("CREATE TABLE c (id INT, p INT, FOREIGN KEY (p) REFERENCES p (id) ON DELETE SET NULL)", True),
        ("CREATE TABLE c (t TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, p INT, FOREIGN KEY (p) REFERENCES p (id))", False),
        ("CREATE TABLE c (id INT COMMENT 'ON DELETE CASCADE')", False),
        ("CREATE TABLE c (p INT REFERENCES p (id) ON DELETE CASCADE)", True),
        ("ALTER TABLE c ADD COLUMN p INT REFERENCES p (id) ON DELETE CASCADE", True),
        ("DROP TABLE c CASCADE", False),
    ],
)
def test_an_acting_foreign_key_is_seen(statement: str, expected: bool) -> None:
    assert any(piece.adds_acting_foreign_key for piece in split(statement, CONTEXT)) is expected
