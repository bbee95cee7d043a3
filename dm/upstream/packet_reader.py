"""The packets of a running dump, taken from the socket in large pieces.

One `recv_into` fills as much as the socket has; the packets in it are cut without further calls. A packet of 2^24-1
bytes is continued by the next one (MySQL Internals, "Sending More Than 16Mb"); such an event is put together here.
The first byte of a payload says what it is: 0 an event follows, 0xFF an error, 0xFE the end; after the last two
nothing comes, and nothing else may come.

A peer that is no honest server can't make us hold more than one event of the size that its own header says and no
server exceeds: an event that goes on beyond that is refused while it arrives.
"""

from __future__ import annotations

import select
import socket
import ssl
import struct

from dm.binlog.header import HEADER_SIZE
from dm.errors import DMError

_FULL = 0xFFFFFF
# MySQL and MariaDB: max_allowed_packet and slave_max_allowed_packet end at 1 GiB; headers come on top.
LARGEST_EVENT = (1 << 30) + (1 << 20)
_SIZE_AT = 10  # of the event's size in the payload: a status byte, then 9 bytes into the event's header
_BUFFER = 1 << 20
_header = struct.Struct("<I").unpack_from


_LAST_WORDS = frozenset({0xFF, 0xFE})


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
        self._buffer = bytearray(_BUFFER)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0
        self._sequence = first_sequence & 0xFF
        self._parts: list[bytes] = []  # of a payload that is longer than one packet
        self._awaited = 0  # bytes that such a payload has yet to bring
        self._poll = select.poll()
        self._poll.register(sock.fileno(), select.POLLIN)
        sock.settimeout(self._patience)

    def ready(self) -> bool:
        """Whether a read would return at once."""
        if isinstance(self._sock, ssl.SSLSocket) and self._sock.pending():
            return True
        return bool(self._poll.poll(0))

    def read(self) -> list[bytes]:
        """Wait for bytes and return every event that is complete with them; may be none."""
        self._make_room()
        try:
            count = self._sock.recv_into(self._view[self._end :])
        except TimeoutError as error:
            raise StreamEndedError(f"nothing arrived for {self._patience:g} s, not even a heartbeat") from error
        except (OSError, ValueError) as error:
            raise StreamEndedError(str(error) or type(error).__name__) from error
        if not count:
            raise StreamEndedError("the server closed the connection")
        if self._patience != self._timeout:
            self._patience = self._timeout
            self._sock.settimeout(self._timeout)
        self._end += count
        return self._cut()

    def _make_room(self) -> None:
        """Move the unfinished packet to the front, and grow only when one packet needs it."""
        if self._start == self._end:
            self._start = self._end = 0
            return
        waiting = self._end - self._start
        if self._start:
            self._buffer[:waiting] = self._buffer[self._start : self._end]
            self._start, self._end = 0, waiting
        needed = (_header(self._buffer, 0)[0] & _FULL) + 4 if waiting >= 4 else 4
        if needed > len(self._buffer):
            self._view.release()
            self._buffer.extend(bytes(needed + _BUFFER - len(self._buffer)))
            self._view = memoryview(self._buffer)

    def _cut(self) -> list[bytes]:
        buffer, view = self._buffer, self._view
        at, end = self._start, self._end
        sequence = self._sequence
        events: list[bytes] = []
        while end - at >= 4:
            word = _header(buffer, at)[0]
            length = word & _FULL
            stop = at + 4 + length
            if stop > end:
                break
            if word >> 24 != sequence:
                raise DMError("dump-stream-garbled", what=f"packet number {word >> 24} instead of {sequence}")
            sequence = (sequence + 1) & 0xFF
            if length == _FULL or self._parts:
                self._join(bytes(view[at + 4 : stop]))
                if length != _FULL:
                    payload = b"".join(self._parts)
                    self._parts = []
                    events.append(payload[1:])
            elif length > HEADER_SIZE and not buffer[at + 4]:
                events.append(bytes(view[at + 5 : stop]))
            elif not length or buffer[at + 4] not in _LAST_WORDS:
                raise DMError("dump-stream-garbled", what=f"a packet of {length} bytes that begins as no event does")
            else:
                self.verdict = bytes(view[at + 4 : stop])
                at = stop
                break
            at = stop
        self._start, self._sequence = at, sequence
        return events

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
