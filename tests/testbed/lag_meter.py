"""How long rows of a table take from the source to the target, while something else happens."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer

_PAUSE = 0.05  # seconds between two rows, and between two looks


@dataclass
class LagMeter:
    """A row is written again and again, and looked for at the target."""

    upstream: ThrowawayServer
    target: PrivateServer
    table: str  # with one column, its key
    worst: float = 0.0  # seconds
    arrived: int = 0  # the number of the last row that is there
    _written: list[float] = field(default_factory=list)  # when each row was
    _over: threading.Event = field(default_factory=threading.Event)

    def _write(self) -> None:
        with closing(self.upstream.connect(autocommit=True)) as session, session.cursor() as cursor:
            while not self._over.wait(_PAUSE):
                cursor.execute(f"INSERT INTO {self.table} VALUES ({len(self._written) + 1})")
                self._written.append(time.monotonic())

    def _look(self) -> None:
        with closing(self.target.connect(autocommit=True)) as session, session.cursor() as cursor:
            while not self._over.wait(_PAUSE):
                began = time.monotonic()
                cursor.execute(f"SELECT COALESCE(MAX(id), 0) FROM {self.table}")
                self.arrived = int(str(cursor.fetchall()[0][0]))
                if len(self._written) > self.arrived:  # the oldest that was not there when it was asked for
                    self.worst = max(self.worst, began - self._written[self.arrived])

    @contextmanager
    def measuring(self) -> Iterator[LagMeter]:
        """Meanwhile rows are written and looked for."""
        threads = [threading.Thread(target=each, name=f"lag-{each.__name__}") for each in (self._write, self._look)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._over.set()
            for thread in threads:
                thread.join()
