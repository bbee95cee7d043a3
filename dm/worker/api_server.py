"""The servers of the API: uvicorn's, but told when they are to end, instead of looking ten times a second.

Each socket has a server of its own. So it is the application that a socket was given that decides whether a request
there needs the token, and nothing that the request says of itself. What a connection may take is in
`dm/worker/connection.py`.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from dm.worker.connection import BACKLOG, LimitedConnection

_TICK_SECONDS: Final = 1.0  # the `Date` of its answers is renewed then


class ApiServer(uvicorn.Server):
    """Serves until `end`."""

    _loop: asyncio.AbstractEventLoop | None = None
    _over: asyncio.Event

    async def main_loop(self) -> None:
        """What runs beside the connections."""
        self._over = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), _TICK_SECONDS)

    def end(self) -> None:
        """Answer what is asked, and return from `run`; from any thread."""
        self.should_exit = True
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended already
                self._loop.call_soon_threadsafe(self._over.set)


@contextmanager
def serving(app: ASGIApp, listener: socket.socket, name: str) -> Iterator[None]:
    """Answer what comes through a socket, in a thread of its own; at the end what was asked is still answered."""
    config = uvicorn.Config(
        app, http=LimitedConnection, backlog=BACKLOG, log_config=None, access_log=False, lifespan="off", ws="none"
    )
    server = ApiServer(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.end()
        thread.join()
