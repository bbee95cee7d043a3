"""A statement of ours with values in it, for sessions that take several statements in one packet.

There a literal that ended too early would be more than a wrong value: what follows it could be a statement. So these
sessions are given the literals of `dm.sql.literal`, like the rows, and not the driver's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from dm.sql.literal import quoted

_PLACE: Final = re.compile(rb"%[%s]")


def composed(sql: str, values: Sequence[object] | Mapping[str, object]) -> bytes:
    """The statement with each `%s` replaced by a value: a text, a number or NULL; raises ValueError or TypeError."""
    if isinstance(values, Mapping):
        raise TypeError("values with names have no places in a statement of ours")
    left = iter(values)

    def put(place: re.Match[bytes]) -> bytes:
        if place[0] == b"%%":
            return b"%"
        for value in left:
            return _literal(value)
        raise ValueError("a statement has more places than values")

    text = _PLACE.sub(put, sql.encode())
    if any(True for _ in left):
        raise ValueError("a statement has fewer places than values")
    return text


def _literal(value: object) -> bytes:
    if value is None:
        return b"NULL"
    if isinstance(value, int):
        return str(int(value)).encode()
    if isinstance(value, str):
        return quoted(value.encode("utf-8", "surrogateescape"))
    raise TypeError(f"a {type(value).__name__} has no literal in a statement of ours")
