"""Which of a source's addresses is in use.

A source may name a second server of its replication group, `standby`. The program that pulls the binlog decides between
the two: the relay, or the reader of a task without relay. It switches to the other address when the one in use fails.
If nothing answers there, it switches at once. If connections only break, it switches after three failures with nothing
received in between, because a single broken connection is reopened at the same address. It returns to the first address
when that server has everything and can send what follows (`lineage.can_follow`).

All other questions go to the server whose events are being read. Its uuid identifies it. An answer of another server
would compare places of two binlogs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from dm.config.endpoint import Endpoint
from dm.errors import DMError
from dm.sourcelog.upstream.connection import PROMPT_SECONDS, Connection, connect
from dm.sourcelog.upstream.facts import ServerFacts, read_facts

PROBE_SECONDS = 10.0  # how often a source on its standby checks whether the first address is back
_FAILURES: Final = 3
# What can differ at the other address. All other errors are about us: our disk, our directory.
_OF_THE_ADDRESS: Final = frozenset({"connection-failed", "connection-lost", "dump-stream-garbled", "source-behind"})

Opened = tuple[Connection, ServerFacts]


class SourceAddresses:
    """The first address of a source, its standby, and which is in use; shared by the threads of a unit."""

    def __init__(
        self,
        endpoint: Endpoint,
        standby: Endpoint | None = None,
        *,
        reading_from: Callable[[], str] = str,
    ) -> None:
        self.first: Final = endpoint
        self.probe_seconds: Final = PROBE_SECONDS
        self._standby = standby
        self._reading_from = reading_from
        self._lock = threading.Lock()
        self._current = endpoint
        self._failures = 0

    @property
    def current(self) -> Endpoint:
        """The address in use."""
        return self._current

    @property
    def other(self) -> Endpoint | None:
        """The address not in use; None if there is only one."""
        return self.first if self.on_standby else self._standby

    @property
    def on_standby(self) -> bool:
        """Whether the first address was abandoned."""
        return self._current is not self.first

    def is_read(self, facts: ServerFacts) -> bool:
        """Whether the events read are this server's; True until that is known."""
        return self._reading_from() in ("", facts.server_uuid)

    def failed(self, error: DMError) -> None:
        """The address in use failed; decides whether to switch."""
        with self._lock:
            other = self.other
            if other is None or error.name not in _OF_THE_ADDRESS:
                return
            self._failures += 1
            if error.name == "connection-failed" or self._failures >= _FAILURES:
                self._use(other)

    def served(self) -> None:
        """Data arrived from the address in use."""
        if self._failures:
            with self._lock:
                self._failures = 0

    def use(self, endpoint: Endpoint) -> None:
        """Use this address from now on."""
        with self._lock:
            self._use(endpoint)

    def _use(self, endpoint: Endpoint) -> None:
        self._current = endpoint
        self._failures = 0

    def open(self, *, any_server: bool = False) -> Opened:
        """A connection to the server whose events are read, and its facts; raises DMError.

        With `any_server`, a connection to another reachable server if that one can't be reached.
        """
        wanted = self._reading_from()
        reached: Opened | None = None
        trouble: DMError | None = None
        for endpoint in (self._current, self.other) if any_server or wanted else (self._current,):
            if endpoint is None:
                continue
            try:
                opened = open_at(endpoint)
            except DMError as error:
                trouble = trouble or error
                continue
            if wanted in ("", opened[1].server_uuid) or (any_server and reached is None and self.other is None):
                self.use(endpoint)
                if reached is not None:
                    reached[0].close()
                return opened
            if reached is None:
                reached = opened
            else:
                opened[0].close()
        if reached is not None and any_server:
            return reached
        if reached is not None:
            reached[0].close()
            trouble = DMError("source-switched", now=reached[1].server_uuid, before=wanted)
        raise trouble or DMError("internal-error", what="a source without an address")


def open_at(endpoint: Endpoint) -> Opened:
    """A connection to this address, and the facts of the server there; raises DMError."""
    connection = connect(endpoint, read_timeout=PROMPT_SECONDS)
    try:
        return connection, read_facts(connection)
    except BaseException:
        connection.close()
        raise
