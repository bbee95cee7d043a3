"""The packets of a running dump, read from the socket in large pieces, and the place of each event in its file.

One `fill` reads all that the socket has into a buffer that is reused (TLS delivers 16 KiB at a time, so it reads more
than once). The packets in it are cut without further calls. A packet of 2^24-1 bytes is continued by the next one
(MySQL Internals, "Sending More Than 16Mb"); such an event is assembled here. The first byte of a payload is its kind: 0
for an event, 0xFF for an error, 0xFE for the end. After an error or the end, no more packets may follow.

A faster consumer of usual packets (the relay's writer) reads them from `data` itself, moves `start` and `sequence` past
them, and leaves the others to `next`. The bytes before `start` belong to it until the next `fill`.

A dishonest peer can't make us hold more than one event, of the size that its own header states and no server exceeds. A
larger event is refused while it arrives.

The file of the source in which each event of a dump stream stands, and its end there.

An event's own log_pos has 32 bits and wraps in files above 4 GiB. So the offset is counted from the last known one, and
log_pos only confirms it. If the server leaves events out (transactions of the GTID set that the replica named), log_pos
is ahead, and the count jumps to the next offset that agrees with it.

Some events are in no file: rotations with the artificial flag, which announce a file; a format description with log_pos
0, which the server repeats at a start inside a file; heartbeats; and anything else marked artificial or without
log_pos. The exceptions are an event that ends at a multiple of 4 GiB, whose log_pos is 0, too, and what stands inside
of a transaction of MariaDB (`dm/mysql/binlog/frame.py`).

Within one stream the files are consecutive. No server sends a name that goes back, or one that repeats with nothing in
between. Without the second rule, an endless series of names would keep us busy for ever, because each of them is new
bytes. A name of another series means that the server's `log_bin` was changed; the reader decides what to do.
"""

from __future__ import annotations

import re
import select
import socket
import ssl
import struct
from collections.abc import Iterator

from dm.errors import DMError
from dm.mysql.binlog.frame import WITHOUT_END, has_checksum
from dm.mysql.binlog.header import CHECKSUM_SIZE, HEADER, HEADER_SIZE, HEARTBEATS, LOG_EVENT_ARTIFICIAL_F, EventType

_FULL = 0xFFFFFF
# MySQL and MariaDB limit max_allowed_packet and slave_max_allowed_packet to 1 GiB, headers not counted.
LARGEST_EVENT = (1 << 30) + (1 << 20)
_SIZE_AT = 10  # of the event's size in the payload: a status byte, then 9 bytes into the event's header
_BUFFER = 1 << 18
_PIECE = 1 << 14  # what TLS delivers at once
_header = struct.Struct("<I").unpack_from
_LAST_WORDS = frozenset({0xFF, 0xFE})
# Raised by a non-blocking read that would have to wait.
_LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class StreamEndedError(Exception):
    """Raised when the peer closed the connection or nothing came within the timeout."""


class PacketReader:
    """Cuts the events out of one connection's byte stream."""

    def __init__(
        self, sock: socket.socket, timeout: float, first_sequence: int = 1, *, first_timeout: float | None = None
    ) -> None:
        self.verdict: bytes | None = None  # the payload that ended the dump, an error or an EOF packet
        self._sock = sock
        self._timeout = timeout
        self._patience = timeout if first_timeout is None else first_timeout
        self._view = memoryview(bytearray(_BUFFER))
        self.data = self._view[:0]  # what arrived, once a packet is complete
        self.start = 0  # of the first packet in it that is not cut
        self._end = 0  # of what arrived
        self.sequence = first_sequence & 0xFF  # of the first packet that is not cut
        self._parts: list[bytes] = []  # of a payload longer than one packet
        self._awaited = 0  # bytes still missing of such a payload
        self._failure: StreamEndedError | None = None  # of a read after bytes that are not cut yet
        self._poll = select.poll()
        self._poll.register(sock.fileno(), select.POLLIN)
        sock.settimeout(self._patience)

    def ready(self) -> bool:
        """Whether a read would return at once."""
        if isinstance(self._sock, ssl.SSLSocket) and self._sock.pending():
            return True
        return bool(self._poll.poll(0))

    @property
    def inside(self) -> bool:
        """Whether an event longer than one packet is being received."""
        return bool(self._parts)

    def read(self) -> list[bytes]:
        """Wait for bytes and return every event that they complete; may be none."""
        self.fill()
        return list(self.events())

    def events(self) -> Iterator[bytes]:
        """The complete events in what arrived."""
        while (event := self.next()) is not None:
            yield event

    def fill(self) -> None:
        """Wait for bytes, and take all that have arrived and fit."""
        if self._failure is not None:
            raise self._failure
        self._make_room()
        self._receive()
        if self._patience != self._timeout:
            self._patience = self._timeout
            self._sock.settimeout(self._timeout)
        try:
            self._receive_more()
        except StreamEndedError as failure:
            self._failure = failure  # first the events before it
        self.data = self._view[: self._end if self._end >= self._needed() else 0]

    def _receive(self) -> None:
        try:
            count = self._sock.recv_into(self._view[self._end :])
        except _LATER:
            raise
        except TimeoutError as error:
            raise StreamEndedError(f"nothing arrived for {self._patience:g} s, not even a heartbeat") from error
        except (OSError, ValueError) as error:
            raise StreamEndedError(str(error) or type(error).__name__) from error
        if not count:
            raise StreamEndedError("the server closed the connection")
        self._end += count

    def _receive_more(self) -> None:
        """Read until it would block, which is cheaper than to ask before each read."""
        if len(self._view) - self._end < _PIECE:
            return
        self._sock.settimeout(0)
        try:
            while len(self._view) - self._end >= _PIECE:
                self._receive()
        except _LATER:
            pass
        finally:
            self._sock.settimeout(self._timeout)

    def _make_room(self) -> None:
        """Move the unfinished packet to the front, and grow only when one packet needs it."""
        waiting = self._end - self.start
        if self.start and waiting:
            self._view[:waiting] = self._view[self.start : self._end]
        self.start, self._end = 0, waiting
        needed = self._needed()
        if needed > len(self._view):
            longer = memoryview(bytearray(needed + _BUFFER))
            longer[:waiting] = self._view[:waiting]
            self._view = longer

    def _needed(self) -> int:
        """Bytes of the packet at the front, as far as known."""
        return (_header(self._view, 0)[0] & _FULL) + 4 if self._end >= 4 else 4

    def next(self) -> bytes | None:
        """The next event; None when none is complete, or the dump has ended."""
        data, end = self.data, len(self.data)
        while end - self.start >= 4 and self.verdict is None:
            at = self.start + 4
            word = _header(data, self.start)[0]
            length = word & _FULL
            stop = at + length
            if stop > end:
                break
            if word >> 24 != self.sequence:
                raise DMError("dump-stream-garbled", what=f"packet number {word >> 24} instead of {self.sequence}")
            self.start, self.sequence = stop, (self.sequence + 1) & 0xFF
            if length == _FULL or self._parts:
                self._join(bytes(data[at:stop]))
                if length != _FULL:
                    payload = b"".join(self._parts)
                    self._parts = []
                    return payload[1:]
            elif length > HEADER_SIZE and not data[at]:
                return bytes(data[at + 1 : stop])
            elif not length or data[at] not in _LAST_WORDS:
                raise DMError("dump-stream-garbled", what=f"a packet of {length} bytes that begins as no event does")
            else:
                self.verdict = bytes(data[at:stop])
        return None

    def _join(self, part: bytes) -> None:
        """Add a part of a payload longer than one packet."""
        if not self._parts:
            declared = _header(part, _SIZE_AT)[0]
            if part[0] or declared > LARGEST_EVENT:
                raise DMError("dump-stream-garbled", what=f"an event that says it has {declared} bytes")
            self._awaited = declared + 1
        self._awaited -= len(part)
        if self._awaited < 0:
            raise DMError("dump-stream-garbled", what="an event goes on beyond the size it says it has")
        self._parts.append(part)


_FILE_NAME = re.compile(r"[^/\\\x00-\x1f]{1,200}\.[0-9]{6,10}")
# A server names a file when the dump starts, and at its end; at least its first event is in between.
_EMPTY_ROTATIONS = 3


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
        if flags & LOG_EVENT_ARTIFICIAL_F or kind in HEARTBEATS or not placed:
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

    def pass_over(self, heartbeat: bytes) -> bool:
        """Move to the place of a heartbeat in this file, if that is further: what precedes it is not sent."""
        stop = len(heartbeat) - (CHECKSUM_SIZE if has_checksum(heartbeat) else 0)
        end = HEADER.unpack_from(heartbeat)[4]
        if heartbeat[HEADER_SIZE:stop] != self.file.encode() or end <= self.offset:
            return False
        self.offset = end
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
