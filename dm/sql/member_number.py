"""Members of an ENUM or a SET compared by their number, with the column itself, so that an index may be used.

The 64th member of a SET is the sign of its number: it equals no positive one. And from the 54th member on, numbers are
compared as doubles unless an index is used: `set | 0` is the number as an integer.
"""

from __future__ import annotations

from typing import Final

EXACT_BITS: Final = 53  # of a double
_LONG_DIGITS: Final = len(str(1 << EXACT_BITS))


def equal_members(column: bytes, literal: bytes) -> bytes:
    """The condition that the column has the members of the number."""
    if len(literal) < _LONG_DIGITS or not literal.isdigit():
        return column + b"=" + literal
    number = int(literal)
    signed = number - (1 << 64) if number >> 63 else number
    return b"%b=%d AND %b|0=%b" % (column, signed, column, literal)
