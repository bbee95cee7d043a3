"""A time is found by index: which files are opened for it, and where it lies in them."""

from __future__ import annotations

import json
from pathlib import Path
from zlib import crc32

import pytest

from dm.gtid import GtidSet
from dm.mysql.binlog.frame import MAGIC
from dm.sourcelog.relaylog.index import MARK_EVERY, write_index
from dm.sourcelog.relaylog.layout import RelayDirectory
from dm.sourcelog.relaylog.relay_source import find_time
from dm.sourcelog.relaylog.scan import EventFile, scan
from tests.unit.sourcelog.relaylog.binlog_bytes import (
    SERVER,
    file_bytes,
    format_description,
    placed_without_checksums,
    previous_gtids,
    transaction,
)
from tests.unit.sourcelog.relaylog.relay_files import add_file, add_files, at, binlog

T0 = 1_700_000_000  # file n has transactions at T0 + 100 n + 0, 1, ..


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the relay files that were opened, in order."""
    names: list[str] = []
    original = EventFile.__init__

    def counted(self: EventFile, path: Path) -> None:
        names.append(path.name)
        original(self, path)

    monkeypatch.setattr(EventFile, "__init__", counted)
    return names


@pytest.mark.parametrize("number", [1, 2, 77, 150, 199])
def test_of_200_files_one_is_opened(tmp_path: Path, opened: list[str], number: int) -> None:
    directory = RelayDirectory(tmp_path)
    add_files(directory, SERVER, range(1, 201), times=3)
    opened.clear()
    found = find_time(directory, "mysql", T0 + 100 * number + 1)
    assert found is not None
    assert (found.position.server_uuid, found.position.file, found.known) == (SERVER, binlog(number), True)
    assert found.position.gtid_set == GtidSet.parse(f"{SERVER}:1-{3 * (number - 1) + 1}")
    assert set(opened) == {binlog(number)}
    assert len(opened) <= 2


def test_the_place_is_after_the_last_older_transaction(tmp_path: Path) -> None:
    directory = RelayDirectory(tmp_path)
    add_files(directory, SERVER, range(1, 5), times=3)
    places = [find_time(directory, "mysql", T0 + 200 + second) for second in (-50, 0, 1, 2, 3, 99)]
    assert all(places)
    found = [(place.position.file, place.position.gtid_set) for place in places if place is not None]
    assert found == [
        (binlog(2), GtidSet.parse(f"{SERVER}:1-3")),  # between the files: where the next one begins
        (binlog(2), GtidSet.parse(f"{SERVER}:1-3")),
        (binlog(2), GtidSet.parse(f"{SERVER}:1-4")),
        (binlog(2), GtidSet.parse(f"{SERVER}:1-5")),
        (binlog(3), GtidSet.parse(f"{SERVER}:1-6")),
        (binlog(3), GtidSet.parse(f"{SERVER}:1-6")),
    ]


def test_a_time_before_everything_is_the_beginning_and_known_not_to_be_known(tmp_path: Path) -> None:
    directory = RelayDirectory(tmp_path)
    add_files(directory, SERVER, range(5, 9))
    found = find_time(directory, "mysql", T0)
    assert found is not None
    assert (found.position.file, found.position.gtid_set, found.known) == (binlog(5), GtidSet.empty(), False)


def test_a_time_after_everything_is_not_there(tmp_path: Path) -> None:
    directory = RelayDirectory(tmp_path)
    assert find_time(directory, "mysql", T0) is None
    add_files(directory, SERVER, range(1, 4))
    assert find_time(directory, "mysql", T0 + 301) is None
    assert find_time(directory, "mysql", T0 + 300) is not None


def test_files_without_transactions_do_not_mislead(tmp_path: Path) -> None:
    directory = RelayDirectory(tmp_path)
    sub = directory.add(SERVER)
    following = 1
    for number in range(1, 12):
        times = [T0 + 100 * number] if number % 4 == 0 else []
        following = add_file(sub, number, times, first=following, final=number != 11)
    for number in (4, 8):
        found = find_time(directory, "mysql", T0 + 100 * number)
        assert found is not None
        assert found.position.file == binlog(number)


def test_a_file_whose_index_is_lost_is_read_and_no_other(tmp_path: Path, opened: list[str]) -> None:
    directory = RelayDirectory(tmp_path)
    sub = add_files(directory, SERVER, range(1, 33), times=2)
    for number in (3, 11, 30):
        sub.idx(binlog(number)).unlink()
    opened.clear()
    found = find_time(directory, "mysql", T0 + 1700 + 1)
    assert found is not None
    assert (found.position.file, found.position.gtid_set) == (binlog(17), GtidSet.parse(f"{SERVER}:1-33"))
    assert set(opened) == {binlog(3), binlog(11), binlog(17)}


@pytest.mark.parametrize("known", ["by the index", "by an older index", "without an index"])
def test_a_clock_that_was_set_back_hides_no_file(tmp_path: Path, known: str) -> None:
    """As `mysqlbinlog | mysql` leaves it: the last transaction of the first file has a time of long ago."""
    directory = RelayDirectory(tmp_path)
    sub = directory.add(SERVER)
    following = 1
    for number, times in enumerate(([T0, T0 + 5, 1_000_000_000], [1_000_000_001], [T0 + 20], [T0 + 30]), 1):
        following = add_file(sub, number, times, first=following, final=number != 4)
        if known == "without an index":
            sub.idx(binlog(number)).unlink()
        elif known == "by an older index":
            make_older(sub.idx(binlog(number)))
    places = [find_time(directory, "mysql", T0 + second) for second in (1, 5, 6, 20, 25)]
    found = [(place.position.file, place.position.gtid_set) for place in places if place is not None]
    assert found == [
        (binlog(1), GtidSet.parse(f"{SERVER}:1")),
        (binlog(1), GtidSet.parse(f"{SERVER}:1")),
        (binlog(3), GtidSet.parse(f"{SERVER}:1-4")),
        (binlog(3), GtidSet.parse(f"{SERVER}:1-4")),
        (binlog(4), GtidSet.parse(f"{SERVER}:1-5")),
    ]


@pytest.mark.parametrize("older", [False, True], ids=["an index", "an older index"])
def test_a_clock_that_was_set_back_hides_nothing_before_a_mark(tmp_path: Path, older: bool) -> None:
    sub = RelayDirectory(tmp_path).add(SERVER)
    events = [format_description(), previous_gtids(0)]
    times = [T0, T0 + 5, 1_000_000_000, T0 + 9, T0 + 10]
    for number, time in enumerate(times, 1):
        events += at(transaction(number, MARK_EVERY), time)
    sub.file(binlog(1)).write_bytes(file_bytes(events))
    found = scan(sub.file(binlog(1)), None, "mysql")
    assert found is not None
    index = found.index
    assert [time for _, time in index.marks] == [T0, T0 + 5, T0 + 5, T0 + 9, T0 + 10]
    write_index(sub.idx(binlog(1)), index)
    if older:  # it was begun by an older DM, and this one goes on with it
        begun = scan(sub.file(binlog(1)), None, "mysql", upto=index.marks[2][0])
        assert begun is not None
        begun.index.marks[2] = (begun.index.complete, times[2])
        write_index(sub.idx(binlog(1)), begun.index)
        make_older(sub.idx(binlog(1)))
        found = scan(sub.file(binlog(1)), sub.idx(binlog(1)), "mysql")
        assert found is not None
        assert (found.index.complete, found.index.latest_time) == (index.complete, 0)
        write_index(sub.idx(binlog(1)), found.index)
    for second, last in ((3, 1), (5, 1), (6, 3), (10, 4)):
        place = find_time(RelayDirectory(tmp_path), "mysql", T0 + second)
        assert place is not None
        assert place.position.gtid_set == GtidSet.parse(f"{SERVER}:1-{last}")


@pytest.mark.parametrize("indexed", [False, True])
def test_a_file_without_checksums_is_searched(tmp_path: Path, indexed: bool) -> None:
    sub = RelayDirectory(tmp_path).add(SERVER)
    events = [format_description(), previous_gtids(0)]
    for number in range(1, 5):
        events += at(transaction(number), T0 + number)
    path = sub.file(binlog(1))
    path.write_bytes(MAGIC + b"".join(placed_without_checksums(events)))
    if indexed:
        found = scan(path, None, "mysql", trust=True)
        assert found is not None
        write_index(sub.idx(path.name), found.index)
    place = find_time(RelayDirectory(tmp_path), "mysql", T0 + 3)
    assert place is not None
    assert place.position.gtid_set == GtidSet.parse(f"{SERVER}:1-2")


def make_older(path: Path) -> None:
    """Leave the index that DM wrote before it kept the latest time."""
    seal, body = (json.loads(line) for line in path.read_bytes().splitlines())
    del body["latest_time"]
    text = json.dumps(body).encode()
    path.write_bytes(json.dumps(seal | {"crc": crc32(text)}).encode() + b"\n" + text)


def test_the_files_of_an_earlier_server_are_searched_too(tmp_path: Path) -> None:
    directory = RelayDirectory(tmp_path)
    add_files(directory, SERVER, range(1, 4))
    add_files(directory, "11111111-71ca-11e1-9e33-c80aa9429562", range(7, 10))
    found = find_time(directory, "mysql", T0 + 200)
    assert found is not None
    assert (found.position.server_uuid, found.position.file) == (SERVER, binlog(2))
