"""The stream of events as the syncer reads it, wherever it comes from.

Two implementations, one contract: the relay's files on this host (`local`) and a dump connection of our own (`remote`).
For one range of a binlog both give the same events. What a reader must know:

- `start` is the end of a transaction (or the start of a file). Offset 4 means from the file's first event on; a start
  without a file is found by its GTID set, and transactions of that set may still come: the caller knows its set.
- A start inside a file first yields the file's format description, marked artificial, with the start itself as its end.
- Rotations and format descriptions that stand in the files come through. The dump thread's fake rotations do not: file
  and end offset are on every event. Heartbeats come, as proof that nothing else is there; all events that are in no
  file carry LOG_EVENT_ARTIFICIAL_F or are of a heartbeat type, and their end offset is the one of the event before.
- None means: nothing more at the moment. It comes whenever the reader has all there is, and again with each period of
  silence.
- After a lost connection the stream goes on with the event after the last one; nothing is repeated or left out. What
  could not be continued that way is a DMError, to be answered by a start from the reader's own checkpoint.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

from dm.binlog.event import RawEvent
from dm.errors import DMError
from dm.position import Position

Origin = Literal["local", "remote"]


class SourceEvent(NamedTuple):
    """An event and where it ends; `end_offset` is counted in the file, so it stays right above 4 GiB."""

    raw: RawEvent
    server_uuid: str
    file: str
    end_offset: int


class SourceRun(NamedTuple):
    """Events that stand one behind the other in a file, none of them made up, from `offset` to `end_offset`."""

    events: Sequence[RawEvent]
    server_uuid: str
    file: str
    offset: int
    end_offset: int

    def apart(self) -> Iterator[SourceEvent]:
        """The events one by one."""
        end = self.offset
        for event in self.events:
            end += len(event.data)
            yield SourceEvent(event, self.server_uuid, self.file, end)


class EventSource(Protocol):
    """Where events come from."""

    @property
    def status(self) -> Origin:
        """DM's `binlogType`: from relay files or from the server itself."""
        ...

    @property
    def trouble(self) -> DMError | None:
        """Why nothing comes at the moment, while the source tries again by itself."""
        ...

    def complete(self, start: Position) -> Position:
        """The start with server uuid, file and GTID set filled in from what the source knows."""
        ...

    def events(self, start: Position, stop: threading.Event) -> Iterator[SourceEvent | None]:
        """Everything after `start`, without end, until `stop` is set."""
        ...

    def runs(self, start: Position, stop: threading.Event) -> Iterator[SourceEvent | SourceRun | None]:
        """The same, where events that are there together come together."""
        ...
