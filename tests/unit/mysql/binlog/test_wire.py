"""Frames, checksums, integers of the wire, character sets."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.errors import DMError
from dm.mysql.binlog.charset import charset_of, decode_text, max_bytes
from dm.mysql.binlog.cursor import ByteCursor, Malformed
from dm.mysql.binlog.event import RawEvent
from dm.mysql.binlog.frame import frames, verify_crc
from dm.mysql.binlog.header import EventType, parse_header
from dm.mysql.binlog.reader import EventParser, Rotate
from tests.unit.mysql.binlog.sample import raw_events


def event(kind: int, body: bytes, *, flags: int = 0, timestamp: int = 1, checksum: bool = False) -> bytes:
    size = 19 + len(body) + (4 if checksum else 0)
    data = timestamp.to_bytes(4, "little") + bytes((kind,)) + bytes(4) + size.to_bytes(4, "little")
    data += bytes(4) + flags.to_bytes(2, "little") + body
    return data + zlib.crc32(data).to_bytes(4, "little") if checksum else data


def varlen(value: int) -> bytes:
    """MySQL's serialization library: trailing ones of the first byte count the bytes that follow."""
    for extra in range(8):
        if value < 1 << (7 * (extra + 1)):
            return (value << (extra + 1) | (1 << extra) - 1).to_bytes(extra + 1, "little")
    return b"\xff" + value.to_bytes(8, "little")


@given(st.integers(0, (1 << 64) - 1))
def test_variable_length_integers(value: int) -> None:
    assert ByteCursor(varlen(value)).varlen() == value
    signed = ~(value >> 1) if value & 1 else value >> 1
    assert ByteCursor(varlen(value)).varlen_signed() == signed


@given(st.lists(st.binary(max_size=50), max_size=8), st.integers(0, 30))
def test_frames_are_the_complete_events(bodies: list[bytes], torn: int) -> None:
    written = [event(EventType.XID, body) for body in bodies]
    data = b"\xfebin" + b"".join(written)
    end = max(4, len(data) - torn)
    found = [data[at : at + header.size] for at, header in frames(data, 4, end)]
    complete = [one for number, one in enumerate(written) if 4 + sum(map(len, written[: number + 1])) <= end]
    assert found == complete


def test_a_frame_shorter_than_a_header_is_refused() -> None:
    with pytest.raises(DMError):
        list(frames(bytes(40), 0, 40))


@given(st.binary(max_size=100), st.integers(0, 7), st.integers(0, 1000))
def test_a_checksum_holds_until_a_bit_changes(body: bytes, bit: int, at: int) -> None:
    data = event(EventType.XID, body, checksum=True)
    assert verify_crc(data)
    damaged = bytearray(data)
    damaged[at % len(data)] ^= 1 << bit
    assert not verify_crc(damaged)


def test_the_in_use_flag_of_a_format_description_is_not_summed() -> None:
    closed = bytearray(raw_events("mysql")[0].data)
    closed[17] &= 0xFE
    assert verify_crc(closed)
    closed[17] |= 1
    assert verify_crc(closed)


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("opened", [True, False])
def test_a_fake_rotate_is_read_with_and_without_checksum(checksum: bool, opened: bool) -> None:
    parser = EventParser()
    if opened:
        parser.parse(raw_events("mysql")[0])
    data = event(
        EventType.ROTATE, (4).to_bytes(8, "little") + b"bin.000123", flags=0x20, timestamp=0, checksum=checksum
    )
    assert parser.parse(RawEvent(parse_header(data), data)) == Rotate("bin.000123", 4, artificial=True)


def test_reading_past_the_end_is_refused() -> None:
    cursor = ByteCursor(b"abc")
    cursor.take(2)
    with pytest.raises(Malformed):
        cursor.take(2)
    with pytest.raises(Malformed):
        ByteCursor(b"abc").until_nul()


def test_character_sets_by_number() -> None:
    assert [charset_of(number) for number in (8, 33, 45, 63, 255, 305, 1057, 2304, 248)] == [
        "latin1", "utf8mb3", "utf8mb4", "binary", "utf8mb4", "utf8mb4", "utf8mb3", "utf8mb4", "gb18030",
    ]  # fmt: skip
    assert charset_of(4000) is None
    assert (max_bytes("utf8"), max_bytes("utf8mb4"), max_bytes("latin1")) == (3, 4, 1)


def test_statements_are_decoded_by_their_client() -> None:
    assert decode_text("ä€".encode(), 45) == "ä€"
    assert decode_text(b"\xe4\x80\x81", 8) == "ä€\x81"
    assert decode_text("中".encode("gbk"), 28) == "中"
    assert decode_text(b"plain", None) == "plain"
    for raw, collation in ((b"\xff", 45), (b"\xe4", 92), (b"\xe4", 4000)):
        with pytest.raises(DMError) as caught:
            decode_text(raw, collation)
        assert caught.value.name == "statement-undecodable"
