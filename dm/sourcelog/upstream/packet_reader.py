"""The packets of a running dump, read from the socket in large pieces.

One `fill` reads all that the socket has into a buffer that is reused (TLS delivers 16 KiB at a time, so it reads more
than once). The packets in it are cut without further calls. A packet of 2^24-1 bytes is continued by the next one
(MySQL Internals, "Sending More Than 16Mb"); such an event is assembled here. The first byte of a payload is its kind: 0
for an event, 0xFF for an error, 0xFE for the end. After an error or the end, no more packets may follow.

A faster consumer of usual packets (the relay's writer) reads them from `data` itself, moves `start` and `sequence` past
them, and leaves the others to `next`. The bytes before `start` belong to it until the next `fill`.

A dishonest peer can't make us hold more than one event, of the size that its own header states and no server exceeds. A
larger event is refused while it arrives.
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
from collections.abc import Iterator

from dm.errors import DMError
from dm.mysql.binlog.header import HEADER_SIZE

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
