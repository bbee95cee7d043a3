r"""Text: as a terminal may show it, with numbers of things in it, and which texts are numbers or durations.

What people read holds words of others: names and comments of a source, messages of a server, answers of whoever listens
at an address. A terminal obeys control characters (C0, DEL, C1: it clears the screen, sets its title, types an answer),
and shows text after a bidirectional control in another order than it is in. So every text for people passes `visible`,
which shows such characters as `\x1b` or `\u202e`. Line breaks and tabs stay: texts of ours have them.

JSON has its own escapes for the same characters, so `visible_json` changes nothing that it says.

Which texts are numbers.

`str.isdigit` takes more than `int` does: `²` is a digit to it, and five thousand digits are too many for `int` (which
takes 4,300, sys.int_info.default_max_str_digits). Texts of servers, files and progress rows may be either, so they are
asked by this.
"""

from __future__ import annotations

import re
from typing import Final

# C0 but tab and line feed, DEL, C1; Unicode's bidirectional controls (UAX #9) and its line and paragraph separators;
# halves of surrogate pairs, which no encoding can write.
_HIDDEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """The text with each such character escaped."""
    return _HIDDEN.sub(lambda found: _escaped(ord(found[0])), text)


def visible_json(text: str) -> str:
    """A JSON text that means the same and holds no such character."""
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escaped(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def counted(number: int, noun: str) -> str:
    """The number and the noun, which is given in the singular."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


_MOST_DIGITS: Final = 4300


def is_decimal(text: str) -> bool:
    """Whether the text is a whole number in ASCII digits, without a sign, that `int` takes."""
    return text.isdigit() and text.isascii() and len(text) <= _MOST_DIGITS


_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def go_duration(text: str) -> float | None:
    """Seconds of a duration in Go's notation (`1h30m`, `5m0s`, `300ms`); None when it is none."""
    negative, rest = text.startswith("-"), text.lstrip("+-")
    if rest == "0":
        return 0.0
    seconds, end = 0.0, 0
    for part in _DURATION_PART.finditer(rest):
        if part.start() != end:
            return None
        seconds += float(part[1]) * _UNITS[part[2]]
        end = part.end()
    if end != len(rest) or not rest or len(text) - len(rest) > 1:
        return None
    return -seconds if negative else seconds
