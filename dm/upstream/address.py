"""Which of a source's addresses is in use.

A source may name a second server of its replication group, `standby`. Whoever pulls the binlog decides between the two:
the relay, or the reader of a task without relay. It goes to the other address when the one in use fails: at once when
nobody can be reached there, after three failures with nothing received in between when connections only break, since
one broken connection is opened again where it was. It goes back to the first address when that has everything and can
send it (`lineage.can_follow`).

Everybody else who asks the source something follows: what counts is the server whose events are being read, and that is
known by its uuid. An answer of another server would compare places of two binlogs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from dm.config.endpoint import Endpoint
from dm.errors import DMError
from dm.upstream.connection import PROMPT_SECONDS, Connection, connect
from dm.upstream.facts import ServerFacts, read_facts

PROBE_SECONDS = 10.0  # how often a source on its standby looks whether the first address is back
_FAILURES: Final = 3
# What can be different at the other address. The rest is about us: our disk, our directory.
_OF_THE_ADDRESS: Final = frozenset({"connection-failed", "connection-lost", "dump-stream-garbled", "source-behind"})

Opened = tuple[Connection, ServerFacts]


class SourceAddresses:
    """The first address of a source, its standby, and which of them is in use; shared by the threads of a unit."""

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
        """The address that is not in use; None where there is only one."""
        return self.first if self.on_standby else self._standby

    @property
    def on_standby(self) -> bool:
        """Whether the first address was left."""
        return self._current is not self.first

    def is_read(self, facts: ServerFacts) -> bool:
        """Whether events of this server are read; True while that is not known."""
        return self._reading_from() in ("", facts.server_uuid)

    def failed(self, error: DMError) -> None:
        """The address in use did not serve; decides whether the other one is next."""
        with self._lock:
            other = self.other
            if other is None or error.name not in _OF_THE_ADDRESS:
                return
            self._failures += 1
            if error.name == "connection-failed" or self._failures >= _FAILURES:
                self._use(other)

    def served(self) -> None:
        """Something came from the address in use."""
        if self._failures:
            with self._lock:
                self._failures = 0

    def use(self, endpoint: Endpoint) -> None:
        """Take this address from now on."""
        with self._lock:
            self._use(endpoint)

    def _use(self, endpoint: Endpoint) -> None:
        self._current = endpoint
        self._failures = 0

    def open(self, *, any_server: bool = False) -> Opened:
        """A connection to the server whose events are read, and its facts; raises DMError.

        With `any_server`, when that one can't be reached, to another one that can.
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
    """A connection to this address, and the facts of who answers there; raises DMError."""
    connection = connect(endpoint, read_timeout=PROMPT_SECONDS)
    try:
        return connection, read_facts(connection)
    except BaseException:
        connection.close()
        raise
