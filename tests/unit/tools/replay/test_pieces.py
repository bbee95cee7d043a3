"""The pieces of a relay have each transaction once, whatever their size."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.errors import DMError
from dm.gtid import GtidSet
from dm.mysql.binlog.header import EventType
from dm.position import Position
from dm.progress.replayed import RelayRange
from dm.tools.replay.pieces import RelayStretch, total_bytes
from tests.unit.sourcelog.relaylog.binlog_bytes import SERVER
from tests.unit.sourcelog.relaylog.small_relay import FILE, SmallRelay

SIZE = 100_000  # of a transaction: some lie between two marks of the index
MEBIBYTE = 1 << 20


@pytest.fixture
def relay(tmp_path: Path) -> SmallRelay:
    small = SmallRelay(tmp_path)
    for count in (30, 3, 45):
        small.write(count, SIZE)
        small.rotate()
    small.write(7, SIZE)
    return small


def transactions(relay: SmallRelay) -> list[RelayRange]:
    """The bytes of each, in order."""
    found: list[RelayRange] = []
    begin = 0
    for file, end, data in relay.expected:
        if data[4] == EventType.GTID:
            begin = end - len(data)
        elif data[4] == EventType.XID:
            found.append(RelayRange(file, begin, end))
    return found


def inside(one: RelayRange, piece: RelayRange) -> bool:
    return one.file == piece.file and piece.begin <= one.begin and one.end <= piece.end


@pytest.mark.parametrize("size", [1, 2 * MEBIBYTE, 1 << 30])
def test_each_transaction_is_in_one_piece(relay: SmallRelay, tmp_path: Path, size: int) -> None:
    stretch = RelayStretch.at(tmp_path, Position(SERVER, FILE.format(1), 4), "mysql")
    pieces = stretch.pieces(size)
    assert len(pieces) == {1: 10, 2 * MEBIBYTE: 7, 1 << 30: 4}[size]
    assert [one for piece in pieces for one in transactions(relay) if inside(one, piece)] == transactions(relay)
    last = pieces[-1]
    end = stretch.place(last.file, last.end)
    assert end.gtid_set == GtidSet.parse(f"{SERVER}:1-85")
    assert total_bytes(pieces) > 85 * SIZE


def test_a_stretch_begins_and_ends_where_it_is_told_to(relay: SmallRelay, tmp_path: Path) -> None:
    whole = RelayStretch.at(tmp_path, Position(SERVER, FILE.format(1), 4), "mysql").pieces(1)
    begin, end = whole[1].end, whole[5].begin
    start = Position(SERVER, FILE.format(1), begin, GtidSet.parse(f"{SERVER}:1-20"))
    stretch = RelayStretch.at(tmp_path, start, "mysql")
    pieces = stretch.pieces(1, Position(SERVER, whole[5].file, end))
    assert pieces == whole[2:5]
    assert stretch.place(whole[3].file, whole[3].end).gtid_set == GtidSet.parse(f"{SERVER}:1-33")
    assert stretch.pieces(1, start) == []
    birth = stretch.birth(FILE.format(3))
    assert birth is not None
    assert birth.is_of(Position(SERVER, FILE.format(3), 4))


def test_a_relay_without_the_checkpoints_file(relay: SmallRelay, tmp_path: Path) -> None:
    for place in (Position(SERVER, FILE.format(99), 4), Position("another", FILE.format(1), 4)):
        with pytest.raises(DMError) as raised:
            RelayStretch.at(tmp_path, place, "mysql")
        assert raised.value.name == "replay-without-relay"
