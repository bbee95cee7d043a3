"""What connections to the API may take of the daemon before they have asked anything."""

from __future__ import annotations

import asyncio
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from dm.worker import connection
from dm.worker.connection import LARGEST_BODY, MOST_CONNECTIONS, LimitedBody, raise_descriptors
from dm.worker.daemon import serving

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


@pytest.fixture
def address(application: Application) -> Iterator[tuple[str, int]]:
    with socket.create_server(("127.0.0.1", 0)) as listener, serving(LimitedBody(application), listener, "test"):
        yield listener.getsockname()
        application.go_on.set()


def connected(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, SECONDS)


def ended(one: socket.socket) -> bool:
    """Whether the other side has closed it; waits until it does."""
    try:
        return one.recv(1) == b""
    except ConnectionResetError:
        return True


def test_connections_that_ask_nothing_keep_nobody_out(address: tuple[str, int]) -> None:
    with ExitStack() as stack:
        idle = [stack.enter_context(connected(address)) for _ in range(2 * MOST_CONNECTIONS)]
        idle[-1].sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")  # the half of a request is none
        answers = [httpx.get("http://{}:{}/".format(*address), timeout=SECONDS).text for _ in range(3)]
        assert answers == ["0"] * 3
        assert all(ended(one) for one in idle[:MOST_CONNECTIONS]), "those that waited the longest were given up"


def test_a_request_that_is_there_is_answered_however_many_come_after_it(
    address: tuple[str, int], application: Application
) -> None:
    with ExitStack() as stack:
        asking = [stack.enter_context(connected(address)) for _ in range(MOST_CONNECTIONS)]
        for one in asking:
            one.sendall(b"POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab")
            assert application.asked.acquire(timeout=SECONDS)
        for _ in range(MOST_CONNECTIONS):
            assert ended(stack.enter_context(connected(address))), "all places are taken"
        application.go_on.set()
        for one in asking:
            assert one.recv(12) == b"HTTP/1.1 200"
        assert httpx.get("http://{}:{}/".format(*address), timeout=SECONDS).text == "0"


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
def test_what_does_not_come_is_not_waited_for(
    address: tuple[str, int], sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "REQUEST_SECONDS", 0.01)
    with connected(address) as one:
        one.sendall(sent)
        while not ended(one):
            pass


@pytest.mark.parametrize("said", [True, False], ids=["its size is said", "in chunks"])
def test_a_body_that_is_too_large_is_not_read(address: tuple[str, int], said: bool) -> None:
    size = LARGEST_BODY + 1
    chunk = b"%x\r\n%b\r\n" % (size, b"x" * size)
    with connected(address) as one:
        how = b"Content-Length: %d" % size if said else b"Transfer-Encoding: chunked"
        one.sendall(b"POST / HTTP/1.1\r\nHost: x\r\n%b\r\n\r\n" % how)
        if not said:
            one.sendall(chunk)
        assert one.recv(12) == b"HTTP/1.1 413"  # of the first one nothing was sent, and nothing was waited for
    whole = httpx.post("http://{}:{}/".format(*address), content=b"y" * LARGEST_BODY, timeout=SECONDS)
    assert whole.text == str(LARGEST_BODY)


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
