"""Transaction payloads: whatever their compression and their events' sizes, the same events come out."""

from __future__ import annotations

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from dm.binlog.header import EventType
from dm.binlog.payload import TransactionPayload
from dm.errors import DMError
from tests.unit.binlog.test_wire import event

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


def test_damaged_compression_is_refused() -> None:
    stored = bytearray(zstandard.ZstdCompressor().compress(event(EventType.XID, bytes(100))))
    stored[5] ^= 0xFF
    with pytest.raises(DMError):
        list(TransactionPayload(0, 123, bytes(stored), 0).events())
