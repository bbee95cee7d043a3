"""The packets of a running dump, taken from the socket in large pieces.

One `recv_into` fills as much as the socket has; the packets in it are cut without further calls. A packet of 2^24-1
bytes is continued by the next one (MySQL Internals, "Sending More Than 16Mb"); such an event is put together here.
The first byte of a payload says what it is: 0 an event follows, 0xFF an error, 0xFE the end; after the last two
nothing comes.
"""

from __future__ import annotations

import select
import socket
import ssl
import struct

from dm.errors import DMError

_FULL = 0xFFFFFF
_BUFFER = 1 << 20
_header = struct.Struct("<I").unpack_from


class StreamEndedError(Exception):
    """Raised when the peer closed the connection or nothing came within the timeout."""


class PacketReader:
    """Cuts the events out of one connection's byte stream."""

    def __init__(self, sock: socket.socket, timeout: float, first_sequence: int = 1) -> None:
        self.verdict: bytes | None = None  # the payload that ended the dump, an error or an EOF packet
        self._sock = sock
        self._timeout = timeout
        self._buffer = bytearray(_BUFFER)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0
        self._sequence = first_sequence & 0xFF
        self._parts: list[bytes] = []  # of a payload that is longer than one packet
        self._poll = select.poll()
        self._poll.register(sock.fileno(), select.POLLIN)
        sock.settimeout(timeout)

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
            raise StreamEndedError(f"nothing arrived for {self._timeout:g} s, not even a heartbeat") from error
        except (OSError, ValueError) as error:
            raise StreamEndedError(str(error) or type(error).__name__) from error
        if not count:
            raise StreamEndedError("the server closed the connection")
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
                self._parts.append(bytes(view[at + 4 : stop]))
                if length != _FULL:
                    payload = b"".join(self._parts)
                    self._parts = []
                    events.append(payload[1:])
            elif length and not buffer[at + 4]:
                events.append(bytes(view[at + 5 : stop]))
            else:
                self.verdict = bytes(view[at + 4 : stop])
                at = stop
                break
            at = stop
        self._start, self._sequence = at, sequence
        return events
