"""The packets of a running dump, taken from the socket in large pieces.

One `fill` takes as much as the socket has into a buffer that is used again and again (TLS gives 16 KiB at a time, so
it reads more than once); the packets in it are cut without further calls. A packet of 2^24-1 bytes is continued by the
next one (MySQL Internals, "Sending More Than 16Mb"); such an event is put together here. The first byte of a payload
says what it is: 0 an event follows, 0xFF an error, 0xFE the end; after the last two nothing comes, and nothing else may
come.

Who has a quicker way to take usual packets (the relay's writer) takes them from `data` itself, moves `start` and
`sequence` behind them, and leaves the others to `next`. What lies in front of `start` is its own until the next `fill`.

A peer that is no honest server can't make us hold more than one event of the size that its own header says and no
server exceeds: an event that goes on beyond that is refused while it arrives.
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
from collections.abc import Iterator

from dm.binlog.header import HEADER_SIZE
from dm.errors import DMError

_FULL = 0xFFFFFF
# MySQL and MariaDB: max_allowed_packet and slave_max_allowed_packet end at 1 GiB; headers come on top.
LARGEST_EVENT = (1 << 30) + (1 << 20)
_SIZE_AT = 10  # of the event's size in the payload: a status byte, then 9 bytes into the event's header
_BUFFER = 1 << 18
_PIECE = 1 << 14  # what TLS gives at once
_header = struct.Struct("<I").unpack_from
_LAST_WORDS = frozenset({0xFF, 0xFE})
# What a read that must not wait says where it would have to.
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
        self.data = self._view[:0]  # what arrived, as soon as a packet is complete
        self.start = 0  # of the first packet in it that is not cut
        self._end = 0  # of what arrived
        self.sequence = first_sequence & 0xFF  # of the first packet that is not cut
        self._parts: list[bytes] = []  # of a payload that is longer than one packet
        self._awaited = 0  # bytes that such a payload has yet to bring
        self._failure: StreamEndedError | None = None  # of a read behind bytes that are not cut yet
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
        """Whether an event is under way that is longer than one packet."""
        return bool(self._parts)

    def read(self) -> list[bytes]:
        """Wait for bytes and return every event that is complete with them; may be none."""
        self.fill()
        return list(self.events())

    def events(self) -> Iterator[bytes]:
        """The events that are complete in what arrived."""
        while (event := self.next()) is not None:
            yield event

    def fill(self) -> None:
        """Wait for bytes, and take all that are there and have room."""
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
            self._failure = failure  # first what came before it
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
        """Take what is there already: read until that would block, which is cheaper than to ask before each read."""
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
        """Bytes of the packet at the front, as far as that is known."""
        return (_header(self._view, 0)[0] & _FULL) + 4 if self._end >= 4 else 4

    def next(self) -> bytes | None:
        """The next event; None when none is complete, or a verdict has come."""
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
        """Take a part of a payload that is longer than one packet."""
        if not self._parts:
            declared = _header(part, _SIZE_AT)[0]
            if part[0] or declared > LARGEST_EVENT:
                raise DMError("dump-stream-garbled", what=f"an event that says it has {declared} bytes")
            self._awaited = declared + 1
        self._awaited -= len(part)
        if self._awaited < 0:
            raise DMError("dump-stream-garbled", what="an event goes on beyond the size it says it has")
        self._parts.append(part)
