"""A TCP proxy that breaks connections in the ways networks do, when it is told to and at the byte it is told.

A fault is one of: cut (reset all connections), refuse (nobody listens), stall (open and silent, as behind a dead
firewall), slow (a rate in bytes per second), truncate (reset after exactly n more bytes of a direction). Each stays
until `heal`, except cut and truncate, which are over when they happened. Which fault and when is the test's decision;
`strike` draws one from a generator that the test seeded, so that a run can be repeated.
"""

from __future__ import annotations

import random
import socket
import struct
import threading
from types import TracebackType
from typing import Literal, Self

Direction = Literal["up", "down"]  # towards the server; towards the client
DIRECTIONS: tuple[Direction, Direction] = ("up", "down")

_HOST = "127.0.0.1"
_CHUNK = 64 * 1024
_SLICES_PER_SECOND = 20  # how finely a slow stream is cut


def _reset(connection: socket.socket) -> None:
    """Close with RST and wake whoever waits in recv or send."""
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # the other side was faster; close is what counts
    connection.close()


class _Link:
    """One client connection and the server connection that belongs to it."""

    def __init__(self, proxy: FaultProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._sockets = {"up": (client, server), "down": (server, client)}
        self.closed = threading.Event()
        self.threads = [
            threading.Thread(target=self._pump, args=(direction,), name=f"proxy-{direction}", daemon=True)
            for direction in DIRECTIONS
        ]
        self._open_directions = len(DIRECTIONS)
        self._lock = threading.Lock()

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def cut(self) -> None:
        self.closed.set()
        for connection in self._sockets["up"]:
            _reset(connection)

    def _pump(self, direction: Direction) -> None:
        source, sink = self._sockets[direction]
        try:
            while data := source.recv(_CHUNK):
                view = memoryview(data)
                while view:
                    allowed = self._proxy.admit(self, direction, len(view))
                    if allowed == 0:
                        self.cut()
                        return
                    sink.sendall(view[:allowed])
                    self._proxy.count(direction, allowed)
                    view = view[allowed:]
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            self.cut()  # one side broke: so does the other
        finally:
            with self._lock:
                self._open_directions -= 1
                last = self._open_directions == 0
            if last:
                self.closed.set()
                for connection in self._sockets["up"]:
                    connection.close()
                self._proxy.forget(self)


class FaultProxy:
    """Forwards connections on its own port to a server, with faults on demand."""

    def __init__(self, server_host: str, server_port: int) -> None:
        self._server = (server_host, server_port)
        self._changed = threading.Condition()
        self._links: set[_Link] = set()
        self._stalled: set[Direction] = set()
        self._rates: dict[Direction, int] = {}
        self._budgets: dict[Direction, int] = {}
        self._listener: socket.socket | None = None
        self._acceptor: threading.Thread | None = None
        self.connections = 0  # accepted so far
        self.forwarded: dict[Direction, int] = {"up": 0, "down": 0}  # bytes so far
        self.truncated = threading.Event()  # set when a truncation happened
        self.host = _HOST
        self.port = 0

    def start(self) -> Self:
        """Listen; on the same port as before after a `refuse`."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((_HOST, self.port))
        listener.listen(64)
        self.port = listener.getsockname()[1]
        self._listener = listener
        self._acceptor = threading.Thread(target=self._accept, args=(listener,), name="proxy-accept", daemon=True)
        self._acceptor.start()
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening, reset every connection, wait for all threads."""
        self.refuse()
        with self._changed:
            links = list(self._links)
        for link in links:
            link.cut()
        self.heal()
        for link in links:
            for thread in link.threads:
                thread.join()

    # Faults

    def cut(self) -> int:
        """Reset all connections that are open now; says how many."""
        with self._changed:
            links = list(self._links)
            for link in links:
                link.cut()
            self._changed.notify_all()
        return len(links)

    def lead_to(self, server_host: str, server_port: int, *, cut: bool = True) -> None:
        """Another server is behind this address from now on; what is open is reset, or stays where it leads."""
        self._server = (server_host, server_port)
        if cut:
            self.cut()

    def refuse(self) -> None:
        """Stop listening: new connections are refused; open ones stay."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        if self._acceptor is not None:
            self._acceptor.join()
            self._acceptor = None

    def stall(self, *directions: Direction) -> None:
        """Forward nothing in these directions (both when none is named), connections staying open."""
        with self._changed:
            self._stalled = set(directions or DIRECTIONS)

    def slow(self, bytes_per_second: int, *directions: Direction) -> None:
        """Limit the rate of each connection in these directions (both when none is named)."""
        with self._changed:
            self._rates = dict.fromkeys(directions or DIRECTIONS, bytes_per_second)

    def truncate(self, after: int, direction: Direction) -> None:
        """Reset the connection that carries the byte after the next `after` bytes of this direction."""
        with self._changed:
            self.truncated.clear()
            self._budgets = {direction: after}

    def heal(self) -> None:
        """Be an ordinary network again."""
        with self._changed:
            self._stalled.clear()
            self._rates.clear()
            self._budgets.clear()
            self._changed.notify_all()
        if self._listener is None and self.port:
            self.start()

    def strike(self, chance: random.Random) -> str:
        """Draw one fault, do it, and say what it was, in words that name every drawn number."""
        direction = chance.choice(DIRECTIONS)
        match chance.choice(("cut", "refuse", "stall", "slow", "truncate", "truncate")):
            case "cut":
                return f"cut {self.cut()} connections"
            case "refuse":
                self.refuse()
                self.cut()
                return "refuse"
            case "stall":
                self.stall(direction)
                return f"stall {direction}"
            case "slow":
                rate = chance.randrange(2_000, 200_000)
                self.slow(rate, direction)
                return f"slow {direction} {rate} bytes/s"
            case _:
                after = chance.randrange(1, 50_000)
                self.truncate(after, direction)
                return f"truncate {direction} after {after} bytes"

    # Called by the links

    def admit(self, link: _Link, direction: Direction, size: int) -> int:
        """How many of `size` bytes may pass now; waits while stalled; 0 means that the connection ends here."""
        with self._changed:
            self._changed.wait_for(lambda: direction not in self._stalled or link.closed.is_set())
            rate = self._rates.get(direction)
        if rate is not None:
            size = min(size, max(1, rate // _SLICES_PER_SECOND))
            link.closed.wait(size / rate)
        if link.closed.is_set():
            return 0
        with self._changed:
            budget = self._budgets.get(direction)
            if budget is None:
                return size
            if budget == 0:
                del self._budgets[direction]
                self.truncated.set()
                return 0
            size = min(size, budget)
            self._budgets[direction] = budget - size
            return size

    def count(self, direction: Direction, size: int) -> None:
        """Note forwarded bytes."""
        with self._changed:
            self.forwarded[direction] += size

    def forget(self, link: _Link) -> None:
        """The link's connections are closed."""
        with self._changed:
            self._links.discard(link)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return  # closed by refuse
            try:
                server = socket.create_connection(self._server, timeout=30)
            except OSError:
                _reset(client)
                continue
            server.settimeout(None)
            for connection in (client, server):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = _Link(self, client, server)
            with self._changed:
                self.connections += 1
                self._links.add(link)
            link.start()
