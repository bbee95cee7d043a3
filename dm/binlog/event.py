"""One event as the server wrote it, not looked into yet."""

from __future__ import annotations

from typing import NamedTuple, Self

from dm.accelerator.structures import shared
from dm.binlog.header import CHECKSUM_SIZE, HEADER_SIZE, EventHeader, parse_header


class RawEvent(NamedTuple):
    """A header and the whole event: header, body, and the checksum where the stream has checksums."""

    header: EventHeader
    data: bytes

    @classmethod
    def of(cls, data: bytes) -> Self:
        """The event in these bytes; they must hold a header at least."""
        return cls(parse_header(data), data)

    def body(self, checksum: bool) -> bytes:
        """What stands between header and checksum."""
        return self.data[HEADER_SIZE : len(self.data) - CHECKSUM_SIZE if checksum else None]


@shared
class CheckedEvent(RawEvent):
    """An event whose checksum was found right by who read it, so that nobody has to compute it again."""

    __slots__ = ()


class InnerEvent(RawEvent):
    """An event out of a transaction payload: it has no checksum, whatever the stream has."""

    __slots__ = ()
