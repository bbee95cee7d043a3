"""A bounded cursor over bytes: every read succeeds or raises `Malformed`.

Slicing past the end of bytes is silent in Python, and silence in a wire format is corruption. Every parser of this
package outside the hot path reads through this cursor. `Malformed` stays inside dm.mysql.binlog: its boundary
(EventParser, RowDecoder) turns it into DMError.
"""

from __future__ import annotations


class Malformed(ValueError):
    """Raised when bytes are not what the format says they are."""


class ByteCursor:
    """Reads little-endian values one after another from data[at:end]."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        self.data = data
        self.at = at
        self.end = len(data) if end is None else end
        if not 0 <= at <= self.end <= len(data):
            raise Malformed("it is shorter than its fixed part")

    @property
    def left(self) -> int:
        """How many bytes are unread."""
        return self.end - self.at

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        upto = self.at + count
        if count < 0 or upto > self.end:
            raise Malformed(f"{count} bytes are needed and {self.end - self.at} are left")
        taken = self.data[self.at : upto]
        self.at = upto
        return taken

    def rest(self) -> bytes:
        """The rest."""
        return self.take(self.end - self.at)

    def uint(self, size: int) -> int:
        """An unsigned integer of so many bytes."""
        return int.from_bytes(self.take(size), "little")

    def sint(self, size: int) -> int:
        """A signed integer of so many bytes."""
        return int.from_bytes(self.take(size), "little", signed=True)

    def packed(self) -> int:
        """A length-encoded integer (MySQL source documentation, "Basic data types": int<lenenc>)."""
        first = self.uint(1)
        if first < 0xFB:
            return first
        if first == 0xFC:
            return self.uint(2)
        if first == 0xFD:
            return self.uint(3)
        if first == 0xFE:
            return self.uint(8)
        raise Malformed(f"{first:#x} starts no length-encoded integer")

    def packed_bytes(self) -> bytes:
        """Bytes after their length-encoded length."""
        return self.take(self.packed())

    def short_bytes(self) -> bytes:
        """Bytes after their one-byte length."""
        return self.take(self.uint(1))

    def until_nul(self) -> bytes:
        """Bytes up to a NUL, which is consumed."""
        stop = self.data.find(b"\0", self.at, self.end)
        if stop < 0:
            raise Malformed("a string has no end")
        taken = self.data[self.at : stop]
        self.at = stop + 1
        return taken

    def nul(self) -> None:
        """One NUL byte."""
        if self.take(1) != b"\0":
            raise Malformed("a name is not followed by NUL")

    def varlen(self) -> int:
        """An unsigned integer of MySQL's serialization library: 1 + (trailing one bits of the first byte) bytes."""
        first = self.uint(1)
        extra = 0
        while extra < 8 and first >> extra & 1:
            extra += 1
        value = self.uint(extra)
        # 8 extra bytes hold the whole number: the first byte is then all marker and no value
        return value if extra == 8 else (first >> (extra + 1)) | value << (7 - extra)

    def varlen_signed(self) -> int:
        """A signed integer of the same library: the sign is the lowest bit."""
        raw = self.varlen()
        return ~(raw >> 1) if raw & 1 else raw >> 1
