"""Stored JSON to text, against an encoder of the format and Python's own reader; and documents that lie."""

from __future__ import annotations

import json
import struct
from struct import pack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm.mysql.binlog.cursor import Malformed
from dm.mysql.binlog.json_decoder import MAX_DEPTH, json_text

Json = Any

_LITERALS = {None: 0, True: 1, False: 2}


def _length(size: int) -> bytes:
    out = bytearray()
    while size > 0x7F:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    out.append(size)
    return bytes(out)


def encode(value: Json, large: bool) -> tuple[int, bytes]:
    """Type and bytes of a value, containers in one of the two widths."""
    if isinstance(value, dict | list):
        return container(value, large)
    if value is None or isinstance(value, bool):
        return 4, bytes((_LITERALS[value],))
    if isinstance(value, int):
        for code, layout, low, high in (
            (5, "<h", -(1 << 15), 1 << 15),
            (6, "<H", 0, 1 << 16),
            (7, "<i", -(1 << 31), 1 << 31),
            (8, "<I", 0, 1 << 32),
            (9, "<q", -(1 << 63), 1 << 63),
            (10, "<Q", 0, 1 << 64),
        ):
            if low <= value < high:
                return code, pack(layout, value)
        raise OverflowError(value)
    if isinstance(value, float):
        return 11, pack("<d", value)
    text = str(value).encode()
    return 12, _length(len(text)) + text


def container(value: dict[str, Json] | list[Json], large: bool) -> tuple[int, bytes]:
    width = 4 if large else 2
    keys = [key.encode() for key in value] if isinstance(value, dict) else []
    items = list(value.values()) if isinstance(value, dict) else value
    head = 2 * width + len(keys) * (width + 2) + len(items) * (width + 1)
    key_entries, entries, tail = b"", b"", b"".join(keys)
    at = head
    for key in keys:
        key_entries += at.to_bytes(width, "little") + len(key).to_bytes(2, "little")
        at += len(key)
    for item in items:
        code, raw = encode(item, large)
        if code in (4, 5, 6) or (large and code in (7, 8)):
            entries += bytes((code,)) + raw.ljust(width, b"\0")
        else:
            entries += bytes((code,)) + (head + len(tail)).to_bytes(width, "little")
            tail += raw
    body = len(items).to_bytes(width, "little") + (head + len(tail)).to_bytes(width, "little")
    return (0 if isinstance(value, dict) else 2) + large, body + key_entries + entries + tail


def stored(value: Json, large: bool) -> bytes:
    code, raw = encode(value, large)
    return bytes((code,)) + raw


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=20)
)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text('abä\n"', max_size=4), inner, max_size=5),
    max_leaves=20,
)


@given(documents, st.booleans())
def test_text_says_what_is_stored(document: Json, large: bool) -> None:
    text = json_text(stored(document, large))
    again = json.loads(text)
    assert again == document
    assert json.dumps(again) == json.dumps(document)


def text_or_refusal(raw: bytes) -> str | None:
    """The text, or None where the bytes are refused by one of the errors that the row decoder translates."""
    try:
        return json_text(raw)
    except (Malformed, IndexError, ValueError, struct.error):
        return None


@given(st.binary(max_size=300))
@settings(max_examples=500)
def test_any_bytes_give_text_or_are_refused(raw: bytes) -> None:
    text_or_refusal(raw)


@given(documents, st.integers(0, 1000), st.integers(0, 255))
def test_damaged_documents(document: Json, at: int, value: int) -> None:
    raw = bytearray(stored(document, large=False))
    raw[at % len(raw)] = value
    text_or_refusal(bytes(raw))


def test_a_document_that_contains_itself_is_refused() -> None:
    # an array of one element whose offset points to the array itself
    with pytest.raises(Malformed):
        json_text(bytes((2,)) + pack("<HHBH", 1, 7, 2, 0))


def test_a_document_that_unfolds_without_end_is_refused() -> None:
    # a chain of arrays; each holds the next one many times
    width, levels = 30, 20
    size = 4 + 3 * width
    raw = b""
    for level in range(levels):
        raw += pack("<HH", width, size) + pack("<BH", 2 if level < levels - 1 else 4, size) * width
    with pytest.raises(Malformed):
        json_text(b"\2" + raw)


def test_depth() -> None:
    document: Json = 1
    for _ in range(MAX_DEPTH - 1):
        document = [document]
    assert json_text(stored(document, large=False)).startswith("[[[[")
    with pytest.raises(Malformed):
        json_text(stored([[document]], large=False))


def test_nothing_is_null() -> None:
    assert json_text(b"") == "null"
