"""A proxy in front of a real server that turns what the server says into what no server says.

It knows the protocol's packets (MySQL Internals, "MySQL Packets"): a rewrite is told of each packet on its way to the
client, with what the connection is doing, and gives what to send instead. So a login, the questions before a dump and
the dump itself are a real server's up to the packet at which the lie begins. The greeting offers no TLS, which clients
would take without asking who is behind it.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple, Self

_DUMPS = (0x12, 0x1E)  # COM_BINLOG_DUMP, COM_BINLOG_DUMP_GTID
_QUERY = 0x03
_CLIENT_SSL = 0x0800


class Packet(NamedTuple):
    """One packet of the server."""

    payload: bytes
    command: bytes  # the client's last command, b"" before the first
    number: int  # which packet of the answer to this command, from 0; of the login, while there was no command

    @property
    def of_dump(self) -> bool:
        """Whether it answers a request for the binlog."""
        return self.command[:1] != b"" and self.command[0] in _DUMPS

    def answers(self, text: bytes) -> bool:
        """Whether it answers a statement that holds this text."""
        return self.command[:1] == bytes([_QUERY]) and text in self.command


@dataclass(frozen=True, slots=True)
class Torn:
    """A packet of which only so many bytes arrive, its header's four included, before the connection ends."""

    payload: bytes
    at: int


Rewrite = Callable[[Packet], Iterable[bytes | Torn]]  # what to send instead; may be endless


def framed(payload: bytes, sequence: int) -> bytes:
    """A payload as one packet."""
    return struct.pack("<I", len(payload) | (sequence & 0xFF) << 24) + payload


class HostileProxy:
    """Forwards connections to a server; every packet of the server goes through `rewrite`."""

    def __init__(self, host: str, port: int, rewrite: Rewrite) -> None:
        self._server = (host, port)
        self._rewrite = rewrite
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closed = False
        self.port = self._listener.getsockname()[1]
        self.connections = 0
        self.sent = 0  # bytes to clients
        self.uploaded = b""  # what a client sent in answer to a request for a file

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._lock:
            self._closed = True
            sockets = [self._listener, *self._sockets]
        for one in sockets:
            with suppress(OSError):  # the peer was faster
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in list(self._threads):
            thread.join()

    def _start(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        with self._lock:
            if self._closed:
                return
            self._threads.append(thread)
            thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                for one in (client, server):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # an answer may be many small packets
            except OSError:
                return  # closed
            with self._lock:
                self.connections += 1
                self._sockets |= {client, server}
            link = _Link(self, client, server)
            self._start(link.up)
            self._start(link.down)

    def send(self, client: socket.socket, data: bytes) -> None:
        """To a client, counted."""
        client.sendall(data)
        with self._lock:
            self.sent += len(data)

    def rewrite(self, packet: Packet) -> Iterable[bytes | Torn]:
        """What to send instead of this packet."""
        return self._rewrite(packet)


class _Link:
    """One client and its connection to the server."""

    def __init__(self, proxy: HostileProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._command = b""
        self._number = 0
        self._sequence = 0
        self._lying = False  # the client's next packets answer what the server never said

    def up(self) -> None:
        try:
            while (packet := _read(self._client)) is not None:
                sequence, payload = packet
                if self._lying:
                    self._proxy.uploaded += payload
                    continue
                if sequence == 0:
                    self._command, self._number, self._sequence = payload, 0, 1
                else:
                    self._sequence = sequence + 1  # of a login: each side goes on from the other's number
                self._server.sendall(framed(payload, sequence))
        except OSError:
            pass  # one side is gone: so is the other
        self._end()

    def down(self) -> None:
        try:
            while (packet := _read(self._server)) is not None:
                payload = packet[1] if self._command or self._number else _without_tls(packet[1])
                described = Packet(payload, self._command, self._number)
                self._number += 1
                for said in self._proxy.rewrite(described):
                    if isinstance(said, Torn):
                        self._proxy.send(self._client, framed(said.payload, self._sequence)[: said.at])
                        raise ConnectionAbortedError
                    # A request for a file is the first packet; a row may begin with the same byte, a NULL.
                    self._lying |= said[:1] == b"\xfb" and self._sequence == 1 and said is not payload
                    number, self._sequence = self._sequence, self._sequence + 1  # before the client can answer
                    self._proxy.send(self._client, framed(said, number))
        except OSError:
            pass  # one side is gone: so is the other
        self._end()

    def _end(self) -> None:
        for one in (self._client, self._server):
            with suppress(OSError):  # it is closed already
                one.shutdown(socket.SHUT_RDWR)


def _without_tls(greeting: bytes) -> bytes:
    """The greeting without the offer of TLS: version text, thread, salt and a filler stand before the capabilities."""
    at = greeting.index(b"\0", 1) + 1 + 4 + 8 + 1
    (offered,) = struct.unpack_from("<H", greeting, at)
    return greeting[:at] + struct.pack("<H", offered & ~_CLIENT_SSL) + greeting[at + 2 :]


def _read(connection: socket.socket) -> tuple[int, bytes] | None:
    head = _exactly(connection, 4)
    if head is None:
        return None
    word = struct.unpack("<I", head)[0]
    payload = _exactly(connection, word & 0xFFFFFF)
    return None if payload is None else (word >> 24, payload)


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(min(size - len(data), 1 << 16))
        if not piece:
            return None
        data += piece
    return bytes(data)
