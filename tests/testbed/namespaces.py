"""Network namespaces of this machine, as hosts that can be cut off from each other and from servers.

Each has a loopback of its own and nothing else. Servers of the machine, and ports of other namespaces, are reached at
the same loopback ports: this process listens there, and passes bytes on from namespace to namespace. A link that is cut
passes nothing on: connections stay open and hang, as behind a dead switch, new ones too. What was sent arrives when the
link is mended, late, which is the worst that a network does.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from dm.demo.private_server import HOST

T = TypeVar("T")
_NETWORK: Final = 0x40000000  # CLONE_NEWNET
_FOLDER: Final = Path("/run/netns")
_PIECE: Final = 1 << 16
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def not_permitted() -> str:
    """Why there are no namespaces here; empty where they can be made."""
    if shutil.which("ip") is None:
        return "`ip` of iproute2 is missing"
    name = f"dm-try-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"`ip netns add` is not permitted: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", name], check=True)
    for left in _FOLDER.glob("dm-*-*"):  # by a run that was killed
        if not Path("/proc", left.name.split("-")[1]).exists():
            subprocess.run(["ip", "netns", "del", left.name], check=False)
    return ""


class Namespace:
    """One of them, made and removed as a context."""

    def __init__(self, name: str) -> None:
        self.name = f"dm-{os.getpid()}-{name}"
        self._links: dict[int, Link] = {}

    def __enter__(self) -> Self:
        subprocess.run(["ip", "netns", "add", self.name], check=True)
        subprocess.run(["ip", "-n", self.name, "link", "set", "lo", "up"], check=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for link in self._links.values():
            link.close()
        subprocess.run(["ip", "netns", "del", self.name], check=True)

    @property
    def prefix(self) -> tuple[str, ...]:
        """What runs a command in it."""
        return ("ip", "netns", "exec", self.name)

    def reach(self, port: int, to: Namespace | None = None) -> None:
        """Reach a port of this machine's, or of another namespace."""
        self._links[port] = Link(self.within(lambda: _listening(port)), port, to)

    def cut(self, *ports: int) -> None:
        """From now on nothing passes."""
        for port in ports:
            self._links[port].passes.clear()

    def mend(self) -> None:
        """All passes again."""
        for link in self._links.values():
            link.passes.set()

    def within(self, act: Callable[[], T]) -> T:
        """Run `act` in a thread that is in the namespace; what it opens stays there."""
        done: list[T] = []
        failed: list[BaseException] = []

        def run() -> None:
            descriptor = os.open(_FOLDER / self.name, os.O_RDONLY | os.O_CLOEXEC)
            try:
                _enter(descriptor)
                done.append(act())
            except BaseException as error:
                failed.append(error)
            finally:
                os.close(descriptor)

        thread = threading.Thread(target=run, name="namespace")
        thread.start()
        thread.join()
        if failed:
            raise failed[0]
        return done[0]


def _enter(descriptor: int) -> None:
    """Have the calling thread be in a namespace."""
    if _LIBC.setns(descriptor, _NETWORK):
        raise OSError(ctypes.get_errno(), "setns")


def _listening(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((HOST, port))
    listener.listen(64)
    return listener


class Link:
    """Passes connections on from a port of one namespace to the same port elsewhere."""

    def __init__(self, listener: socket.socket, port: int, to: Namespace | None) -> None:
        self.passes = threading.Event()
        self.passes.set()
        self._listener = listener
        self._port = port
        self._to = to
        self._closed = False
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, name="link", daemon=True).start()

    def close(self) -> None:
        """End it with all its connections."""
        self._closed = True
        self.passes.set()
        for each in (self._listener, *list(self._open)):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), name="link", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self.passes.wait()
        try:
            server = self._connected() if self._to is None else self._to.within(self._connected)
        except OSError:
            client.close()
            return
        with self._lock:
            self._open |= {client, server}
        back = threading.Thread(target=self._pump, args=(server, client), name="link", daemon=True)
        back.start()
        self._pump(client, server)
        back.join()
        with self._lock:
            self._open -= {client, server}
        client.close()
        server.close()

    def _connected(self) -> socket.socket:
        return socket.create_connection((HOST, self._port))

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_PIECE):
                self.passes.wait()
                sink.sendall(data)
            self.passes.wait()
        for each, how in ((sink, socket.SHUT_WR), (source, socket.SHUT_RD)):
            with suppress(OSError):
                each.shutdown(how)
