"""What the source has beyond the relay, and whether the pull still belongs to it.

A connection outlives much at the source. After RESET it goes on with a file that is no more, and nothing comes; after
SET GLOBAL of MariaDB's domain or server id what comes belongs to a server of another name. A source on its standby may
have its first address back. In each case the pull is ended: the next one looks at everything anew.

Asks in a thread of its own, since a silent server keeps whoever asks waiting: neither the pull nor its end waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from dm.clock import Clock
from dm.config.endpoint import Endpoint
from dm.errors import DMError
from dm.position import Position
from dm.upstream.address import SourceAddresses
from dm.upstream.connection import Connection
from dm.upstream.facts import binlog_end, read_facts
from dm.upstream.lineage import can_follow
from dm.upstream.replica_identity import ReplicaIdentity

WATCH_SECONDS = 2.0
JOIN_SECONDS = 5.0


class SourceWatch:
    """Keeps the source's end for the status; ends a pull that the source has left behind."""

    def __init__(
        self,
        addresses: SourceAddresses,
        identity: ReplicaIdentity,
        clock: Clock,
        stored: Callable[[], Position | None],
        interrupt: Callable[[], None],
    ) -> None:
        self._addresses = addresses
        self._identity = identity
        self._clock = clock
        self._stored = stored  # the end of what the pull under way has stored
        self._interrupt = interrupt
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="relay-source-watch", daemon=True)
        self.end: Position | None = None

    def __enter__(self) -> SourceWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        opened: tuple[Endpoint, Connection] | None = None
        looked = self._clock.monotonic()
        while not self._stop.is_set():
            addresses = self._addresses
            if opened is not None and opened[0] is not addresses.current:
                opened[1].close()
                opened = None
            try:
                if opened is None:
                    opened = (addresses.current, addresses.open()[0])
                stored = self._stored()  # before the end is asked: nothing can be stored that lies behind it
                self.end = binlog_end(opened[1], read_facts(opened[1]), exact=False)
                if stored is not None and not _belongs(stored, self.end):
                    self._interrupt()
            except DMError:
                # The pull meets the same trouble and reports it; here only the shown end stays as it was.
                if opened is not None:
                    opened[1].close()
                opened = None
            now = self._clock.monotonic()
            if not addresses.on_standby:
                looked = now
            elif now - looked >= addresses.probe_seconds:
                looked = now
                if can_follow(addresses.first, addresses.current, self._identity):
                    addresses.use(addresses.first)
                    self._interrupt()
            self._clock.wait(self._stop, min(WATCH_SECONDS, addresses.probe_seconds))
        if opened is not None:
            opened[1].close()


def _belongs(stored: Position, end: Position) -> bool:
    """Whether what is stored can be of the server that has this end now.

    Only the place tells: a server counts a transaction as executed some time after it has sent it.
    """
    return stored.server_uuid == end.server_uuid and (not stored.same_files(end) or stored.order <= end.order)
