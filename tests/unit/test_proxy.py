"""The fault proxy against a plain echo server: each fault does what it says, to the byte."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.testbed.proxy import FaultProxy


class EchoServer:
    """Sends back what it receives."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.received = 0
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            thread = threading.Thread(target=self._echo, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _echo(self, connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(65536):
                    self.received += len(data)
                    connection.sendall(data)
            except OSError:
                return

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join()
        for connection in self._open:
            connection.close()
        for thread in self._threads[1:]:
            thread.join()


@pytest.fixture
def echo() -> Iterator[EchoServer]:
    server = EchoServer()
    yield server
    server.close()


@pytest.fixture
def proxy(echo: EchoServer) -> Iterator[FaultProxy]:
    with FaultProxy("127.0.0.1", echo.port) as started:
        yield started


@pytest.fixture
def client(proxy: FaultProxy) -> Iterator[socket.socket]:
    with socket.create_connection((proxy.host, proxy.port), timeout=10) as connection:
        yield connection


def receive_exactly(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        data = connection.recv(size - len(received))
        assert data, f"the stream ended after {len(received)} bytes"
        received += data
    return received


def receive_until_broken(connection: socket.socket) -> bytes:
    received = b""
    try:
        while data := connection.recv(65536):
            received += data
    except ConnectionError:
        pass
    return received


def test_bytes_pass_unchanged(client: socket.socket) -> None:
    data = random.Random(1).randbytes(300_000)
    sender = threading.Thread(target=client.sendall, args=(data,))
    sender.start()
    assert receive_exactly(client, len(data)) == data
    sender.join()


def test_the_end_of_a_stream_passes(client: socket.socket) -> None:
    client.sendall(b"last words")
    client.shutdown(socket.SHUT_WR)
    assert receive_until_broken(client) == b"last words"


def test_cut_breaks_open_connections_and_lets_new_ones_in(client: socket.socket, proxy: FaultProxy) -> None:
    client.sendall(b"a")
    receive_exactly(client, 1)
    assert proxy.cut() == 1
    assert receive_until_broken(client) == b""
    with socket.create_connection((proxy.host, proxy.port), timeout=10) as second:
        second.sendall(b"b")
        assert receive_exactly(second, 1) == b"b"


def test_refused_connections_come_back_on_the_same_port(proxy: FaultProxy) -> None:
    port = proxy.port
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((proxy.host, port), timeout=10)
    proxy.heal()
    assert proxy.port == port
    socket.create_connection((proxy.host, port), timeout=10).close()


def test_a_stalled_direction_is_silent_and_loses_nothing(client: socket.socket, proxy: FaultProxy) -> None:
    proxy.stall("down")
    client.sendall(b"question")
    client.settimeout(0.2)
    with pytest.raises(TimeoutError):
        client.recv(1)
    client.settimeout(10)
    proxy.heal()
    assert receive_exactly(client, 8) == b"question"


@pytest.mark.parametrize("after", [0, 1, 7, 65_535, 65_536, 65_537, 199_999])
def test_truncation_lets_exactly_so_many_bytes_through(client: socket.socket, proxy: FaultProxy, after: int) -> None:
    data = random.Random(2).randbytes(200_000)
    proxy.truncate(after, "down")

    def send() -> None:
        try:
            client.sendall(data)
        except ConnectionError:
            return

    sender = threading.Thread(target=send)
    sender.start()
    received = receive_until_broken(client)
    sender.join()
    # A reset may throw away bytes that the receiver had not read yet, never add any.
    assert data.startswith(received)
    assert proxy.forwarded["down"] == after
    assert proxy.truncated.is_set()


def test_truncation_towards_the_server(client: socket.socket, proxy: FaultProxy, echo: EchoServer) -> None:
    proxy.truncate(5, "up")
    client.sendall(b"0123456789")
    receive_until_broken(client)
    assert proxy.forwarded["up"] == 5
    assert echo.received <= 5


def test_a_slow_connection_delivers_everything(client: socket.socket, proxy: FaultProxy) -> None:
    proxy.slow(50_000)
    data = random.Random(3).randbytes(10_000)
    client.sendall(data)
    assert receive_exactly(client, len(data)) == data


def test_a_drawn_fault_depends_on_the_seed_alone(proxy: FaultProxy) -> None:
    def draw(seed: int) -> list[str]:
        chance = random.Random(seed)
        drawn = []
        for _ in range(20):
            drawn.append(proxy.strike(chance))
            proxy.heal()
        return drawn

    assert draw(11) == draw(11)
    assert len({description.split()[0] for description in draw(12)}) == 5
