"""Holds: on the safe side whatever happens to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.errors import DMError
from dm.gtid import GtidSet
from dm.position import Position
from dm.sourcelog.relaylog.hold import HOLDS_NAME, Hold, Need, exclusive, forget_others, needs
from tests.testbed.fake_clock import FakeClock

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
GTIDS = GtidSet.parse(f"{SERVER}:1-77")


def place(number: int, gtid_set: GtidSet = GTIDS) -> Position:
    return Position(SERVER, f"mysql-bin.{number:06d}", 154, gtid_set)


def test_a_new_hold_is_of_everything_and_moves_to_each_stored_point(tmp_path: Path) -> None:
    hold = Hold(tmp_path, "t")
    assert not hold.exists()
    hold.create()
    assert needs(tmp_path) == [Need("t")]
    assert needs(tmp_path)[0].everything
    hold.keep_from(place(3))
    assert needs(tmp_path) == [Need("t", SERVER, "mysql-bin.000003", GTIDS)]
    hold.keep_from(place(12))
    assert needs(tmp_path)[0].file == "mysql-bin.000012"


def test_creating_a_hold_that_is_there_changes_nothing(tmp_path: Path) -> None:
    Hold(tmp_path, "t").keep_from(place(3))
    Hold(tmp_path, "t").create()
    assert needs(tmp_path)[0].file == "mysql-bin.000003"


def test_only_a_hold_that_says_nothing_yet_can_say_that_its_task_begins(tmp_path: Path) -> None:
    hold = Hold(tmp_path, "t")
    hold.begin()
    assert needs(tmp_path) == []
    hold.create()
    hold.begin()
    assert needs(tmp_path) == [Need("t", begins=True)]
    assert needs(tmp_path)[0].everything
    hold.keep_from(place(3))
    hold.begin()
    assert needs(tmp_path) == [Need("t", SERVER, "mysql-bin.000003", GTIDS)]
    (tmp_path / HOLDS_NAME / "t.json").write_bytes(b"{}")
    hold.begin()
    assert needs(tmp_path) == [Need("t")], "nobody knows what it said"


def test_every_task_has_its_own_and_those_of_tasks_that_are_gone_go(tmp_path: Path) -> None:
    for task in ("a", "b.json", "c"):
        Hold(tmp_path, task).create()
    assert [need.task for need in needs(tmp_path)] == ["a", "b.json", "c"]
    Hold(tmp_path, "c").remove()
    Hold(tmp_path, "c").remove()
    forget_others(tmp_path, frozenset({"b.json"}))
    assert [need.task for need in needs(tmp_path)] == ["b.json"]


def test_without_any_hold_nothing_is_needed(tmp_path: Path) -> None:
    assert needs(tmp_path / "never") == []


def test_a_hold_that_is_not_whole_counts_as_everything(tmp_path: Path) -> None:
    """Cut at every byte, and every byte changed: what can be read half must not let go of a file."""
    hold = Hold(tmp_path, "t")
    hold.keep_from(place(3))
    path = tmp_path / HOLDS_NAME / "t.json"
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert needs(tmp_path) == [Need("t")], length
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert needs(tmp_path) == [Need("t")], at


def test_a_hold_moves_without_a_new_file(tmp_path: Path) -> None:
    """On a full disk there is none to be had, and the purge waits for the hold to move."""
    hold = Hold(tmp_path, "t")
    hold.create()
    path = tmp_path / HOLDS_NAME / "t.json"
    file = path.stat().st_ino
    hold.keep_from(place(3, GtidSet.parse(",".join(f"{SERVER}:{number}" for number in range(1, 99, 2)))))
    hold.keep_from(place(4, GtidSet.empty()))
    assert path.stat().st_ino == file
    assert needs(tmp_path) == [Need("t", SERVER, "mysql-bin.000004", GtidSet.empty())]
    assert [entry.name for entry in path.parent.iterdir() if entry.name != ".lock"] == ["t.json"]


def test_a_hold_that_can_not_be_written_ends_nothing_and_stays(tmp_path: Path) -> None:
    hold = Hold(tmp_path, "t")
    hold.keep_from(place(3))
    path = tmp_path / HOLDS_NAME / "t.json"
    aside = path.rename(tmp_path / "aside")
    path.mkdir()  # what can't be opened for writing, whoever runs the test
    hold.keep_from(place(4))
    path.rmdir()
    aside.rename(path)
    assert needs(tmp_path)[0].file == "mysql-bin.000003"
    hold.keep_from(place(4))
    assert needs(tmp_path)[0].file == "mysql-bin.000004"


def test_a_hold_is_not_created_while_somebody_is_stuck_in_a_removal(tmp_path: Path) -> None:
    with exclusive(tmp_path), pytest.raises(DMError) as raised, exclusive(tmp_path, FakeClock()):
        raise AssertionError("two are in it")
    assert raised.value.name == "relay-purge-busy"
    with exclusive(tmp_path, FakeClock()):
        pass
