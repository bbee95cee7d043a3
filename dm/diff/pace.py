"""A comparison waits while a server has other work: before each chunk, and never in the middle of one.

The measure is Threads_running, as pt-table-checksum has it: sessions that execute something at this moment, those of
the comparison among them. It follows at once when a server gets slow, whatever the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from dm.upstream.connection import Connection, fetch

_SECONDS: Final = 0.5


def wait_for_rest(connections: Iterable[Connection], most: int, sleep: Callable[[float], None] = time.sleep) -> float:
    """Wait until none of the servers has more than `most` running threads; gives the seconds that it took.

    The task's process is ended with its job, so nothing needs to wake it.
    """
    waited = 0.0
    for connection in connections:
        while running(connection) > most:
            sleep(_SECONDS)
            waited += _SECONDS
    return waited


def running(connection: Connection) -> int:
    """The sessions that execute something now, this one among them."""
    return int(str(fetch(connection, "SHOW GLOBAL STATUS LIKE 'Threads_running'")[0][1]))
