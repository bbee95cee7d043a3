"""A small workload on one table of a source, until it is told to end."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from dm.demo.servers import ThrowawayServer


@dataclass
class Writes:
    """Inserts, updates and deletes of `(id INT PRIMARY KEY, v INT)`."""

    server: ThrowawayServer
    table: str
    over: threading.Event = field(default_factory=threading.Event)
    turns: int = 0

    def run(self) -> None:
        """Write until it is over."""
        while not self.over.wait(0.02):
            self.turns += 1
            number = 100 + self.turns
            self.server.execute(
                f"INSERT INTO {self.table} VALUES ({number}, 1)",
                f"UPDATE {self.table} SET v = v + 1 WHERE id IN (1, {number - 3})",
                f"DELETE FROM {self.table} WHERE id = {number - 7}",
            )
