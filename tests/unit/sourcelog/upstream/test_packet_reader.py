"""Events out of a TCP stream, however it is cut."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm.errors import DMError
from dm.sourcelog.upstream.packet_reader import LARGEST_EVENT, PacketReader, StreamEndedError

LARGEST = 0xFFFFFF


def event(size: int, fill: bytes = b"\0") -> bytes:
    """An event of this size, which says so."""
    header = struct.pack("<IBIII2x", 0, 0, 0, size, 0)
    return header + fill * (size - len(header))


def packets(events: list[bytes], first: int = 1) -> bytes:
    """The protocol's form of these events."""
    stream = b""
    number = first
    for event in events:
        payload = b"\x00" + event
        while True:
            part, payload = payload[:LARGEST], payload[LARGEST:]
            stream += struct.pack("<I", len(part) | number << 24) + part
            number = (number + 1) & 0xFF
            if len(part) < LARGEST:
                break
    return stream


@contextmanager
def reading(stream: bytes, pieces: list[int], timeout: float = 5) -> Iterator[PacketReader]:
    """A reader of a connection on which `stream` arrives in pieces of these sizes, then the rest, then the end."""
    ours, theirs = socket.socketpair()

    def send() -> None:
        at = 0
        with suppress(BrokenPipeError):  # the reader may give up before the end
            for piece in pieces:
                theirs.sendall(stream[at : at + piece])
                at += piece
            theirs.sendall(stream[at:])
            theirs.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield PacketReader(ours, timeout)
    finally:
        ours.close()
        sender.join()
        theirs.close()


def everything(reader: PacketReader) -> list[bytes]:
    found: list[bytes] = []
    while True:
        try:
            found += reader.read()
        except StreamEndedError:
            return found


@given(st.lists(st.binary(min_size=19, max_size=300), max_size=30), st.lists(st.integers(1, 200), max_size=30))
@settings(deadline=None)
def test_events_come_out_whole_however_the_stream_is_cut(events: list[bytes], pieces: list[int]) -> None:
    with reading(packets(events), pieces) as reader:
        assert everything(reader) == events


@pytest.mark.parametrize("size", [LARGEST - 2, LARGEST - 1, LARGEST, 2 * LARGEST - 1, 2 * LARGEST + 7])
def test_events_longer_than_a_packet_are_put_together(size: int) -> None:
    events = [event(20), event(size), event(21)]
    with reading(packets(events), []) as reader:
        assert everything(reader) == events


def test_packet_numbers_go_round() -> None:
    events = [event(19, b"") + str(number).encode() for number in range(600)]
    with reading(packets(events), []) as reader:
        assert everything(reader) == events


def test_a_missing_packet_is_noticed() -> None:
    stream = packets([event(20)]) + packets([event(22)], first=3)
    with reading(stream, []) as reader, pytest.raises(DMError, match="not a binlog stream") as raised:
        everything(reader)
    assert raised.value.retryable


@pytest.mark.parametrize("verdict", [b"\xff\xd4\x04#HY000why", b"\xfe\x00\x00\x02\x00"])
def test_what_ends_the_dump_comes_after_the_events_before_it(verdict: bytes) -> None:
    stream = packets([event(20)]) + struct.pack("<I", len(verdict) | 2 << 24) + verdict
    with reading(stream, []) as reader:
        assert everything(reader) == [event(20)]
        assert reader.verdict == verdict


def test_silence_ends_the_stream() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(StreamEndedError, match="not even a heartbeat"):
        PacketReader(ours, timeout=0.05).read()


def test_ready_says_whether_a_read_would_wait() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        reader = PacketReader(ours, timeout=1)
        assert not reader.ready()
        theirs.sendall(b"x")
        assert reader.ready()


@pytest.mark.parametrize(
    "payload", [b"", b"\0", b"\0short", b"\xfb/etc/passwd", b"\x01" + event(30), b"\0" + event(19)[:18]]
)
def test_a_packet_that_is_no_event_and_no_verdict_is_refused(payload: bytes) -> None:
    stream = struct.pack("<I", len(payload) | 1 << 24) + payload
    with reading(stream, []) as reader, pytest.raises(DMError, match="not a binlog stream"):
        everything(reader)


@pytest.mark.parametrize("declared", [100, LARGEST + 10, LARGEST_EVENT + 1])
def test_an_event_that_never_ends_is_given_up_at_the_size_it_says_it_has(declared: int) -> None:
    begin = b"\0" + event(19)[:9] + struct.pack("<I", declared) + bytes(LARGEST - 14)
    stream = struct.pack("<I", LARGEST | 1 << 24) + begin + struct.pack("<I", LARGEST | 2 << 24) + bytes(LARGEST)
    with reading(stream, []) as reader:
        with pytest.raises(DMError, match="not a binlog stream"):
            everything(reader)
        assert sum(map(len, reader._parts)) <= max(declared, LARGEST) + 1


def test_the_first_word_may_take_longer_than_the_others() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        reader = PacketReader(ours, 0.05, first_timeout=30)
        assert ours.gettimeout() == 30
        theirs.sendall(packets([event(20)]))
        assert reader.read() == [event(20)]
        assert ours.gettimeout() == 0.05
