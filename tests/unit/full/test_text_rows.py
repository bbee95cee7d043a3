"""Rows are cut out of the protocol's bytes exactly, wherever packets and reads end."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence

import pymysql
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm.spark.text_rows import _batches

FULL = 0xFFFFFF
EOF_PACKET = b"\xfe\x00\x00\x02\x00"


def encoded(value: bytes | None) -> bytes:
    if value is None:
        return b"\xfb"
    if len(value) < 251:
        return bytes([len(value)]) + value
    if len(value) < 1 << 16:
        return b"\xfc" + struct.pack("<H", len(value)) + value
    if len(value) < 1 << 24:
        return b"\xfd" + struct.pack("<I", len(value))[:3] + value
    return b"\xfe" + struct.pack("<Q", len(value)) + value


def packets(payload: bytes) -> bytes:
    out = []
    at = 0
    while True:
        part = payload[at : at + FULL]
        out.append(struct.pack("<I", len(part))[:3] + b"\x00" + part)
        at += FULL
        if len(part) < FULL:
            return b"".join(out)


def stream(rows: Sequence[Sequence[bytes | None]], end: bytes = EOF_PACKET) -> bytes:
    return b"".join(packets(b"".join(map(encoded, row))) for row in rows) + packets(end)


class Dripping(io.BytesIO):
    """A socket's file that gives what has arrived, some bytes at a time."""

    def __init__(self, content: bytes, drip: int) -> None:
        super().__init__(content)
        self.drip = drip

    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read1(self.drip if size is None or size < 0 else min(size, self.drip))


values = st.none() | st.binary(max_size=300) | st.sampled_from([b"\xfe" * 8, b"\xff", b"", b"x" * 251, b"y" * 70_000])


@settings(deadline=None)
@given(
    rows=st.integers(1, 4).flatmap(lambda width: st.lists(st.tuples(*[values] * width), max_size=12)),
    drip=st.integers(1, 5000),
    row_limit=st.integers(1, 5),
    size_limit=st.integers(1, 1000),
)
def test_rows_come_back_whatever_the_packets_and_limits(
    rows: list[tuple[bytes | None, ...]], drip: int, row_limit: int, size_limit: int
) -> None:
    width = len(rows[0]) if rows else 1
    batches = list(_batches(Dripping(stream(rows), drip), width, row_limit, size_limit))
    assert [row for batch in batches for row in zip(*batch.columns, strict=True)] == rows
    assert all(0 < batch.rows <= row_limit for batch in batches)
    assert sum(batch.rows for batch in batches) == len(rows)


@pytest.mark.parametrize("size", [FULL - 5, FULL - 4, FULL, 2 * FULL + 17])
def test_a_row_larger_than_a_packet_is_one_row(size: int) -> None:
    row = (b"z" * size, b"tail")
    batches = list(_batches(Dripping(stream([row, (b"a", None)]), 1 << 16), 2, 10, 10))
    assert [found for batch in batches for found in zip(*batch.columns, strict=True)] == [row, (b"a", None)]


def test_an_error_among_the_rows_is_raised() -> None:
    error = b"\xff" + struct.pack("<H", 1317) + b"#70100Query execution was interrupted"
    with pytest.raises(pymysql.err.OperationalError) as caught:
        list(_batches(Dripping(stream([(b"1",)], error), 100), 1, 10, 1000))
    assert caught.value.args[0] == 1317


def test_an_end_without_an_end_packet_is_a_lost_connection() -> None:
    content = stream([(b"12345",)])[:7]
    with pytest.raises(pymysql.err.OperationalError) as caught:
        list(_batches(Dripping(content, 100), 1, 10, 1000))
    assert caught.value.args[0] == 2013
