"""Bytes that are not the source's never reach a reader's user, and the relay is told where they are."""

from __future__ import annotations

import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dm.errors import DMError
from dm.mysql.binlog.event import SourceEvent
from dm.mysql.binlog.header import EventType
from dm.position import Position
from dm.sourcelog.relaylog import checked_file
from dm.sourcelog.relaylog.index import BLOCK
from dm.sourcelog.relaylog.layout import RelayDirectory, SubDirectory
from dm.sourcelog.relaylog.recovery import gtids_at
from dm.sourcelog.relaylog.relay_source import RelayEventSource
from tests.testbed.figures import record
from tests.unit.sourcelog.relaylog.binlog_bytes import SERVER, placed, rotate, transaction
from tests.unit.sourcelog.relaylog.writing import FIRST, SECOND, THIRD, head, new_writer, write

SEED = 20261121


@dataclass(frozen=True)
class Stored:
    """A relay at rest: one closed file and one that would go on."""

    root: Path
    sub: SubDirectory
    events: list[tuple[str, int, bytes]]  # file, end offset, bytes

    def read(self) -> tuple[list[tuple[str, int, bytes]], DMError | None]:
        """Everything a reader gives from the start on, and the error it ends with."""
        found: list[tuple[str, int, bytes]] = []
        stop = threading.Event()
        try:
            for item in RelayEventSource(self.root, "mysql", idle_seconds=0.01).events(Position(SERVER, FIRST), stop):
                if item is None:
                    return found, None
                if item.raw.header.type != EventType.HEARTBEAT:
                    found.append((item.file, item.end_offset, item.raw.data))
        except DMError as error:
            return found, error
        raise AssertionError("the reader came to an end without being told")


def stored(root: Path, *, checksums: bool = True, sizes: tuple[int, ...] = (40, 4000, 900)) -> Stored:
    writer = new_writer(root)
    first = [*head(), *(event for number, size in enumerate(sizes, 1) for event in transaction(number, size))]
    write(writer, FIRST, [*first, rotate(SECOND)], checksums=checksums)
    write(writer, SECOND, [*head(len(sizes)), *transaction(len(sizes) + 1, 300)], checksums=checksums)
    writer.close()
    relay = Stored(root, writer.sub, [])
    events, error = relay.read()
    assert error is None
    relay.events.extend(events)
    assert len(events) == len(first) + 1 + 2 + 5
    return relay


@pytest.mark.parametrize("flips", [40, pytest.param(500, marks=pytest.mark.chaos)])
@pytest.mark.parametrize("checksums", [True, False])
def test_every_flipped_bit_is_detected_before_anything_after_it_is_given(
    tmp_path: Path, checksums: bool, flips: int
) -> None:
    relay = stored(tmp_path, checksums=checksums, sizes=(40, 700_000, 40, 900_000, 60))
    chance = random.Random(SEED)
    for _ in range(flips):
        name = chance.choice([FIRST, FIRST, FIRST, SECOND])
        path = relay.sub.file(name)
        at, bit = chance.randrange(path.stat().st_size), chance.randrange(8)
        _flip(path, at, bit)
        found, error = relay.read()
        assert error is not None, f"bit {bit} of byte {at} of {name}"
        assert error.name == "relay-file-corrupt"
        assert error.details["file"] == name
        assert found == relay.events[: len(found)]
        assert not found or (found[-1][0], found[-1][1]) <= (name, at)
        [note] = checked_file.reported(relay.sub)
        # Without checksums the place is the block's.
        assert note.file == name
        assert note.offset == error.details["offset"]
        assert note.offset <= at if checksums else note.offset // BLOCK <= at // BLOCK
        _flip(path, at, bit)
        checked_file.mended(relay.sub, name)
    assert relay.read() == (relay.events, None)
    record(
        f"relay.bit_flips.{'checksums' if checksums else 'blocks'}", {"seed": SEED, "flips": flips, "detected": flips}
    )


def _flip(path: Path, at: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        old = file.read(1)[0]
        file.seek(at)
        file.write(bytes([old ^ 1 << bit]))


@pytest.fixture
def relay(tmp_path: Path) -> Stored:
    return stored(tmp_path / "relay")


def test_a_closed_file_that_was_cut_is_not_left_for_the_next_one(relay: Stored) -> None:
    ends = [end for file, end, _ in relay.events if file == FIRST]
    for size in (0, 3, ends[0], ends[6], ends[6] + 5, ends[-2]):
        whole = relay.sub.file(FIRST).read_bytes()
        relay.sub.file(FIRST).write_bytes(whole[:size])
        found, error = relay.read()
        assert error is not None, size
        assert error.name == "relay-file-corrupt"
        assert all(file == FIRST for file, _, _ in found)
        assert found == relay.events[: len(found)]
        relay.sub.file(FIRST).write_bytes(whole)
        checked_file.mended(relay.sub, FIRST)


@pytest.mark.parametrize("gtids", [True, False])
def test_without_an_index_the_next_file_proves_whether_this_one_is_whole(tmp_path: Path, gtids: bool) -> None:
    writer = new_writer(tmp_path)
    one, two = ([*transaction(1)], [*transaction(2)]) if gtids else ([*transaction(1)[1:]], [*transaction(2)[1:]])
    write(writer, FIRST, [*head(), *one, *two, rotate(SECOND)])
    write(writer, SECOND, head(2 if gtids else 0))
    writer.close()
    relay = Stored(tmp_path, writer.sub, [])
    relay.sub.idx(FIRST).unlink()
    everything, error = relay.read()
    assert error is None
    assert everything[-1][0] == SECOND
    ends = [end for file, end, _ in everything if file == FIRST]
    behind_one = ends[len(head()) + len(one) - 1]
    os.truncate(relay.sub.file(FIRST), behind_one)
    found, error = relay.read()
    assert error is not None
    assert (error.name, error.details["offset"]) == ("relay-file-corrupt", behind_one)
    assert found == everything[: len(found)]


def test_a_file_that_is_gone_from_the_middle_is_not_stepped_over(tmp_path: Path) -> None:
    writer = new_writer(tmp_path)
    write(writer, FIRST, [*head(), *transaction(1), rotate(SECOND)])
    write(writer, SECOND, [*head(1), *transaction(2), rotate(THIRD)])
    write(writer, THIRD, [*head(2), *transaction(3)])
    writer.close()
    writer.sub.file(SECOND).unlink()
    with pytest.raises(DMError) as raised:
        list(RelayEventSource(tmp_path, "mysql").events(Position(SERVER, SECOND, 200), threading.Event()))
    assert (raised.value.name, raised.value.details["file"]) == ("relay-file-corrupt", SECOND)
    for _ in range(2):
        found, error = Stored(tmp_path, writer.sub, []).read()
        assert error is not None
        assert (error.name, error.details["file"]) == ("relay-file-corrupt", SECOND)
        assert {file for file, _, _ in found} == {FIRST}
    [note] = checked_file.reported(writer.sub)
    assert note == checked_file.Damage(SECOND, 0, "it is missing")
    checked_file.give_up(writer.sub, note, "the source has it no more", SERVER)
    found, error = Stored(tmp_path, writer.sub, []).read()
    assert error is not None
    assert (error.name, error.details["next"], error.retryable) == ("relay-gap", THIRD, False)
    with pytest.raises(DMError) as raised:
        list(RelayEventSource(tmp_path, "mysql").events(Position(SERVER, SECOND, 200), threading.Event()))
    assert raised.value.name == "relay-file-missing"
    assert {file for file, _, _ in found} == {FIRST}


def test_numbers_may_jump_where_the_source_jumped(tmp_path: Path) -> None:
    writer = new_writer(tmp_path)
    write(writer, FIRST, [*head(), *transaction(1), rotate("mysql-bin.000020")])
    write(writer, "mysql-bin.000020", [*head(1), *transaction(2)])
    writer.close()
    found, error = Stored(tmp_path, writer.sub, []).read()
    assert error is None
    assert found[-1][0] == "mysql-bin.000020"


@pytest.mark.parametrize(("file", "known"), [(SECOND, 1), (THIRD, 1), (THIRD, 2)])
def test_a_new_sub_directory_of_the_server_may_follow_only_without_a_gap(tmp_path: Path, file: str, known: int) -> None:
    old = new_writer(tmp_path)
    write(old, FIRST, [*head(), *transaction(1), rotate(SECOND)])
    old.close()
    new = new_writer(tmp_path)
    write(new, file, [*head(known), *transaction(known + 1)])
    new.close()
    found, error = Stored(tmp_path, old.sub, []).read()
    if file == SECOND:
        assert error is None
        assert found[-1][0] == SECOND
    else:
        assert error is not None
        assert error.name == "relay-gap"
        assert found[-1][0] == FIRST


def test_a_sub_directory_that_has_not_said_what_came_before_it_is_waited_for(tmp_path: Path) -> None:
    old = new_writer(tmp_path)
    write(old, FIRST, [*head(), *transaction(1)])
    old.close()
    new = RelayDirectory(tmp_path).add("4e11fa47-71ca-11e1-9e33-c80aa9429562")
    events = b"\xfebin" + b"".join(placed([*head(), *transaction(2)]))
    steps = iter((3, 60, 140, len(events)))
    found: list[str] = []
    stop = threading.Event()
    for item in RelayEventSource(tmp_path, "mysql", idle_seconds=0.01).events(Position(SERVER, FIRST), stop):
        if item is not None and item.raw.header.type != EventType.HEARTBEAT:
            found.append(item.server_uuid)
        elif (size := next(steps, None)) is not None:
            new.file(FIRST).write_bytes(events[:size])
        else:
            stop.set()
    assert found == [SERVER] * (len(head()) + 5) + [new.server_uuid] * (len(head()) + 5)


def test_a_gtid_set_is_not_guessed_across_damage_or_ahead_of_the_file(relay: Stored) -> None:
    end = relay.sub.file(FIRST).stat().st_size
    assert str(gtids_at(relay.sub, FIRST, end, "mysql")) == f"{SERVER}:1-3"
    assert not gtids_at(relay.sub, FIRST, end + 100, "mysql")
    relay.sub.idx(FIRST).unlink()
    _flip(relay.sub.file(FIRST), 700, 1)
    with pytest.raises(DMError) as raised:
        gtids_at(relay.sub, FIRST, end, "mysql")
    assert raised.value.name == "relay-file-corrupt"
    assert [note.file for note in checked_file.reported(relay.sub)] == [FIRST]


def test_what_the_source_can_not_give_again_is_an_error_for_a_person(relay: Stored) -> None:
    _flip(relay.sub.file(FIRST), 2000, 3)
    _, first = relay.read()
    assert first is not None
    assert first.retryable
    [note] = checked_file.reported(relay.sub)
    checked_file.give_up(relay.sub, note, "the source has it no more", "the server")
    found, error = relay.read()
    assert error is not None
    assert (error.name, error.retryable) == ("relay-file-lost", False)
    assert FIRST in error.message
    assert str(note.offset) in error.message
    assert "the source has it no more" in error.message
    assert found == relay.events[: len(found)]
    assert checked_file.reported(relay.sub) == []
    assert checked_file.reported(relay.sub, "another server") == [
        checked_file.Damage(FIRST, note.offset, note.what, *_answer(relay))
    ]
    checked_file.try_again(RelayDirectory(relay.root))
    assert checked_file.reported(relay.sub) == [note]


def _answer(relay: Stored) -> tuple[str, str]:
    answer = checked_file.lost(relay.sub, FIRST)
    assert answer is not None
    return answer.lost, answer.asked


def test_a_start_inside_an_event_of_a_good_file_is_not_called_damage(relay: Stored) -> None:
    start = Position(SERVER, FIRST, relay.events[3][1] + 7)
    with pytest.raises(DMError) as raised:
        list(RelayEventSource(relay.root, "mysql").events(start, threading.Event()))
    assert raised.value.name == "relay-start-misplaced"
    assert checked_file.reported(relay.sub) == []


def test_a_start_after_the_end_of_a_closed_file_is_told(relay: Stored) -> None:
    start = Position(SERVER, FIRST, relay.sub.file(FIRST).stat().st_size + 100)
    with pytest.raises(DMError) as raised:
        list(RelayEventSource(relay.root, "mysql").events(start, threading.Event()))
    assert raised.value.name == "relay-start-beyond"


def test_a_size_that_hides_the_rest_of_the_newest_file_is_noticed_at_the_next_heartbeat(tmp_path: Path) -> None:
    writer = new_writer(tmp_path)
    end = write(writer, FIRST, [*head(), *transaction(1)])
    path = writer.sub.file(FIRST)
    more = bytearray(transaction(2)[0])
    more[12] = 0x10  # the size is now more than what follows
    with path.open("ab") as file:
        file.write(more)
    events = RelayEventSource(tmp_path, "mysql", idle_seconds=5).events(Position(SERVER, FIRST, end), threading.Event())
    with pytest.raises(DMError) as raised:
        _drain(events, on_idle=lambda: os.utime(path))
    assert (raised.value.name, raised.value.details["offset"]) == ("relay-file-corrupt", end)


def _drain(events: Iterator[SourceEvent | None], *, on_idle: Callable[[], None]) -> None:
    for item in events:
        if item is None:
            on_idle()


def test_a_reader_goes_on_in_the_copy_that_took_the_place_of_its_file(tmp_path: Path) -> None:
    writer = new_writer(tmp_path)
    write(writer, FIRST, [*head(), *transaction(1)])
    writer.close()
    sub = writer.sub
    stop = threading.Event()
    found = []
    swapped = False
    for item in RelayEventSource(tmp_path, "mysql", idle_seconds=0.05).events(Position(SERVER, FIRST), stop):
        if item is not None and item.raw.header.type != EventType.HEARTBEAT:
            found.append(item.end_offset)
        elif not swapped:
            swapped = True
            shutil.copy(sub.file(FIRST), tmp_path / "copy")
            (tmp_path / "copy").replace(sub.file(FIRST))
            again = new_writer(tmp_path, resume=True)
            write(again, FIRST, transaction(2), at=again.position.offset)
            again.close()
        elif len(found) >= 12:
            stop.set()
    assert found == sorted(set(found))
    assert len(found) == len(head()) + 10
