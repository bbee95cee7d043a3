"""Events as servers write them, not parsed yet, and the stream of them that the syncer reads.

Two implementations share one contract: the relay's files on this host (`RelayEventSource`) and our own dump connection
(`RemoteEventSource`). For one range of a binlog both yield the same events. A reader must know:

- `start` is the end of a transaction (or the start of a file). Offset 4 means from the file's first event on. A start
  without a file is found by its GTID set, and transactions of that set may still come: the caller knows its set.
- A start inside a file first yields the file's format description, marked artificial, with the start itself as its end.
- The stream includes the files' rotations and format descriptions, but not the dump thread's fake rotations: file and
  end offset are on every event. It includes heartbeats, as proof that there is nothing else. All events that are in no
  file carry LOG_EVENT_ARTIFICIAL_F or have a heartbeat type, and their end offset is the previous event's.
- None means: no more for the moment. The stream yields it whenever the reader has everything, and again with each
  period of silence.
- After a lost connection the stream continues with the next event; nothing is repeated or left out. If that is
  impossible, it raises a DMError, and the reader has to start from its own checkpoint.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, Protocol, Self

from dm.accelerator.structures import shared
from dm.errors import DMError
from dm.mysql.binlog.header import CHECKSUM_SIZE, HEADER_SIZE, EventHeader, parse_header
from dm.position import Position

BinlogType = Literal["local", "remote"]


class SourceEvent(NamedTuple):
    """An event and its end; `end_offset` is counted in the file, so it is right above 4 GiB, too."""

    raw: RawEvent
    server_uuid: str
    file: str
    end_offset: int


class SourceRun(NamedTuple):
    """Consecutive events of a file, none of them artificial, from `offset` to `end_offset`."""

    events: Sequence[RawEvent]
    server_uuid: str
    file: str
    offset: int
    end_offset: int

    def apart(self) -> Iterator[SourceEvent]:
        """The events, one at a time."""
        end = self.offset
        for event in self.events:
            end += len(event.data)
            yield SourceEvent(event, self.server_uuid, self.file, end)


class EventSource(Protocol):
    """Where events come from."""

    @property
    def status(self) -> BinlogType:
        """DM's `binlogType`: from relay files or from the server itself."""
        ...

    @property
    def trouble(self) -> DMError | None:
        """Why no event comes now, while the source retries."""
        ...

    def complete(self, start: Position) -> Position:
        """The start with server uuid, file and GTID set filled in from what the source knows."""
        ...

    def events(self, start: Position, stop: threading.Event) -> Iterator[SourceEvent | None]:
        """Everything after `start`, endlessly, until `stop` is set."""
        ...

    def runs(self, start: Position, stop: threading.Event) -> Iterator[SourceEvent | SourceRun | None]:
        """The same, with events that are available together in one piece."""
        ...


# One event as the server wrote it, not parsed yet.


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
