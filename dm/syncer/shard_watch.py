"""Looks, while a table is held, whether its group has come to the DDL; then main ends, and a second pass begins.

Where nothing is held this thread sleeps.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final

from dm.clock import Clock
from dm.downstream.connection import TargetConnection
from dm.ident import TableName
from dm.progress.shard_group import GOES_ON, Shard
from dm.progress.shard_groups import ShardGroups
from dm.progress.shard_holds import HeldTable

LOOK_SECONDS: Final = 0.5


def going(
    connection: TargetConnection,
    groups: ShardGroups,
    held: Mapping[TableName, HeldTable],
    route: Callable[[TableName], TableName],
) -> list[HeldTable]:
    """The held tables that may go on; raises DMError."""
    return [each for table, each in held.items() if groups.look(connection, Shard(table, route(table))) in GOES_ON]


class ShardWatch:
    """One thread with a session of its own."""

    def __init__(
        self,
        open_session: Callable[[], TargetConnection],
        look: Callable[[TargetConnection], bool],  # whether a second pass is due
        due: Callable[[], None],
        failed: Callable[[BaseException], None],
        clock: Clock,
    ) -> None:
        self._open = open_session
        self._look = look
        self._due = due
        self._failed = failed
        self._clock = clock
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shards", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Something is held from now on."""
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
            while not self._clock.wait(self._stop, LOOK_SECONDS):
                if self._look(connection):
                    self._due()
                    return
        except BaseException as error:  # handed to the owner, which raises it in the unit's own thread
            if not self._stop.is_set():
                self._failed(error)
