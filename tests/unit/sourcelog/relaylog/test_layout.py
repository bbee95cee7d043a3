"""DM's directory layout, and names that must not become paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.errors import DMError
from dm.gtid import GtidSet
from dm.position import Position
from dm.sourcelog.relaylog.layout import INDEX_NAME, RelayDirectory, is_binlog_name
from dm.sourcelog.relaylog.writer import write_meta
from tests.testbed.relay_meta import read_meta
from tests.unit.sourcelog.relaylog.binlog_bytes import SERVER


def test_sub_directories_are_numbered_through_and_listed(tmp_path: Path) -> None:
    directory = RelayDirectory(tmp_path)
    assert directory.last() is None
    first, second, third = directory.add(SERVER), directory.add("0-12"), directory.add(SERVER)
    assert (tmp_path / INDEX_NAME).read_text() == f"{SERVER}.000001\n0-12.000002\n{SERVER}.000003\n"
    assert RelayDirectory(tmp_path).sub_directories() == [first, second, third]
    assert directory.after(first) == second
    assert directory.after(third) is None


def test_files_are_ordered_by_number_not_by_text(tmp_path: Path) -> None:
    sub = RelayDirectory(tmp_path).add(SERVER)
    for name in ("mysql-bin.1000000", "mysql-bin.999999", "mysql-bin.000002", "mysql-bin.000002.idx", "relay.meta"):
        (sub.path / name).touch()
    assert sub.files() == ["mysql-bin.000002", "mysql-bin.999999", "mysql-bin.1000000"]


@pytest.mark.parametrize(
    "name",
    [
        *(
            "../../etc/passwd.000001",
            "/x.000001",
            "a/b.000001",
            "x",
            "x.1",
            ".hidden.000001",
            "a\0.000001",
            "a\n.000001",
        ),
        *("x.000001\n", "x.00000\u0661", "x.00000\u00b2"),
    ],
)
def test_hostile_names_are_refused(tmp_path: Path, name: str) -> None:
    assert not is_binlog_name(name)
    with pytest.raises(DMError, match="not a binlog file name"):
        RelayDirectory(tmp_path).add(SERVER).file(name)


def test_a_hostile_server_uuid_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DMError):
        RelayDirectory(tmp_path).add("../outside")


def test_an_index_of_something_else_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / INDEX_NAME).write_text("shopping list\n")
    with pytest.raises(DMError, match="not a relay directory"):
        RelayDirectory(tmp_path).sub_directories()


@pytest.mark.parametrize("gtids", ["", f"{SERVER}:1-5:tag:7", "0-1-2,5-1-9"])
def test_meta_reads_back_what_was_written(tmp_path: Path, gtids: str) -> None:
    position = Position(SERVER, 'a"quoted\\bin.000001', 4711, GtidSet.parse(gtids))
    write_meta(tmp_path / "relay.meta", position)
    assert read_meta(tmp_path / "relay.meta", SERVER) == position


@pytest.mark.parametrize("content", [None, "", f"{SERVER}.000001\n"])
def test_a_lost_or_old_index_is_made_anew_from_the_directories(tmp_path: Path, content: str | None) -> None:
    directory = RelayDirectory(tmp_path)
    subs = [directory.add(SERVER), directory.add("0-12")]
    for sub in subs:
        (sub.path / "bin.000001").touch()
    index = tmp_path / INDEX_NAME
    whole = index.read_text()
    index.unlink()
    if content is not None:
        index.write_text(content)
    assert RelayDirectory(tmp_path).sub_directories() == subs
    RelayDirectory(tmp_path).mend()
    assert index.read_text() == whole
    assert RelayDirectory(tmp_path).add(SERVER).number == 3


def test_directories_without_files_and_others_are_no_part_of_a_relay(tmp_path: Path) -> None:
    directory = RelayDirectory(tmp_path)
    first = directory.add(SERVER)
    (tmp_path / f"{SERVER}.000002").mkdir()
    (tmp_path / "holds").mkdir()
    (tmp_path / "mysql-bin.000001").touch()
    assert directory.sub_directories() == [first]
    assert directory.add("0-1").number == 2


def test_two_directories_of_one_number_have_no_order(tmp_path: Path) -> None:
    directory = RelayDirectory(tmp_path)
    directory.add(SERVER)
    (tmp_path / "0-1.000001").mkdir()
    (tmp_path / "0-1.000001" / "bin.000001").touch()
    with pytest.raises(DMError, match="have the same number"):
        directory.sub_directories()


def test_files_of_two_names_in_one_directory_have_no_order(tmp_path: Path) -> None:
    sub = RelayDirectory(tmp_path).add(SERVER)
    (sub.path / "old.000009").touch()
    (sub.path / "new.000001").touch()
    with pytest.raises(DMError, match="have no order"):
        sub.files()
