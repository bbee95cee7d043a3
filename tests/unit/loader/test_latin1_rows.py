"""Texts in latin1 become UTF-8 in their columns, and nothing else changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.loader.sql_loader import in_utf8, latin1_columns
from dm.mysql.schema.table import Column

COLUMNS = (
    Column("id", "int"),
    Column("l", "varchar", charset="latin1"),
    Column("g", "varchar", charset="gbk"),
    Column("b", "blob"),
    Column("e", "enum", charset="latin1"),
    Column("j", "json"),
)
NAMES = [column.name for column in COLUMNS]


def quoted(value: bytes) -> bytes:
    return b"'" + value.replace(b"\\", b"\\\\").replace(b"'", b"\\'") + b"'"


def test_the_columns_are_those_in_latin1_or_all_of_texts() -> None:
    assert latin1_columns(COLUMNS, NAMES, all_texts=False) == {1, 4}
    assert latin1_columns(COLUMNS, NAMES, all_texts=True) == {1, 2, 4, 5}
    assert latin1_columns(COLUMNS, ["E", "b", "L"], all_texts=False) == {0, 2}
    assert latin1_columns(COLUMNS[:1], NAMES, all_texts=True) == frozenset()


@given(st.lists(st.tuples(st.text(st.characters(codec="latin-1")), st.binary()), min_size=1, max_size=5))
def test_only_literals_of_the_columns_change(values: list[tuple[str, bytes]]) -> None:
    # 0x80 to 0x9f are other characters in the server's latin1.
    texts = [text.translate(dict.fromkeys(range(128, 160), "é")) for text, _ in values]
    rows, wanted = (
        b",".join(
            b"(1," + quoted(text.encode(charset)) + b",_binary" + quoted(data) + b", -2.5)"
            for text, (_, data) in zip(texts, values, strict=True)
        )
        for charset in ("latin-1", "utf-8")
    )
    assert in_utf8(rows, {1}) == wanted


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        (b"(CONVERT('\xe4,' USING binary), '\xe4')", b"(CONVERT('\xe4,' USING binary), '\xc3\xa4')"),
        (b"('x', \"\xe4''\"), ('\xe4', '\x80')", b"('x', \"\xc3\xa4''\"), ('\xe4', '\xe2\x82\xac')"),
        (b"(NULL, 'a''\xe4')", b"(NULL, 'a''\xc3\xa4')"),
        (b"(1, 2)", b"(1, 2)"),
    ],
)
def test_calls_quotes_and_the_servers_own_characters(rows: bytes, wanted: bytes) -> None:
    assert in_utf8(rows, {1}) == wanted


def test_without_columns_nothing_changes() -> None:
    assert in_utf8(b"('\xe4')", frozenset()) == b"('\xe4')"
