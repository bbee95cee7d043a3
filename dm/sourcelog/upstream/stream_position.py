"""The file of the source in which each event of a dump stream stands, and its end there.

An event's own log_pos has 32 bits and wraps in files above 4 GiB. So the offset is counted from the last known one, and
log_pos only confirms it. If the server leaves events out (transactions of the GTID set that the replica named), log_pos
is ahead, and the count jumps to the next offset that agrees with it.

Some events are in no file: rotations with the artificial flag, which announce a file; a format description with log_pos
0, which the server repeats at a start inside a file; heartbeats; and anything else marked artificial or without
log_pos. The exceptions are an event that ends at a multiple of 4 GiB, whose log_pos is 0, too, and what stands inside
of a transaction of MariaDB (`dm/mysql/binlog/event_end.py`).

Within one stream the files are consecutive. No server sends a name that goes back, or one that repeats with nothing in
between. Without the second rule, an endless series of names would keep us busy for ever, because each of them is new
bytes. A name of another series means that the server's `log_bin` was changed; the reader decides what to do.
"""

from __future__ import annotations

import re

from dm.errors import DMError
from dm.mysql.binlog.event_end import WITHOUT_END, has_checksum
from dm.mysql.binlog.header import CHECKSUM_SIZE, HEADER, HEADER_SIZE, LOG_EVENT_ARTIFICIAL_F, EventType

_FILE_NAME = re.compile(r"[^/\\\x00-\x1f]{1,200}\.[0-9]{6,10}")
# A server names a file when the dump starts, and at its end; at least its first event is in between.
_EMPTY_ROTATIONS = 3
_NOT_IN_FILES = frozenset({EventType.HEARTBEAT, EventType.HEARTBEAT_V2})


def rotate_target(event: bytes) -> tuple[str, int]:
    """File and offset that a rotation names; refuses names that are no binlog file names."""
    offset = int.from_bytes(event[HEADER_SIZE : HEADER_SIZE + 8], "little")
    # A fake rotation precedes the format description that would tell whether there are checksums: check it.
    name = event[HEADER_SIZE + 8 : -CHECKSUM_SIZE if has_checksum(event) else None]
    text = name.decode("utf-8", "backslashreplace")
    if not _FILE_NAME.fullmatch(text) or text.startswith("."):
        raise DMError("relay-name-refused", file=text)
    return text, offset


class StreamPosition:
    """The place in the source's files that a dump stream has reached."""

    def __init__(self) -> None:
        self.file = ""
        self.offset = 0
        self.hole = 0  # bytes that were left out before the event of the last `advance`
        self._named_at = ("", 0)  # where the last rotation set the place
        self._empty_rotations = 0

    def advance(self, event: bytes) -> bool:
        """Take the next event; True if it is in the file, then `offset` is its end."""
        if len(event) < HEADER_SIZE:
            raise DMError("dump-stream-garbled", what=f"an event of {len(event)} bytes")
        _, kind, _, size, end, flags = HEADER.unpack_from(event)
        if size != len(event):
            raise DMError("dump-stream-garbled", what=f"an event of {len(event)} bytes says it has {size}")
        unplaced = not end and kind in WITHOUT_END
        placed = unplaced or end or self._ends_at_wrap(kind, size)
        if flags & LOG_EVENT_ARTIFICIAL_F or kind in _NOT_IN_FILES or not placed:
            if kind == EventType.ROTATE:
                self._rotate(*rotate_target(event))
            return False
        if not self.file:
            raise DMError("dump-stream-garbled", what="an event came before the name of its file")
        start = self.offset
        counted = start + size
        self.hole = 0 if unplaced else (end - counted) & 0xFFFFFFFF
        if self.hole > 0xF0000000:
            raise DMError("dump-stream-garbled", what=f"an event ends at {end}, before {counted}")
        self.offset = counted + self.hole
        return True

    def _ends_at_wrap(self, kind: int, size: int) -> bool:
        """Whether log_pos is 0 because the event ends at a multiple of 4 GiB."""
        return kind != EventType.FORMAT_DESCRIPTION and not (self.offset + size) & 0xFFFFFFFF

    def _rotate(self, file: str, offset: int) -> None:
        before = self.file
        if before and file != before:
            base, _, number = file.rpartition(".")
            base_before, _, number_before = before.rpartition(".")
            if base == base_before and int(number) < int(number_before):
                raise DMError("source-reset", what=f"file {file} follows {before}")
        if before and (before, self.offset) == self._named_at:
            self._empty_rotations += 1
            if self._empty_rotations > _EMPTY_ROTATIONS:
                what = "nothing stands in the files it named before"
                raise DMError("dump-rotation-refused", file=file, before=before, what=what)
        else:
            self._empty_rotations = 0
        self.file, self.offset = self._named_at = file, offset
