"""A source forgets its old binlogs for sure: a server keeps a file while a session that is ending has it open."""

from __future__ import annotations

from dm.demo.servers import ThrowawayServer
from tests.testbed.sync import wait_until


def purge_binlogs(server: ThrowawayServer, file: str = "") -> str:
    """Wait until nothing is left before this file, or before the newest; gives its name.

    MariaDB also keeps, for a moment, what it would need for its own recovery.
    """
    first = file or str(server.query("SHOW BINARY LOGS")[-1][0])

    def purged() -> bool:
        server.execute(f"PURGE BINARY LOGS TO '{first}'")
        return bool(server.query("SHOW BINARY LOGS")[0][0] == first)

    wait_until(purged, "the purge")
    return first
