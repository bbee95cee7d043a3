"""A JSON document as MySQL would read it, whatever way its text is written.

MariaDB keeps the text of a document, MySQL what it says. Two texts are the same document if MySQL would keep the same:
members in any order, the last of several with one name, spaces and escapes of any kind, and numbers by value and kind:
a whole number that fits 64 bits is one, every other is a DOUBLE. So `1` is not `1.0`, but `1.50` is `1.5e0`.
"""

from __future__ import annotations

import json
from typing import Any, Final

_LEAST: Final = -(1 << 63)
_MOST: Final = (1 << 64) - 1


def canonical_document(text: bytes) -> bytes:
    """The same bytes for every text of a document; what is no document stays as it is."""
    try:
        tree = json.loads(text, parse_int=_whole, parse_constant=_refuse)
    except ValueError:
        return text
    written = json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return written.encode("utf-8", "surrogatepass")


def _whole(digits: str) -> int | float:
    number = int(digits)
    return number if _LEAST <= number <= _MOST else float(digits)


def _refuse(word: str) -> Any:
    raise ValueError(word)  # NaN and Infinity, which are no JSON
