"""What a writer writes, readers read: while it grows, across files and servers, after cuts."""

from __future__ import annotations

import threading
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dm import faults
from dm.clock import SystemClock
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.mysql.binlog.event import SourceEvent
from dm.mysql.binlog.frame import MAGIC
from dm.mysql.binlog.header import LOG_EVENT_ARTIFICIAL_F, EventType
from dm.position import Position
from dm.sourcelog.relaylog.layout import SubDirectory
from dm.sourcelog.relaylog.recovery import recover
from dm.sourcelog.relaylog.relay_source import RelayEventSource
from dm.sourcelog.relaylog.writer import RelayWriter
from tests.testbed.relay_meta import read_meta
from tests.unit.sourcelog.relaylog.binlog_bytes import (
    SERVER,
    event,
    file_bytes,
    placed,
    rotate,
    transaction,
)
from tests.unit.sourcelog.relaylog.writing import FIRST, SECOND, head, new_writer, write

pytestmark = pytest.mark.usefixtures("twin")

OTHER = "4e11fa47-71ca-11e1-9e33-c80aa9429562"


def read_all(root: Path, start: Position, count: int) -> list[SourceEvent]:
    """The first `count` events from a start."""
    events = RelayEventSource(root, "mysql", idle_seconds=0.05).events(start, threading.Event())
    real = (item for item in events if item is not None and item.raw.header.type != EventType.HEARTBEAT)
    return list(islice(real, count))


@given(st.integers(1, 3000), st.lists(st.integers(0, 400), min_size=1, max_size=12))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
def test_any_buffer_size_gives_the_same_file(
    tmp_path_factory: pytest.TempPathFactory, buffer: int, sizes: list[int]
) -> None:
    root = tmp_path_factory.mktemp("relay")
    events = [*head(), *(data for number, size in enumerate(sizes, 1) for data in transaction(number, size))]
    writer = new_writer(root, buffer=buffer)
    end = write(writer, FIRST, events)
    assert writer.sub.file(FIRST).read_bytes() == file_bytes(events)
    assert writer.position == Position(SERVER, FIRST, end, GtidSet.parse(f"{SERVER}:1-{len(sizes)}"))
    writer.close()
    recovered = recover(writer.sub, "mysql")
    assert recovered is not None
    assert recovered.position == writer.position
    assert read_meta(writer.sub.meta, SERVER) == writer.position


def test_reading_crosses_files_and_servers(tmp_path: Path) -> None:
    one = [*head(), *transaction(1), rotate(SECOND)]
    two = [*head(1), *transaction(2)]
    three = [*head(1), *transaction(2), *transaction(3)]
    writer = new_writer(tmp_path)
    write(writer, FIRST, one)
    write(writer, SECOND, two)
    writer.close()
    other = new_writer(tmp_path, OTHER)
    write(other, FIRST, three)
    expected = [
        (uuid, file, data)
        for uuid, file, events in ((SERVER, FIRST, one), (SERVER, SECOND, two), (OTHER, FIRST, three))
        for data in placed(events)
    ]
    found = read_all(tmp_path, Position(SERVER, FIRST), len(expected))
    assert [(item.server_uuid, item.file, item.raw.data) for item in found] == expected


def test_a_start_inside_a_file_repeats_its_format_description(tmp_path: Path) -> None:
    writer = new_writer(tmp_path)
    end = write(writer, FIRST, [*head(), *transaction(1)])
    write_more = placed(transaction(2), end)
    at = end
    for data in write_more:
        at += len(data)
        writer.append(data, at)
    writer.flush()
    first, *rest = read_all(tmp_path, Position(SERVER, FIRST, end), 6)
    assert first.raw.header.type == EventType.FORMAT_DESCRIPTION
    assert first.raw.header.flags & LOG_EVENT_ARTIFICIAL_F
    assert first.end_offset == end
    assert [item.raw.data for item in rest] == write_more
    assert rest[-1].end_offset == at


def test_a_start_by_gtids_finds_the_newest_file_it_covers(tmp_path: Path) -> None:
    writer = new_writer(tmp_path)
    write(writer, FIRST, [*head(), *transaction(1), *transaction(2), rotate(SECOND)])
    write(writer, SECOND, [*head(2), *transaction(3)])
    for known, file in ((1, FIRST), (2, SECOND), (3, SECOND)):
        start = Position("", "", gtid_set=GtidSet.parse(f"{SERVER}:1-{known}"))
        assert read_all(tmp_path, start, 1)[0].file == file


def test_a_start_the_relay_never_had_is_refused(tmp_path: Path) -> None:
    writer = new_writer(tmp_path)
    write(writer, SECOND, [*head(5), *transaction(6)])
    with pytest.raises(DMError, match="the relay has no file"):
        read_all(tmp_path, Position(SERVER, FIRST), 1)
    with pytest.raises(DMError, match="the relay has no file"):
        read_all(tmp_path, Position("", "", gtid_set=GtidSet.parse(f"{SERVER}:1-4")), 1)
    with pytest.raises(DMError, match="the source is now server"):
        read_all(tmp_path, Position(OTHER, FIRST, 4), 1)


def test_a_reader_waits_for_a_relay_that_is_not_there_yet(tmp_path: Path) -> None:
    found: list[SourceEvent] = []
    reader = threading.Thread(target=lambda: found.extend(read_all(tmp_path, Position(SERVER, SECOND), 7)))
    reader.start()
    writer = new_writer(tmp_path)
    write(writer, FIRST, [*head(), rotate(SECOND)])
    write(writer, SECOND, [*head(), *transaction(1)])
    reader.join()
    assert {item.file for item in found} == {SECOND}


def test_a_heartbeat_of_the_source_reaches_the_reader_as_proof_that_it_has_everything(tmp_path: Path) -> None:
    writer = new_writer(tmp_path)
    end = write(writer, FIRST, [*head(), *transaction(1)])
    stop = threading.Event()
    for item in RelayEventSource(tmp_path, "mysql").events(Position(SERVER, FIRST, end), stop):
        if item is None:
            writer.heartbeat()
        elif item.raw.header.type == EventType.HEARTBEAT:
            assert (item.file, item.end_offset) == (FIRST, end)
            stop.set()


def test_a_reader_after_a_cut_waits_until_the_file_has_grown_again(tmp_path: Path) -> None:
    events = [*head(), *transaction(1), *transaction(2)]
    whole = file_bytes(events)
    writer = new_writer(tmp_path)
    cut = write(writer, FIRST, [*head(), *transaction(1)])
    path = writer.sub.file(FIRST)
    path.write_bytes(whole[:-10])
    stop = threading.Event()
    found = 0
    for item in RelayEventSource(tmp_path, "mysql", idle_seconds=0.05).events(Position(SERVER, FIRST), stop):
        if item is not None and item.raw.header.type != EventType.HEARTBEAT:
            found += 1
        elif found == len(events) - 1 and path.stat().st_size > cut:
            path.write_bytes(whole[:cut])
        elif found == len(events) - 1:
            path.write_bytes(whole)
        if found == len(events):
            stop.set()
    assert found == len(events)


def test_a_transaction_the_source_lost_in_a_crash_is_reported_to_who_read_a_part_of_it(tmp_path: Path) -> None:
    writer = new_writer(tmp_path)
    write(writer, FIRST, [*head(), *transaction(1), *transaction(2)[:3]])
    events = RelayEventSource(tmp_path, "mysql", idle_seconds=0.05).events(Position(SERVER, FIRST), threading.Event())
    assert len(list(islice((item for item in events if item is not None), len(head()) + 5 + 3))) == 10
    write(writer, SECOND, [*head(1), *transaction(2)])
    with pytest.raises(DMError, match="the source lost the rest in a crash") as raised:
        list(events)
    assert raised.value.retryable
    assert writer.sub.file(FIRST).read_bytes() == file_bytes([*head(), *transaction(1)])


def test_garbage_between_events_is_named_with_its_place(tmp_path: Path) -> None:
    writer = new_writer(tmp_path)
    end = write(writer, FIRST, [*head(), *transaction(1)])
    with writer.sub.file(FIRST).open("ab") as file:
        file.write(bytes(30))
    with pytest.raises(DMError, match=f"{FIRST} is damaged at offset {end}"):
        read_all(tmp_path, Position(SERVER, FIRST), 8)


def test_bytes_the_source_left_out_become_an_event_without_meaning(tmp_path: Path) -> None:
    writer = new_writer(tmp_path)
    end = write(writer, FIRST, head())
    at = end + 50
    for data in placed(transaction(1), at):
        at += len(data)
        writer.append(data, at)
    writer.flush()
    filler = read_all(tmp_path, Position(SERVER, FIRST), 3)[-1]
    assert filler.raw.header.type == EventType.IGNORABLE
    assert (filler.raw.header.size, filler.end_offset) == (50, end + 50)
    recovered = recover(writer.sub, "mysql")
    assert recovered is not None
    assert recovered.index.complete == at


def test_damage_on_the_way_is_refused_before_it_is_stored(tmp_path: Path) -> None:
    writer = new_writer(tmp_path)
    end = write(writer, FIRST, head())
    damaged = bytearray(placed(transaction(1), end)[0])
    damaged[30] ^= 1
    with pytest.raises(DMError, match="arrived damaged") as raised:
        writer.append(bytes(damaged), end + len(damaged))
    assert raised.value.retryable
    writer.abandon()
    assert writer.sub.file(FIRST).read_bytes() == file_bytes(head())


def test_a_full_disk_is_a_retryable_error(tmp_path: Path) -> None:
    sub = SubDirectory(tmp_path / "missing" / f"{SERVER}.000001", SERVER, 1)
    writer = RelayWriter(sub, "mysql", SystemClock())
    with pytest.raises(DMError, match="can't use its storage") as raised:
        write(writer, FIRST, head())
    assert raised.value.retryable


def test_files_that_go_backwards_mean_another_history(tmp_path: Path) -> None:
    writer = new_writer(tmp_path)
    write(writer, SECOND, head())
    with pytest.raises(DMError, match="was reset"):
        writer.announce(FIRST, 4)


def test_a_file_begins_with_its_format_description_or_not_at_all(tmp_path: Path) -> None:
    writer = new_writer(tmp_path)
    writer.announce(FIRST, 4)
    stray = placed([event(EventType.XID, bytes(8))])[0]
    with pytest.raises(DMError, match="begins with an event of type 16"):
        writer.append(stray, 4 + len(stray))
    assert not writer.sub.files()


def test_fault_points_stand_between_the_steps(tmp_path: Path) -> None:
    for point in ("relay.after_write", "relay.inside_transaction", "relay.rotate", "relay.before_meta"):
        writer = new_writer(tmp_path / point.replace(".", "-"))
        faults.arm(f"{point}=error")
        with pytest.raises(faults.FaultError, match=point):
            _write_two_files(writer)
        writer.abandon()
        if writer.sub.files():
            assert writer.sub.file(FIRST).read_bytes()[:4] == MAGIC


def _write_two_files(writer: RelayWriter) -> None:
    write(writer, FIRST, [*head(), *transaction(1)[:2]])
    write(writer, SECOND, head())
