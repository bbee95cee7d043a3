"""Stored JSON to text, compiled and in Python."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm.mysql.binlog.json_decoder import MAX_DEPTH, read_text
from tests.unit.mysql.binlog.test_json_decoder import Json, documents, stored

thorough = settings(max_examples=80, deadline=None)


def agreed(native: ModuleType, raw: bytes) -> str | None:
    """The compiled text, which is Python's wherever there is one."""
    text: str | None = native.json_text(raw)
    if text is not None:
        assert read_text(raw) == (text, True)
    return text


@thorough
@given(documents, st.booleans())
def test_documents(native: ModuleType, document: Json, large: bool) -> None:
    agreed(native, stored(document, large))


@thorough
@given(st.binary(max_size=300))
def test_any_bytes(native: ModuleType, raw: bytes) -> None:
    agreed(native, raw)


@thorough
@given(documents, st.booleans(), st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=4))
def test_damaged_documents(native: ModuleType, document: Json, large: bool, edits: list[tuple[int, int]]) -> None:
    raw = bytearray(stored(document, large))
    for at, value in edits:
        raw[at % len(raw)] = value
    agreed(native, bytes(raw))
    agreed(native, bytes(raw[: edits[0][0] % len(raw)]) if edits else b"")


@pytest.mark.parametrize("document", [None, True, -5, 1.5, 'a\x00\x1f"\\ä𝄞', [], {}, [[1, -2]], {"a": {"b": [None]}}])
def test_what_it_reads_itself(native: ModuleType, document: Json) -> None:
    for large in (False, True):
        assert agreed(native, stored(document, large)) is not None
    assert agreed(native, b"") == "null"


def test_depth(native: ModuleType) -> None:
    document: Json = 1
    for _ in range(MAX_DEPTH - 1):
        document = [document]
    assert agreed(native, stored(document, large=False)) is not None
    assert agreed(native, stored([[document]], large=False)) is None


def test_a_document_that_unfolds_without_end_is_declined(native: ModuleType) -> None:
    width, levels = 30, 20
    head = width.to_bytes(2, "little") + (4 + 3 * width).to_bytes(2, "little")
    entry = (4 + 3 * width).to_bytes(2, "little")
    raw = b"".join(head + (b"\2" + entry if level < levels - 1 else b"\4" + entry) * width for level in range(levels))
    assert native.json_text(b"\2" + raw) is None
