"""A text is kept whole where the target's column has room for the most bytes that so many characters take."""

from __future__ import annotations

import pytest

from dm.mysql.schema.table import Column, faithful


@pytest.mark.parametrize(
    ("charset", "characters"), [("latin1", 255), ("cp1251", 255), ("gbk", 127), ("utf8mb3", 85), ("utf8mb4", 63)]
)
def test_characters_that_a_tinytext_has_room_for(charset: str, characters: int) -> None:
    target = Column("c", "tinytext", charset=charset)
    assert faithful(Column("c", "varchar", length=characters, charset=charset), target)
    assert not faithful(Column("c", "varchar", length=characters + 1, charset=charset), target)
