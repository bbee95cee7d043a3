"""What messages show of a statement."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from dm.mysql.binlog.value import Value
from dm.mysql.schema.table import Column
from dm.session.answers import shape


def test_rows_become_question_marks() -> None:
    sql = b"INSERT INTO `d1`.`t'2` (`a`,`b`) VALUES (1,'it''s \\' here'),(-2.5e-3,_latin1 0xE9),(NULL,'x')"
    assert shape(sql) == "INSERT INTO `d1`.`t'2` (`a`,`b`) VALUES (?,?),..."


def test_long_statements_are_cut() -> None:
    assert len(shape(b"SELECT " + b"`a`," * 1000)) == 200
    assert shape(b"SELECT '" + b"canary " * 100_000) == "SELECT ?"


_TEXT = Column("c", "varchar", length=200, charset="utf8mb4")
_BYTES = Column("c", "varbinary", length=200)


@given(st.text(alphabet="abc'\\`\"0x1\0\n -", max_size=20))
def test_no_value_shines_through(noise: str) -> None:
    value: Value = (noise + "canary" + noise).encode()
    for column in (_TEXT, _BYTES):
        sql = b"UPDATE `d`.`t` SET `c`=" + column.encoder()(value) + b" WHERE `id`=77"
        assert re.fullmatch(r"UPDATE `d`\.`t` SET `c`=\? WHERE `id`=\?", shape(sql))
