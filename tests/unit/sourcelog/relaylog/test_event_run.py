"""Runs of events, taken from packets as they arrive, are stored as single events are."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dm.errors import DMError
from dm.mysql.binlog.frame import WITHOUT_END
from dm.mysql.binlog.header import EventType
from dm.sourcelog.relaylog.index import ANY_SIZE, read_index
from dm.sourcelog.relaylog.writer import RelayWriter
from tests.unit.sourcelog.relaylog.binlog_bytes import (
    event,
    file_bytes,
    gtid,
    placed,
    placed_without_checksums,
    query,
    rotate,
    rows,
    table_map,
    transaction,
    xid,
)
from tests.unit.sourcelog.relaylog.packets import Packets, packed
from tests.unit.sourcelog.relaylog.writing import FIRST, SECOND, head, new_writer

pytestmark = pytest.mark.usefixtures("twin")

both = pytest.mark.parametrize("checksums", [True, False])
slow = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)


def opened(root: Path, first: list[bytes]) -> tuple[RelayWriter, int]:
    """A writer that has taken these events, and where they end."""
    writer = new_writer(root)
    writer.announce(FIRST, 4)
    at = 4
    for data in first:
        at += len(data)
        writer.append(data, at)
    return writer, at


def closed(writer: RelayWriter) -> tuple[bytes, object]:
    writer.close()
    return writer.sub.file(FIRST).read_bytes(), read_index(writer.sub.idx(FIRST), ANY_SIZE)


groups = st.one_of(
    st.builds(transaction, st.integers(1, 1 << 40), st.integers(8, 300)),
    st.builds(lambda number: [gtid(number), query(b"CREATE TABLE a (b INT)")], st.integers(1, 1 << 40)),
    st.builds(
        lambda tables: [
            gtid(5, commit=1_700_000_000_000_000),
            query(b"BEGIN"),
            *(event for table in tables for event in (table_map(table, table=b"t%d" % table), rows())),
            xid(),
        ],
        st.lists(st.integers(1, 5), max_size=6),
    ),
    st.just([gtid(9), query(b"XA START 'a'"), rows(), query(b"XA END 'a'"), event(EventType.XA_PREPARE, b"\0" * 9)]),
    st.just([gtid(9), event(EventType.TRANSACTION_PAYLOAD, bytes(30))]),
    st.just([query(b"BEGIN"), event(EventType.USER_VAR, b"\1\0\0\0v\1"), query(b"INSERT"), query(b"COMMIT")]),
    st.just([rows()]),
    st.just([event(99, b"later", flags=0x80)]),
)


@both
@slow
@given(st.lists(groups, max_size=12), st.integers(0, 255))
def test_a_run_leaves_what_single_events_leave(
    tmp_path_factory: pytest.TempPathFactory, checksums: bool, found: list[list[bytes]], sequence: int
) -> None:
    events = (placed if checksums else placed_without_checksums)([*head(), *(one for group in found for one in group)])
    before, after = events[:2], events[2:]
    single, _ = opened(tmp_path_factory.mktemp("relay"), events)
    many, at = opened(tmp_path_factory.mktemp("relay"), before)
    packets = Packets(packed(after, sequence), sequence=sequence)
    many.take(packets)
    assert (packets.start, packets.sequence) == (len(packets.data), sequence + len(after) & 0xFF)
    assert many.end == at + sum(map(len, after))
    assert closed(many) == closed(single)


@both
@slow
@given(st.lists(groups, max_size=12))
def test_an_end_that_is_not_said_is_written(
    tmp_path_factory: pytest.TempPathFactory, checksums: bool, found: list[list[bytes]]
) -> None:
    events = (placed if checksums else placed_without_checksums)([*head(), *(one for group in found for one in group)])
    said, at = opened(tmp_path_factory.mktemp("relay"), events[:2])
    unsaid, _ = opened(tmp_path_factory.mktemp("relay"), events[:2])
    said.take(Packets(packed(events[2:])))
    silent = [without_end(data, checksums) if data[4] in WITHOUT_END else data for data in events[2:]]
    packets = Packets(packed(silent))
    unsaid.take(packets)
    assert packets.start == len(packets.data)
    assert unsaid.end == at + sum(map(len, events[2:]))
    assert closed(unsaid) == closed(said)


def test_a_wrong_checksum_of_an_event_without_an_end_stops_a_run(tmp_path: Path) -> None:
    writer, at = opened(tmp_path, placed(head()))
    first, second, third, *_ = placed(transaction(1), at)
    damaged = bytearray(without_end(third, True))
    damaged[25] ^= 4
    writer.take(Packets(packed([first, without_end(second, True), bytes(damaged)])))
    assert writer.end == at + len(first) + len(second)


def without_end(data: bytes, checksums: bool) -> bytes:
    if checksums:
        return rebuilt(data, end=0)
    return data[:13] + bytes(4) + data[17:]


def rebuilt(data: bytes, **fields: int) -> bytes:
    """The event with other header fields and a right checksum."""
    time, kind, server, size, end, flags = struct.unpack_from("<IBIIIH", data)
    known = {"time": time, "kind": kind, "server": server, "size": size, "end": end, "flags": flags, **fields}
    body = struct.pack("<IBIIIH", *known.values()) + data[19:-4]
    return body + zlib.crc32(body).to_bytes(4, "little")


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": EventType.FORMAT_DESCRIPTION},
        {"kind": EventType.ROTATE},
        {"kind": EventType.HEARTBEAT},
        {"kind": EventType.HEARTBEAT_V2},
        {"flags": 0x20},
        {"end": 0, "kind": EventType.XID},
        {"end": 0, "flags": 0x20},
        {"end": 5},
        {"size": 18},
        {"size": 1 << 31},
    ],
    ids=str,
)
def test_a_run_stops_in_front_of_what_has_to_be_judged(tmp_path: Path, fields: dict[str, int]) -> None:
    first, second, third, *rest = placed([*transaction(1)], opened(tmp_path / "a", placed(head()))[1])
    writer, at = opened(tmp_path / "b", placed(head()))
    packets = Packets(packed([first, second, rebuilt(third, **fields), *rest]))
    writer.take(packets)
    assert packets.start == len(packed([first, second]))
    assert packets.sequence == 2
    assert writer.end == at + len(first) + len(second)


@pytest.mark.parametrize("flip", [0, 25, -1])
def test_a_wrong_checksum_stops_a_run_and_is_told_by_its_event(tmp_path: Path, flip: int) -> None:
    writer, at = opened(tmp_path, placed(head()))
    first, second, *_ = placed(transaction(1), at)
    damaged = bytearray(second)
    damaged[flip] ^= 4
    packets = Packets(packed([first, bytes(damaged)]))
    writer.take(packets)
    assert writer.end == at + len(first)
    with pytest.raises(DMError) as caught:
        writer.append(bytes(damaged), writer.end + len(damaged))
    assert caught.value.name == "relay-event-damaged"


@pytest.mark.parametrize("change", [b"\1", b"\xfe", b"\xff"])
def test_a_packet_that_is_no_event_stops_a_run(tmp_path: Path, change: bytes) -> None:
    writer, at = opened(tmp_path, placed(head()))
    data = bytearray(packed(placed(transaction(1), at)))
    data[4:5] = change
    packets = Packets(bytes(data))
    writer.take(packets)
    assert packets.start == 0


def test_a_packet_with_another_number_stops_a_run(tmp_path: Path) -> None:
    writer, at = opened(tmp_path, placed(head()))
    packets = Packets(packed(placed(transaction(1), at), first=4), sequence=5)
    writer.take(packets)
    assert packets.start == 0


@slow
@given(st.integers(0, 400))
def test_the_end_of_what_arrived_stops_a_run(tmp_path_factory: pytest.TempPathFactory, arrived: int) -> None:
    writer, at = opened(tmp_path_factory.mktemp("relay"), placed(head()))
    events = placed(transaction(1), at)
    packets = Packets(packed(events)[:arrived])
    writer.take(packets)
    whole = [number for number in range(len(events) + 1) if len(packed(events[:number])) <= arrived][-1]
    assert packets.start == len(packed(events[:whole]))
    assert writer.end == at + sum(map(len, events[:whole]))


def test_nothing_is_taken_for_a_file_that_has_not_begun(tmp_path: Path) -> None:
    writer, at = opened(tmp_path, placed(head()))
    writer.announce(SECOND, 4)
    packets = Packets(packed(placed(transaction(1), at)))
    writer.take(packets)
    assert packets.start == 0


def test_nothing_is_taken_inside_a_long_event(tmp_path: Path) -> None:
    writer, at = opened(tmp_path, placed(head()))
    packets = Packets(packed(placed(transaction(1), at)), inside=True)
    writer.take(packets)
    assert packets.start == 0


def test_what_the_index_knows_is_in_the_file_also_when_an_event_is_refused(tmp_path: Path) -> None:
    writer, at = opened(tmp_path, placed(head()))
    events = placed([*transaction(1), event(EventType.GTID_TAGGED, b"\2")], at)
    with pytest.raises(DMError) as caught:
        writer.take(Packets(packed(events)))
    assert caught.value.name == "event-corrupt"
    writer.close()
    known = read_index(writer.sub.idx(FIRST), ANY_SIZE)
    assert known is not None
    assert known.complete == at + sum(map(len, events[:-1]))
    assert writer.sub.file(FIRST).stat().st_size >= known.complete


def test_a_rotation_ends_a_run_and_the_next_file_begins_another(tmp_path: Path) -> None:
    one = [*head(), *transaction(1), rotate(SECOND)]
    writer, at = opened(tmp_path, placed(one)[:2])
    rest = placed(one)[2:]
    packets = Packets(packed(rest))
    writer.take(packets)
    writer.append(rest[-1], at + sum(map(len, rest)))
    writer.announce(SECOND, 4)
    two = placed([*head(1), *transaction(2)])
    end = 4
    for data in two[:2]:
        end += len(data)
        writer.append(data, end)
    writer.take(Packets(packed(two[2:])))
    writer.close()
    assert writer.sub.file(FIRST).read_bytes() == file_bytes(one)
    assert writer.sub.file(SECOND).read_bytes() == file_bytes([*head(1), *transaction(2)])
