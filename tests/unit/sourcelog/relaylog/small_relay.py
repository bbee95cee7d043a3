"""A relay without a server: writes transactions as fast as it is told to, and can be killed."""

from __future__ import annotations

from pathlib import Path

from dm.clock import SystemClock
from dm.mysql.binlog.event import SourceEvent
from dm.mysql.binlog.header import LOG_EVENT_ARTIFICIAL_F, EventType
from dm.position import MAGIC_SIZE
from dm.sourcelog.relaylog.layout import RelayDirectory
from dm.sourcelog.relaylog.recovery import recover
from dm.sourcelog.relaylog.writer import RelayWriter
from tests.unit.sourcelog.relaylog.binlog_bytes import (
    SERVER,
    format_description,
    placed,
    previous_gtids,
    rotate,
    transaction,
)

FILE = "mysql-bin.{:06d}"


class SmallRelay:
    """`expected` is what the source has: each event with its file and where it ends."""

    def __init__(self, root: Path) -> None:
        self.sub = RelayDirectory(root).add(SERVER)
        self.expected: list[tuple[str, int, bytes]] = []
        self.transactions = 0
        self._file = 1
        self._end = MAGIC_SIZE
        self._taken = 0  # how many of the events the writer has
        self.writer = RelayWriter(self.sub, "mysql", SystemClock())
        self.writer.announce(FILE.format(1), MAGIC_SIZE)
        self._put([format_description(), previous_gtids(0)])
        self.flush()

    def _put(self, events: list[bytes]) -> None:
        for data in placed(events, self._end):
            self._end += len(data)
            self.expected.append((FILE.format(self._file), self._end, data))

    def write(self, count: int, size: int = 40) -> None:
        """The source commits transactions, and the relay writes them."""
        for _ in range(count):
            self.transactions += 1
            self._put(transaction(self.transactions, size))
            if len(self.expected) - self._taken > 2000:
                self.flush()
        self.flush()

    def rotate(self) -> None:
        """The source goes on in its next file."""
        self._put([rotate(FILE.format(self._file + 1))])
        self._file += 1
        self._end = MAGIC_SIZE
        self._put([format_description(), previous_gtids(self.transactions)])
        self.flush()

    def flush(self, upto: int | None = None) -> None:
        """The relay writes what it does not have, at most the first `upto` events of all."""
        for file, end, data in self.expected[self._taken : upto]:
            self.writer.announce(file, end - len(data))
            self.writer.append(data, end)
            self._taken += 1
        self.writer.flush()

    def die(self, size: int) -> None:
        """SIGKILL inside a transaction: a part of it is written; the next relay cuts it off and pulls it again."""
        self.transactions += 1
        self._put(transaction(self.transactions, size))
        self.flush(len(self.expected) - 2)
        self.writer.abandon()
        self._resume()

    def stop(self) -> None:
        """A clean end, and another relay."""
        self.writer.close()
        self._resume()

    def _resume(self) -> None:
        self.writer = RelayWriter(self.sub, "mysql", SystemClock())
        recovered = recover(self.sub, "mysql")
        assert recovered is not None
        self.writer.resume(recovered.file, recovered.index)
        place = (recovered.file, recovered.index.complete)
        self._taken = 1 + next(n for n, (file, end, _) in enumerate(self.expected) if (file, end) == place)
        self.flush()

    def close(self) -> None:
        self.writer.close()


def is_stored(event: SourceEvent) -> bool:
    """Whether this event stands in a file."""
    header = event.raw.header
    return header.type != EventType.HEARTBEAT and not header.flags & LOG_EVENT_ARTIFICIAL_F
