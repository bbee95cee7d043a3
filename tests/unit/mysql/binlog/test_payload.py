"""Transaction payloads: whatever their compression and their events' sizes, the same events come out."""

from __future__ import annotations

import random
import tracemalloc
import zlib

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from dm.errors import DMError
from dm.mysql.binlog.compression import LARGEST_UNPACKED, TransactionPayload, decompress_event
from dm.mysql.binlog.header import HEADER_SIZE, EventType
from tests.unit.mysql.binlog.test_wire import event

bodies = st.lists(st.binary(max_size=50) | st.integers(0, 700_000).map(bytes), max_size=6)


@settings(max_examples=30, deadline=None)
@given(bodies, st.booleans(), st.booleans())
def test_events_come_out_as_they_went_in(parts: list[bytes], plain: bool, size_told: bool) -> None:
    written = [event(EventType.XID, body) for body in parts]
    data = b"".join(written)
    stored = data if plain else zstandard.ZstdCompressor().compress(data)
    payload = TransactionPayload(255 if plain else 0, len(data) if size_told else None, stored, 0)
    assert [inner.data for inner in payload.events()] == written


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (event(EventType.XID, bytes(8))[:-1], None),
        (event(EventType.XID, bytes(8)), 26),
        (event(EventType.XID, bytes(8)), 28),
        (bytes(40), None),
        (event(EventType.TRANSACTION_PAYLOAD, bytes(8)), None),
        (event(EventType.FORMAT_DESCRIPTION, bytes(8)), None),
    ],
)
def test_what_is_not_a_transaction_is_refused(data: bytes, size: int | None) -> None:
    with pytest.raises(DMError) as caught:
        list(TransactionPayload(255, size, data, 0).events())
    assert caught.value.name == "event-corrupt"


def zipped(size: int) -> TransactionPayload:
    """A transaction of one event of zeros."""
    data = event(EventType.XID, bytes(size))
    return TransactionPayload(0, len(data), zstandard.ZstdCompressor().compress(data), 77)


def test_an_event_that_is_made_to_fill_the_memory_is_refused_before_it_does() -> None:
    tracemalloc.start()
    try:
        payload = zipped(LARGEST_UNPACKED)
        tracemalloc.reset_peak()
        with pytest.raises(DMError) as caught:
            list(payload.events())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.name == "event-unpacks-too-large"
    assert "ending at 77" in caught.value.message
    assert str(2 * (LARGEST_UNPACKED + HEADER_SIZE)) in caught.value.workaround
    assert peak < LARGEST_UNPACKED * 2  # the test's own event


def test_an_event_for_which_there_is_room_or_that_was_sent_in_full_is_taken() -> None:
    assert len(list(zipped(1_000_000).events(1_100_000))) == 1
    with pytest.raises(DMError):
        list(zipped(1_000_000).events(900_000))
    data = event(EventType.XID, bytes(1_000_000))
    assert len(list(TransactionPayload(255, len(data), data, 0).events(10))) == 1
    hardly = event(EventType.XID, random.Random(1).randbytes(1_000_000))
    packed = zstandard.ZstdCompressor().compress(hardly)
    assert len(list(TransactionPayload(0, len(hardly), packed, 0).events(10))) == 1


def test_a_compressed_event_of_mariadb_has_the_same_bounds() -> None:
    packed = b"\x84" + (1_000_000).to_bytes(4, "big") + zlib.compress(bytes(1_000_000))
    assert decompress_event(packed, 1_000_000) == bytes(1_000_000)
    with pytest.raises(DMError) as caught:
        decompress_event(packed, 900_000)
    assert caught.value.name == "event-unpacks-too-large"


def test_damaged_compression_is_refused() -> None:
    stored = bytearray(zstandard.ZstdCompressor().compress(event(EventType.XID, bytes(100))))
    stored[5] ^= 0xFF
    with pytest.raises(DMError):
        list(TransactionPayload(0, 123, bytes(stored), 0).events())
