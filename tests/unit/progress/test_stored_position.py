"""A position comes back from its columns as it was, also before its file is known."""

from __future__ import annotations

import pytest

from dm.gtid import GtidSet
from dm.position import MAGIC_SIZE, Position
from dm.progress.lane_rows import position_columns, read_position

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@pytest.mark.parametrize(
    "position",
    [
        None,
        Position(UUID, "mysql-bin.000007", 1 << 33),
        Position(UUID, "mysql-bin.000007", 154, GtidSet.parse(f"{UUID}:1-5", "mysql")),
        Position(UUID, "", MAGIC_SIZE, GtidSet.parse(f"{UUID}:1-5", "mysql")),
        Position("1-1", "", MAGIC_SIZE, GtidSet.parse("0-1-5", "mariadb")),
    ],
)
def test_a_position_is_read_as_it_was_stored(position: Position | None) -> None:
    name, offset, gtid, uuid = position_columns(position)
    assert read_position(uuid, name, offset, gtid) == position
