"""The checksum of a set of rows: how many they are, and two sums of their hashes that do not depend on their order.

Each row's text (`dm.equality.values`) is hashed by SHA-256, of which 64 bits go into a sum and 64 others into an
exclusive or. The exclusive or alone would not see two equal rows come or go together; the sum and the number of rows
do. Sums of parts of a table add up to the sum of the table, so the shards of a merged table are compared with it
without ordering anything.

MD5 is no choice, since MySQL 9.6 has moved it into a component. SHA2 is asked for once per row: in a derived table
that the LIMIT keeps from being merged, which costs the servers less than hashing twice.

A server that refuses to make a text longer than its max_allowed_packet gives NULL for it, with a warning that nobody
reads. So the hashes are counted: `hashed` below `rows` means that the sums are not of all rows.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final

_MASK: Final = (1 << 64) - 1
_ALL: Final = (1 << 64) - 1  # rows, for LIMIT
_BUCKET_DIGITS: Final = 3  # hexadecimal, of the hash of a row's key
_SUMS: Final = (
    "COUNT(*), COUNT(h), SUM(CAST(CONV(LEFT(h, 16), 16, 10) AS UNSIGNED)),"
    " BIT_XOR(CAST(CONV(SUBSTR(h, 17, 16), 16, 10) AS UNSIGNED))"
)


@dataclass(frozen=True, slots=True)
class Checksum:
    """Of a set of rows."""

    rows: int = 0
    total: int = 0  # of 64 bits of each hash, modulo 2**64
    mixed: int = 0  # exclusive or of 64 others

    def __add__(self, other: Checksum) -> Checksum:
        return Checksum(self.rows + other.rows, (self.total + other.total) & _MASK, self.mixed ^ other.mixed)

    @classmethod
    def of(cls, text: bytes) -> Checksum:
        """Of one row."""
        found = hashlib.sha256(text).digest()
        return cls(1, int.from_bytes(found[:8], "big"), int.from_bytes(found[8:16], "big"))

    @classmethod
    def answered(cls, row: tuple[Any, ...]) -> Checksum | None:
        """What a server has said to `checksum_query`; None where a row's text was too long for it."""
        rows, hashed, total, mixed = (int(value or 0) for value in row)
        return cls(rows, total & _MASK, mixed) if rows == hashed else None


def checksum_query(text: str, rows: str) -> str:
    """The query for the checksum of `rows` (what follows FROM), whose texts are `text`."""
    return f"SELECT {_SUMS} FROM (SELECT {_hash(text)} AS h FROM {rows} LIMIT {_ALL}) AS hashes"


def buckets_query(bucket: str, text: str, rows: str) -> str:
    """The query for the numbers of the buckets of `rows`, each with its checksum behind it."""
    return (
        f"SELECT b, {_SUMS} FROM (SELECT {bucket} AS b, {_hash(text)} AS h FROM {rows} LIMIT {_ALL}) AS hashes"
        " GROUP BY b"
    )


def bucket_of(key: str) -> str:
    """SQL of a number from 0 to 4095 that rows with the same text of the key share."""
    return f"CAST(CONV(LEFT({_hash(key)}, {_BUCKET_DIGITS}), 16, 10) AS UNSIGNED)"


def has_text(sql: str, text: bytes) -> str:
    """SQL of whether a row's text is this one."""
    return f"{_hash(sql)} = '{hashlib.sha256(text).hexdigest()}'"


def _hash(text: str) -> str:
    return f"SHA2({text}, 256)"
