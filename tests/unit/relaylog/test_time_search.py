"""A time is found by index: which files are opened for it, and where it lies in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.gtid import GtidSet
from dm.relaylog import event_file
from dm.relaylog.layout import RelayDirectory
from dm.relaylog.time_search import find_time
from tests.unit.relaylog.binlog_bytes import SERVER
from tests.unit.relaylog.relay_files import add_file, add_files, binlog

T0 = 1_700_000_000  # file n has transactions at T0 + 100 n + 0, 1, ..


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the relay files that were opened, in order."""
    names: list[str] = []
    original = event_file.EventFile.__init__

    def counted(self: event_file.EventFile, path: Path) -> None:
        names.append(path.name)
        original(self, path)

    monkeypatch.setattr(event_file.EventFile, "__init__", counted)
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


def test_the_place_is_behind_the_last_older_transaction(tmp_path: Path) -> None:
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


def test_a_time_behind_everything_is_not_there(tmp_path: Path) -> None:
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


def test_a_lost_index_costs_a_scan_and_no_more(tmp_path: Path, opened: list[str]) -> None:
    directory = RelayDirectory(tmp_path)
    sub = add_files(directory, SERVER, range(1, 33), times=2)
    for name in sub.files():
        sub.idx(name).unlink()
    opened.clear()
    found = find_time(directory, "mysql", T0 + 1700 + 1)
    assert found is not None
    assert (found.position.file, found.position.gtid_set) == (binlog(17), GtidSet.parse(f"{SERVER}:1-33"))
    assert len(set(opened)) <= 7


def test_the_files_of_an_earlier_server_are_searched_too(tmp_path: Path) -> None:
    directory = RelayDirectory(tmp_path)
    add_files(directory, SERVER, range(1, 4))
    add_files(directory, "11111111-71ca-11e1-9e33-c80aa9429562", range(7, 10))
    found = find_time(directory, "mysql", T0 + 200)
    assert found is not None
    assert (found.position.server_uuid, found.position.file) == (SERVER, binlog(2))
