"""Events out of a TCP stream, however it is cut."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm.errors import DMError
from dm.upstream.packet_reader import PacketReader, StreamEndedError

LARGEST = 0xFFFFFF


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
        sender.join()
        ours.close()
        theirs.close()


def everything(reader: PacketReader) -> list[bytes]:
    found: list[bytes] = []
    while True:
        try:
            found += reader.read()
        except StreamEndedError:
            return found


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=30), st.lists(st.integers(1, 200), max_size=30))
@settings(deadline=None)
def test_events_come_out_whole_however_the_stream_is_cut(events: list[bytes], pieces: list[int]) -> None:
    with reading(packets(events), pieces) as reader:
        assert everything(reader) == events


@pytest.mark.parametrize("size", [LARGEST - 2, LARGEST - 1, LARGEST, 2 * LARGEST - 1, 2 * LARGEST + 7])
def test_events_longer_than_a_packet_are_put_together(size: int) -> None:
    events = [b"before", bytes(size), b"after"]
    with reading(packets(events), []) as reader:
        assert everything(reader) == events


def test_packet_numbers_go_round() -> None:
    events = [str(number).encode() for number in range(600)]
    with reading(packets(events), []) as reader:
        assert everything(reader) == events


def test_a_missing_packet_is_noticed() -> None:
    stream = packets([b"one"]) + packets([b"three"], first=3)
    with reading(stream, []) as reader, pytest.raises(DMError, match="not a binlog stream") as raised:
        everything(reader)
    assert raised.value.retryable


@pytest.mark.parametrize("verdict", [b"\xff\xd4\x04#HY000why", b"\xfe\x00\x00\x02\x00"])
def test_what_ends_the_dump_comes_after_the_events_before_it(verdict: bytes) -> None:
    stream = packets([b"event"]) + struct.pack("<I", len(verdict) | 2 << 24) + verdict
    with reading(stream, []) as reader:
        assert everything(reader) == [b"event"]
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
