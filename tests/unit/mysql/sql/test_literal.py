"""Literals say exactly the value; a small reader of SQL literals is the judge."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.mysql.binlog.value import Value
from dm.mysql.schema.table import Column
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.token import tokenize

_PLAIN = SourceContext("mysql", 90704, "")


def _bytes_of(literal: bytes) -> bytes:
    """What a string literal stands for."""
    if literal.startswith(b"'"):
        (token,) = tokenize(literal.decode(), _PLAIN)
        return token.text.encode()
    return bytes.fromhex(literal.split(b"0x")[1].decode())


@given(st.text())
def test_text_comes_back(text: str) -> None:
    raw = text.encode("utf-8", "surrogatepass")
    assert _bytes_of(Column("c", "varchar", 10, charset="utf8mb4").encoder()(raw)) == raw


def test_no_program_that_reads_lines_changes_a_text() -> None:
    assert Column("c", "text", charset="utf8mb4").encoder()(b"a\r\nb\r") == b"'a\\r\nb\\r'"


@given(st.binary())
def test_any_bytes_come_back(raw: bytes) -> None:
    for column in (
        Column("c", "varchar", 10, charset="utf8mb4"),
        Column("c", "text", charset="latin1"),
        Column("c", "blob"),
        Column("c", "varbinary", 10),
    ):
        assert _bytes_of(column.encoder()(raw)) == raw


def test_the_character_set_is_named_where_it_is_not_the_session_s() -> None:
    assert Column("c", "char", 1, charset="latin1").encoder()(b"\xe9") == b"_latin1 0xe9"
    assert Column("c", "char", 1, charset="utf8mb4").encoder()(b"\xff") == b"_utf8mb4 0xff"
    assert Column("c", "char", 1, charset="latin1").encoder()(b"") == b"''"
    assert Column("c", "blob").encoder()(b"") == b"''"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_comes_back_with_its_sign(value: float) -> None:
    literal = Column("c", "double").encoder()(value)
    assert literal.startswith(b"'")
    again = float(literal.strip(b"'"))
    assert again == value
    assert math.copysign(1, again) == math.copysign(1, value)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=10))
def test_a_decimal_is_a_number_not_a_string(value: Decimal) -> None:
    text = format(value, "f")
    assert Column("c", "decimal", 65, 30).encoder()(text) == text.encode()


@pytest.mark.parametrize(
    ("base", "value", "literal"),
    [
        ("int", -5, b"-5"),
        ("bigint", 18446744073709551615, b"18446744073709551615"),
        ("year", 0, b"0"),
        ("enum", 0, b"0"),
        ("bit", 513, b"513"),
        ("json", '{"a": "\\""}', b'\'{"a": "\\\\""}\''),
        ("datetime", "2020-01-01 00:00:00.000001", b"'2020-01-01 00:00:00.000001'"),
        ("uuid", b"\x12\x3e", b"'123e0000-0000-0000-0000-000000000000'"),
        ("inet6", b"\0" * 15 + b"\1", b"'::1'"),
        ("inet4", b"\1\2\3\4", b"'1.2.3.4'"),
        ("int", None, b"NULL"),
        ("geometry", None, b"NULL"),
    ],
)
def test_other_types(base: str, value: int | str | bytes | None, literal: bytes) -> None:
    assert Column("c", base).encoder()(value) == literal


@pytest.mark.parametrize(
    ("base", "value"),
    [("int", 1.5), ("decimal", "1; DROP TABLE t"), ("decimal", 1), ("double", "x"), ("datetime", 1), ("text", "x")]
    + [("blob", "x"), ("uuid", 1), ("geometry", 1.5)],
)
def test_a_value_of_another_type_is_refused(base: str, value: Value) -> None:
    with pytest.raises(TypeError):
        Column("c", base).encoder()(value)
