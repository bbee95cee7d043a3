"""The Python value of a decoded column.

There is one Python type per kind of column, exact for every value the server can hold:

None                NULL
int                 integers (sign applied), BIT, YEAR, ENUM index (0 = the error value), SET bit mask
float               FLOAT and DOUBLE (a FLOAT as the double of equal value)
str                 DECIMAL, DATE, TIME, DATETIME, TIMESTAMP (UTC) as the server prints them; JSON as the server prints
                    it (a TypedJson if that loses types)
bytes               character columns in the column's own character set, BINARY (zero padding restored), BLOB, GEOMETRY
                    (4 bytes SRID + WKB), VECTOR, UUID/INET as stored
ABSENT              the row image does not hold the column (MINIMAL, NOBLOB): not NULL, but unknown
UNREAD              the row image holds the column, and nobody has read it yet
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final


class Absent(Enum):
    """The type of the one value ABSENT."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent.ABSENT


class Unread:
    """The type of the one value UNREAD."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNREAD"

    def __reduce__(self) -> str:
        return "UNREAD"  # the same one in every process


# Not one of the values: whoever needs those has the image read first, and an encoder refuses this.
UNREAD: Final[Any] = Unread()

Value = None | int | float | str | bytes | Absent
Row = tuple[Value, ...]
