"""What the source has that the relay lacks, and whether the pull still belongs to this source.

A connection survives many changes at the source. After RESET it stays in a file that no longer exists, and no event
arrives. After SET GLOBAL of MariaDB's domain or server id, the events belong to a server of another name. While the
standby is in use, the first address may come back. In each case the watch ends the pull, and the next pull checks
everything again.

The watch runs in its own thread because a silent server blocks it. The pull and its end never wait for it.
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
    """Keeps the source's end for the status; ends a pull that no longer belongs to the source."""

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
        self._stored = stored  # the end of what the running pull has stored
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
                stored = self._stored()  # read before the source's end, so nothing stored can be after that end
                self.end = binlog_end(opened[1], read_facts(opened[1]), exact=False)
                if stored is not None and not _belongs(stored, self.end):
                    self._interrupt()
            except DMError:
                # The pull meets the same trouble and reports it; here the shown end only stays as it was.
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
    """Whether what is stored can come from the server that has this end now.

    Only the position tells: a server counts a transaction as executed some time after it has sent it.
    """
    return stored.server_uuid == end.server_uuid and (not stored.same_files(end) or stored.order <= end.order)
