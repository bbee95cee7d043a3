"""Looks at the target, while something goes on beside a run, whether the run is to end because of it.

Where nothing is to be looked for yet this thread sleeps.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from dm.clock import Clock
from dm.downstream.connection import TargetConnection

LOOK_SECONDS: Final = 0.3


class BesideWatch:
    """One thread with a session of its own; it tells once that the run is to end."""

    def __init__(
        self,
        open_session: Callable[[], TargetConnection],
        look: Callable[[TargetConnection], bool],  # whether the run is to end
        due: Callable[[], None],
        failed: Callable[[BaseException], None],
        clock: Clock,
        pause: float = LOOK_SECONDS,
    ) -> None:
        self._open = open_session
        self._look = look
        self._due = due
        self._failed = failed
        self._clock = clock
        self._pause = pause
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="beside", daemon=True)

    def start(self) -> None:
        """Begin; it sleeps until `wake`."""
        self._thread.start()

    def wake(self) -> None:
        """There is something to be looked for from now on."""
        self._wake.set()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._wake.wait()
            if self._stop.is_set():
                return
            connection = self._open()
            while not self._clock.wait(self._stop, self._pause):
                if self._look(connection):
                    self._due()
                    return
        except BaseException as error:  # handed to the owner, which raises it in the unit's own thread
            if not self._stop.is_set():
                self._failed(error)
