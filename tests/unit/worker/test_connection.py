"""What connections to the API may take of the daemon before they have asked anything."""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from dm.worker import connection
from dm.worker.connection import (
    LARGEST_BODY,
    MOST_CONNECTIONS,
    CertificateFiles,
    LimitedBody,
    LimitedConnection,
    encrypting,
    raise_descriptors,
)
from dm.worker.daemon import serving
from tests.testbed.certificates import Authority

SECONDS = 60.0  # a limit for what hangs


class Application:
    """Says how much it was sent; waits before that, if it is asked for /slow."""

    def __init__(self) -> None:
        self.asked = threading.Semaphore(0)
        self.go_on = threading.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        size, more = 0, True
        while more:
            message = await receive()
            size, more = size + len(message.get("body", b"")), bool(message.get("more_body"))
        if scope["path"] == "/slow":
            self.asked.release()
            await asyncio.to_thread(self.go_on.wait, SECONDS)
        await PlainTextResponse(str(size))(scope, receive, send)


@pytest.fixture
def application() -> Application:
    return Application()


@dataclass(frozen=True)
class Port:
    """A port of the application, without TLS or with it."""

    address: tuple[str, int]
    context: ssl.SSLContext | None

    def connected(self) -> socket.socket:
        plain = socket.create_connection(self.address, SECONDS)
        return plain if self.context is None else self.context.wrap_socket(plain, server_hostname=self.address[0])

    def refuses(self) -> bool:
        """Whether a connection is closed, perhaps before its handshake has ended."""
        try:
            with self.connected() as one:
                return ended(one)
        except (ConnectionError, ssl.SSLError):
            return True

    def post(self, content: bytes = b"") -> str:
        scheme = "http" if self.context is None else "https"
        with httpx.Client(verify=self.context or True, timeout=SECONDS) as client:
            return client.post("{}://{}:{}/".format(scheme, *self.address), content=content).text


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[CertificateFiles, ssl.SSLContext]:
    authority = Authority(tmp_path_factory.mktemp("ca"))
    files = CertificateFiles(*authority.signed("dm", addresses=("127.0.0.1",)))
    return files, ssl.create_default_context(cafile=str(authority.file))


@pytest.fixture(params=["plain", "TLS"])
def port(
    request: pytest.FixtureRequest, application: Application, certificate: tuple[CertificateFiles, ssl.SSLContext]
) -> Iterator[Port]:
    files, context = certificate
    protocol = encrypting(files) if request.param == "TLS" else LimitedConnection
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with serving(LimitedBody(application), listener, "test", protocol):
            yield Port(listener.getsockname(), context if request.param == "TLS" else None)
            application.go_on.set()


def ended(one: socket.socket) -> bool:
    """Whether the other side has closed it; waits until it does."""
    try:
        return one.recv(1) == b""
    except (ConnectionError, ssl.SSLError):
        return True


def test_connections_that_ask_nothing_keep_nobody_out(port: Port) -> None:
    with ExitStack() as stack:
        idle = [stack.enter_context(port.connected()) for _ in range(2 * MOST_CONNECTIONS)]
        idle[-1].sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")  # the half of a request is none
        answers = [port.post() for _ in range(3)]
        assert answers == ["0"] * 3
        assert all(ended(one) for one in idle[:MOST_CONNECTIONS]), "those that waited the longest were given up"


def test_a_request_that_is_there_is_answered_however_many_come_after_it(port: Port, application: Application) -> None:
    with ExitStack() as stack:
        asking = [stack.enter_context(port.connected()) for _ in range(MOST_CONNECTIONS)]
        for one in asking:
            one.sendall(b"POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab")
            assert application.asked.acquire(timeout=SECONDS)
        for _ in range(MOST_CONNECTIONS):
            assert port.refuses(), "all places are taken"
        application.go_on.set()
        for one in asking:
            assert one.recv(12) == b"HTTP/1.1 200"
        assert port.post() == "0"


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HT",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=["nothing", "half a head", "half a body", "half of a second one", "one, and then nothing"],
)
def test_what_does_not_come_is_not_waited_for(port: Port, sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "REQUEST_SECONDS", 0.01 if port.context is None else 1.0)  # for the handshake, too
    with port.connected() as one:
        one.sendall(sent)
        while not ended(one):
            pass


@pytest.mark.parametrize("said", [True, False], ids=["its size is said", "in chunks"])
def test_a_body_that_is_too_large_is_not_read(port: Port, said: bool) -> None:
    size = LARGEST_BODY + 1
    chunk = b"%x\r\n%b\r\n" % (size, b"x" * size)
    with port.connected() as one:
        how = b"Content-Length: %d" % size if said else b"Transfer-Encoding: chunked"
        one.sendall(b"POST / HTTP/1.1\r\nHost: x\r\n%b\r\n\r\n" % how)
        if not said:
            one.sendall(chunk)
        assert one.recv(12) == b"HTTP/1.1 413"  # of the first one nothing was sent, and nothing was waited for
    assert port.post(b"y" * LARGEST_BODY) == str(LARGEST_BODY)


def test_the_daemon_may_open_as_many_files_as_the_system_lets_it() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(200, hard), hard))
        raise_descriptors()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(hard, connection.DESCRIPTORS), hard)
        raise_descriptors()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
