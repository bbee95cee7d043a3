"""The pieces of a relay have each transaction once, whatever their size."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.errors import DMError
from dm.gtid import GtidSet
from dm.mysql.binlog.header import EventType
from dm.position import Position
from dm.progress.replayed import RelayRange
from dm.sourcelog.relaylog.index import write_index
from dm.sourcelog.relaylog.layout import RelayDirectory, SubDirectory
from dm.sourcelog.relaylog.scan import scan
from dm.tools.replay import pieces as pieces_module
from dm.tools.replay.pieces import RelayStretch, total_bytes
from tests.unit.sourcelog.relaylog.binlog_bytes import SERVER, file_bytes, rotate, transaction
from tests.unit.sourcelog.relaylog.small_relay import FILE, SmallRelay
from tests.unit.sourcelog.relaylog.writing import FIRST, SECOND, THIRD, head, new_writer, write

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


def three_files(root: Path, *, checksums: bool) -> SubDirectory:
    writer, number = new_writer(root), 0
    for file, following in ((FIRST, SECOND), (SECOND, THIRD), (THIRD, None)):
        events = head(number)
        for _ in range(3):
            number += 1
            events += transaction(number)
        write(writer, file, events if following is None else [*events, rotate(following)], checksums=checksums)
    writer.close()
    (sub,) = RelayDirectory(root).sub_directories()
    return sub


@pytest.mark.parametrize("index", ["final", "lost", "of its beginning"])
@pytest.mark.parametrize("checksums", [True, False])
def test_a_file_with_a_next_one_is_cut_at_its_end(tmp_path: Path, index: str, checksums: bool) -> None:
    """Without checksums, what an index says is all that is proven by itself; the next file proves the rest."""
    sub = three_files(tmp_path, checksums=checksums)
    if index != "final":
        sub.idx(SECOND).unlink()
    if index == "of its beginning":
        found = scan(sub.file(SECOND), None, "mysql")
        assert found is not None
        found.index.final = False
        write_index(sub.idx(SECOND), found.index)
    pieces = RelayStretch.at(tmp_path, Position(SERVER, FIRST, 4), "mysql").pieces()
    assert [(each.file, each.begin, each.end) for each in pieces] == [
        (file, 4, sub.file(file).stat().st_size) for file in (FIRST, SECOND, THIRD)
    ]


def test_a_file_that_is_mended_after_it_was_cut_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was proven is what is cut, though the relay fetches a damaged file again meanwhile."""
    sub = three_files(tmp_path, checksums=True)
    file, idx = sub.file(SECOND), sub.idx(SECOND)
    whole, final = file.read_bytes(), idx.read_bytes()
    first = len(file_bytes([*head(3), *transaction(4)]))
    file.write_bytes(whole[:first])
    idx.unlink()

    def mended(path: Path, *given: object, **named: object) -> object:
        found = scan(path, *given, **named)  # type: ignore[arg-type]
        if path == file:
            file.write_bytes(whole)
            idx.write_bytes(final)
        return found

    monkeypatch.setattr(pieces_module, "scan", mended)
    with pytest.raises(DMError) as raised:
        RelayStretch.at(tmp_path, Position(SERVER, FIRST, 4), "mysql").pieces()
    assert raised.value.name == "relay-file-corrupt"
