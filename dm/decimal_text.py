"""Which texts are numbers.

`str.isdigit` takes more than `int` does: `²` is a digit to it, and five thousand digits are too many for `int` (which
takes 4,300, sys.int_info.default_max_str_digits). Texts of servers, files and progress rows may be either, so they are
asked by this.
"""

from __future__ import annotations

from typing import Final

_MOST_DIGITS: Final = 4300


def is_decimal(text: str) -> bool:
    """Whether the text is a whole number in ASCII digits, without a sign, that `int` takes."""
    return text.isdigit() and text.isascii() and len(text) <= _MOST_DIGITS
