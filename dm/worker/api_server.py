"""The server of the API: uvicorn's, but told when it is to end, instead of looking ten times a second."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

import uvicorn

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
