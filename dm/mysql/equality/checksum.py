"""The checksum of a set of rows: how many they are, and 128 bits of their hashes or more.

Each row's text (`dm.mysql.equality.values`) is hashed by SHA-256, which costs a server no more than another hash that
it has (`python -m benchmarks.row_sums`). What costs is to add the hashes up, so there are two ways:

- A `SequenceSum` goes from row to row: the session keeps the texts of a few rows in a variable, and puts their hash in
  their place when they are long. It is cheap, and depends on the order. A server that reads a range of a key gives the
  rows in the order of the key, though nothing promises it. Equal sums prove equal rows;
  unequal sums call for the other way.
- A `Checksum` does not depend on the order: 64 bits of each hash go into a sum and 64 others into an exclusive or. The
  exclusive or alone would not see two equal rows come or go together; the sum and the number of rows do. Sums of parts
  of a table add up to the sum of the table, so the shards of a merged table are compared with it without ordering
  anything. The hash is asked for once per row: in a derived table that the LIMIT keeps from being merged.

A server that refuses to make a text longer than its max_allowed_packet gives NULL for it, with a warning that nobody
reads. So the query also counts the hashes, or the texts of a sequence: a count below that of the rows means that some
rows are not in the sum.

`dm.tools.diff.chunk` decides which of the two a chunk gets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from dm.mysql.equality.values import BETWEEN, ComparedValue, row_text

_MASK: Final = (1 << 64) - 1
_ALL: Final = (1 << 64) - 1  # rows, for LIMIT
BUCKET_DIGITS: Final = 3  # hexadecimal, of the hash of a row's key
_HELD_BYTES: Final = 500  # of texts that are not hashed yet: each hash has a beginning and an end, which cost, too
_SEQUENCE: Final = "@dm_sequence"
_BEFORE: Final = f"IF(LENGTH({_SEQUENCE}) > {_HELD_BYTES}, SHA2({_SEQUENCE}, 256), {_SEQUENCE})"
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

    @property
    def digest(self) -> str:
        """All of it, as a text."""
        return f"{self.rows}:{self.total:016x}{self.mixed:016x}"

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


@dataclass(frozen=True, slots=True)
class SequenceSum:
    """Of rows in an order."""

    rows: int
    digest: str

    @classmethod
    def of(cls, texts: Sequence[bytes]) -> SequenceSum:
        """Of the rows with these texts."""
        held = b""
        for text in texts:
            before = hashlib.sha256(held).hexdigest().encode() if len(held) > _HELD_BYTES else held
            held = before + BETWEEN + text
        return cls(len(texts), hashlib.sha256(held).hexdigest())

    @classmethod
    def answered(cls, counts: tuple[Any, ...], digest: bytes | str | None) -> SequenceSum | None:
        """What a server has said to the last two of `sequence_queries`; None where not all rows are in it."""
        rows, hashed = map(int, counts)
        text = digest.decode() if isinstance(digest, bytes) else digest
        # A server may skip a counted expression that it knows is never NULL, and the variable then stays empty. No
        # known server does so here.
        if text is None or rows != hashed or (rows and text == cls.of([]).digest):
            return None
        return cls(rows, text)


def sequence_queries(row: Sequence[ComparedValue], from_clause: str) -> tuple[str, str, str]:
    """The statements for the sum of the rows of `from_clause` (what follows FROM); the servers can compute their text.

    The second one answers with counts, the third one with the digest.
    """
    text = row_text(row, _BEFORE)
    assert text is not None
    return (
        f"SET {_SEQUENCE} = CAST('' AS BINARY)",
        f"SELECT COUNT(*), COUNT({_SEQUENCE} := {text}) FROM {from_clause}",
        f"SELECT {_hash(_SEQUENCE)}",
    )


def checksum_query(text: str, from_clause: str) -> str:
    """The query for the checksum of `from_clause` (what follows FROM), whose texts are `text`."""
    return f"SELECT {_SUMS} FROM (SELECT {_hash(text)} AS h FROM {from_clause} LIMIT {_ALL}) AS hashes"


def buckets_query(bucket: str, text: str, from_clause: str) -> str:
    """The query for the numbers of the buckets of `rows`, each with its checksum after it."""
    return (
        f"SELECT b, {_SUMS} FROM (SELECT {bucket} AS b, {_hash(text)} AS h FROM {from_clause} LIMIT {_ALL}) AS hashes"
        " GROUP BY b"
    )


def bucket_of(key: str, digits: int = BUCKET_DIGITS) -> str:
    """SQL of a number of so many hexadecimal digits that rows with the same text of the key share."""
    return f"CAST(CONV(LEFT({_hash(key)}, {digits}), 16, 10) AS UNSIGNED)"


def bucket_number(key: bytes, digits: int) -> int:
    """The same, computed here from the text of a key."""
    return int(hashlib.sha256(key).hexdigest()[:digits], 16)


def has_text(sql: str, text: bytes) -> str:
    """SQL of whether a row's text is this one."""
    return f"{_hash(sql)} = '{hashlib.sha256(text).hexdigest()}'"


def _hash(text: str) -> str:
    return f"SHA2({text}, 256)"
