"""One event as the server wrote it, not parsed yet."""

from __future__ import annotations

from typing import NamedTuple, Self

from dm.accelerator.structures import shared
from dm.mysql.binlog.header import CHECKSUM_SIZE, HEADER_SIZE, EventHeader, parse_header


class RawEvent(NamedTuple):
    """A header and the whole event: header, body, and the checksum where the stream has checksums."""

    header: EventHeader
    data: bytes

    @classmethod
    def of(cls, data: bytes) -> Self:
        """The event in these bytes; they must hold at least a header."""
        return cls(parse_header(data), data)

    def body(self, checksum: bool) -> bytes:
        """The bytes between header and checksum."""
        return self.data[HEADER_SIZE : len(self.data) - CHECKSUM_SIZE if checksum else None]


@shared
class CheckedEvent(RawEvent):
    """An event whose reader has verified the checksum, so that it is not computed again."""

    __slots__ = ()


class InnerEvent(RawEvent):
    """An event from a transaction payload: it has no checksum, whatever the stream has."""

    __slots__ = ()
