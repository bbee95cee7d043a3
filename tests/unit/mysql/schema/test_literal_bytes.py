"""Literals of other character sets in SHOW CREATE TABLE keep their bytes."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dm.mysql.schema.literal_bytes import doubtful, readable, with_hexadecimal_literals

_ESCAPES = {0: b"\\0", 10: b"\\n", 13: b"\\r", 26: b"\\Z", 39: b"\\'", 92: b"\\\\"}


def printed(value: bytes) -> bytes:
    """As the server prints a literal: byte by byte (Item_string::print)."""
    return b"'" + b"".join(_ESCAPES.get(byte, bytes([byte])) for byte in value) + b"'"


@given(st.binary(max_size=12), st.sampled_from(["latin1", "gbk", "binary", "sjis"]), st.text("`'_a中", max_size=5))
@example(b"\xa8\\", "gbk", "_latin1'x")
def test_the_bytes_of_a_literal_stay(value: bytes, charset: str, name: str) -> None:
    before = (
        "`" + name.replace("`", "``") + "` char(9) DEFAULT '_gbk''中' COMMENT '\\\\', c AS (concat(`o`,_utf8mb4'é',"
    )
    shown = before.encode() + b"_" + charset.encode() + printed(value) + b"))"
    text = with_hexadecimal_literals(shown)
    if max(value, default=0) < 128:
        assert text == shown.decode()
    else:
        assert text == f"{before}_{charset} x'{value.hex()}'))"


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("c AS (concat(`o`,_latin1'?'))", True),
        ("c AS (concat(`o`,_gbk'a\\'é'))", True),
        ("c AS (concat(`o`,_latin1'a',_utf8mb4'é'))", False),
        ("c AS (concat(`o`,_utf8mb4'a?'))", True),  # four bytes may have been there
        ("c varchar(9) DEFAULT '?' COMMENT 'é'", False),
        ("c AS (concat(`o`,_utf8mb3'?'))", False),
    ],
)
def test_only_what_may_have_lost_bytes_is_asked_again(text: str, asked: bool) -> None:
    assert doubtful(text) is asked


def test_an_answer_that_is_no_text_is_readable() -> None:
    shown = "`é` varbinary(9) DEFAULT '".encode() + b"\\0\xff" + "' COMMENT 'ü', d char(1) DEFAULT 'ö'".encode()
    assert readable(shown) == "`é` varbinary(9) DEFAULT x'00ff' COMMENT 'ü', d char(1) DEFAULT 'ö'"
    assert readable(shown.replace(b"\xff", b"f")) == shown.replace(b"\xff", b"f").decode()
