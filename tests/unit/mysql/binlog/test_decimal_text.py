"""DECIMAL bytes against an encoder that follows the server's description of the format."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dm.mysql.binlog.value import decimal_decoder, decimal_size

_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def pack(precision: int, scale: int, digits: str, negative: bool) -> bytes:
    """The packed form of a number given as all its digits, point left out."""
    whole, fraction = digits[: precision - scale], digits[precision - scale :]
    first = len(whole) % 9
    groups = ([whole[:first]] if first else []) + [whole[at : at + 9] for at in range(first, len(whole), 9)]
    groups += [fraction[at : at + 9] for at in range(0, len(fraction), 9)]
    packed = bytearray(b"".join(int(group).to_bytes(_BYTES[len(group)], "big") for group in groups))
    if negative:
        packed = bytearray(byte ^ 0xFF for byte in packed)
    packed[0] ^= 0x80
    return bytes(packed)


@st.composite
def numbers(draw: st.DrawFn) -> tuple[int, int, str, bool]:
    precision = draw(st.integers(1, 65))
    scale = draw(st.integers(0, min(precision, 30)))
    digits = draw(st.text("0123456789", min_size=precision, max_size=precision))
    return precision, scale, digits, draw(st.booleans()) and digits.strip("0") != ""


@given(numbers())
def test_text_is_the_number_with_all_its_fraction_digits(number: tuple[int, int, str, bool]) -> None:
    precision, scale, digits, negative = number
    packed = pack(precision, scale, digits, negative)
    assert len(packed) == decimal_size(precision, scale)
    text = decimal_decoder(precision, scale)(packed)
    whole, _, fraction = text.partition(".")
    assert fraction == digits[precision - scale :]
    assert int(whole.lstrip("-") or "0") == int(digits[: precision - scale] or "0")
    assert text.startswith("-") == negative
