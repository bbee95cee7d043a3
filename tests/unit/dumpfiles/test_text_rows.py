"""Rows are cut out of the protocol's bytes exactly, wherever packets and reads end."""

from __future__ import annotations

import contextlib
import io
import itertools
import struct
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pymysql
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm.dumper.chunk_reader import row_groups
from dm.dumpfiles.text_rows import ColumnBatch, Limits, _batches
from tests.testbed.decoders import compiled, running

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

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


class Dripping(io.RawIOBase):
    """A socket that gives what has arrived, some bytes at a time; after the content it is silent, or ends."""

    def __init__(self, content: bytes, drip: int, *, ends: bool) -> None:
        super().__init__()
        self._content = io.BytesIO(content)
        self._drip = drip
        self._ends = ends

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        part = self._content.read(min(self._drip, memoryview(buffer).nbytes))
        assert part or self._ends, "this read would wait for ever"
        memoryview(buffer)[: len(part)] = part
        return len(part)


def read(
    content: bytes, drip: int, width: int, rows: int, size: int, *, ends: bool = False, before: int = 0
) -> list[ColumnBatch]:
    """The batches, all with the same limits."""
    return read_within(itertools.repeat(Limits(rows, size)), content, drip, width, ends=ends, before=before)


def read_within(
    limits: Iterable[Limits], content: bytes, drip: int, width: int, *, ends: bool = False, before: int = 0
) -> list[ColumnBatch]:
    """The batches, which the compiled way and Python's agree on; raises what both raise.

    `before` bytes at the beginning are the columns' definitions, which were read already.
    """
    ways: list[tuple[object, list[ColumnBatch], pymysql.err.Error | None]] = []
    natives = list({None, compiled()})
    for native, each in zip(natives, itertools.tee(limits, len(natives)), strict=True):
        found: list[ColumnBatch] = []
        failure: pymysql.err.Error | None = None
        source = io.BufferedReader(Dripping(content, drip, ends=ends))
        source.read(before)
        with running(native):
            try:
                found.extend(_batches(source, width, each))
            except pymysql.err.Error as error:
                failure = error
        for batch in found:
            for column in batch.columns:
                column.validate(full=True)
        ways.append(([(batch.columns, batch.rows, batch.size) for batch in found], found, failure))
    assert all(told == ways[0][0] and repr(failure) == repr(ways[0][2]) for told, _, failure in ways)
    _, found, failure = ways[0]
    if failure is not None:
        raise failure
    return found


def rows_of(batches: Sequence[ColumnBatch]) -> list[tuple[bytes | None, ...]]:
    return [row for batch in batches for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)]


values = st.none() | st.binary(max_size=300) | st.sampled_from([b"\xfe" * 8, b"\xff", b"", b"x" * 251, b"y" * 70_000])


@settings(deadline=None)
@given(
    rows=st.integers(1, 4).flatmap(lambda width: st.lists(st.tuples(*[values] * width), max_size=12)),
    drip=st.integers(1, 5000),
    row_limit=st.integers(1, 5),
    size_limit=st.integers(1, 1000),
    before=st.sampled_from([0, 1, 100, 9000]),
)
def test_rows_come_back_whatever_the_packets_and_limits(
    rows: list[tuple[bytes | None, ...]], drip: int, row_limit: int, size_limit: int, before: int
) -> None:
    """None of the reads waits for more than the answer has."""
    width = len(rows[0]) if rows else 1
    batches = read(bytes(before) + stream(rows), drip, width, row_limit, size_limit, before=before)
    assert rows_of(batches) == rows
    assert all(0 < batch.rows <= row_limit for batch in batches)
    assert sum(batch.rows for batch in batches) == len(rows)


def test_each_batch_has_limits_of_its_own() -> None:
    content = stream([(b"x",)] * 20)
    batches = read_within(
        itertools.chain([Limits(2, 99), Limits(9, 9)], itertools.repeat(Limits(7, 99))), content, 50, 1
    )
    assert [batch.rows for batch in batches] == [2, 5, 7, 6]
    with pytest.raises(ValueError, match="leave out rows"):
        read_within([Limits(2, 99)], content, 50, 1)


def test_a_large_chunk_has_larger_groups_after_its_first_ones() -> None:
    """Each part of a load reads what the file says of all of them."""
    limits = list(itertools.islice(row_groups(), 1001))
    assert len(set(limits[:1000])) == 1
    assert limits[1000].size == 4 * limits[0].size
    assert limits[1000].rows == 4 * limits[0].rows


@pytest.mark.parametrize("size", [FULL - 5, FULL - 4, FULL, 2 * FULL + 17])
def test_a_row_larger_than_a_packet_is_one_row(size: int) -> None:
    row = (b"z" * size, b"tail")
    batches = read(stream([row, (b"a", None)]), 1 << 16, 2, 10, 10)
    assert rows_of(batches) == [row, (b"a", None)]


def test_an_error_among_the_rows_is_raised() -> None:
    error = b"\xff" + struct.pack("<H", 1317) + b"#70100Query execution was interrupted"
    with pytest.raises(pymysql.err.OperationalError) as caught:
        read(stream([(b"1",)], error), 100, 1, 10, 1000)
    assert caught.value.args[0] == 1317


def test_an_end_without_an_end_packet_is_a_lost_connection() -> None:
    content = stream([(b"12345",)])[:7]
    with pytest.raises(pymysql.err.OperationalError) as caught:
        read(content, 100, 1, 10, 1000, ends=True)
    assert caught.value.args[0] == 2013


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff\x01",
        b"\xff\x01\x02",
        b"\x05four",
        b"\x02ab",
        b"\x02abc\x00",
        b"\xfc\x01",
        b"\xfd\x05\x00\x00abc",
        b"\xfe" + b"\xff" * 8 + b"x",
    ],
)
def test_a_packet_that_is_not_the_rows_values_is_an_error(payload: bytes) -> None:
    """A row that is cut at other places than the server meant would be other values, or values of other columns."""
    with pytest.raises(pymysql.err.OperationalError) as caught:
        read(stream([(b"1", b"2")])[: -len(packets(EOF_PACKET))] + packets(payload) + packets(EOF_PACKET), 7, 2, 9, 99)
    assert caught.value.args[0] == 2027


@settings(deadline=None)
@given(payloads=st.lists(st.binary(max_size=40), max_size=6), width=st.integers(1, 4), drip=st.integers(1, 200))
def test_both_ways_agree_whatever_the_bytes_are(payloads: list[bytes], width: int, drip: int) -> None:
    with contextlib.suppress(pymysql.err.Error):
        read(b"".join(map(packets, payloads)), drip, width, 3, 100, ends=True)
