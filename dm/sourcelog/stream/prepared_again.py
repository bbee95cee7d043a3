"""XA transactions that are undecided at the checkpoint, and whose rows are not on this host: they are read again.

The rows of a PREPARE wait on the disk of the host that has read it (`prepared.py`). If that host is gone, or its
folder, the list at the target still says which transactions are undecided at the checkpoint, and where each PREPARE
ends. The source holds a prepared transaction for weeks, and its binlog has the rows as long as the file is there. So
just these transactions are read once more, from the beginning of their files, by the rules of today. Relay files come
first, if this host has them, then the source itself.

Nothing of this is a guess. A PREPARE is known by its server, its file and its end. What is not found, since the source
has purged the file or another server has taken its place, stays undecided without rows: its XA COMMIT pauses the task,
and its XA ROLLBACK harms nothing. The list keeps it, so a later start looks again: somebody may bring the file back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from dm.errors import DMError
from dm.gtid import Gtid
from dm.ident import TableName
from dm.mysql.binlog.event import EventSource
from dm.position import MAGIC_SIZE, Position
from dm.sourcelog.stream.prepared import PreparedTransactions
from dm.sourcelog.stream.prepared_list import HeldXa
from dm.sourcelog.stream.source_log import SourceLog, Space
from dm.sourcelog.stream.transaction import TransactionItems

_REST_SECONDS: Final = 30.0  # without an event of the file: the source has lost the end of it

SourceAt = Callable[[Position], EventSource | None]
"""A way to read from a place; None where it does not have that."""


@dataclass(frozen=True, slots=True)
class ReadingAgain:
    """How PREPAREs are read again."""

    sources: Sequence[SourceAt]  # the next is asked for what the one before does not have
    wanted: Callable[[TableName], bool]
    space: Space
    stop: threading.Event

    def restore(self, prepared: PreparedTransactions, stored: Position) -> None:
        """Bring back the rows that are missing of what is undecided at the checkpoint; raises DMError."""
        lost = prepared.without_rows()
        for source in self.sources:
            for file in sorted({_file(held) for held in lost}):
                self._read(source, [held for held in lost if _file(held) == file], prepared)
            lost = [held for held in lost if not held.again]
        prepared.restored(stored)
        if lost and not self.stop.is_set():
            structlog.get_logger().warning(
                "rows of prepared XA transactions are neither on this host nor in the source's binlog any more",
                transactions=[f"{held.xid} at {held.prepared.end}" for held in lost],
            )

    def _read(self, source: SourceAt, lost: Sequence[HeldXa], prepared: PreparedTransactions) -> None:
        place = lost[0].prepared.end
        start = Position(place.server_uuid, place.file, MAGIC_SIZE)
        last = max(held.prepared.end.offset for held in lost)
        try:
            events = source(start)
            if events is None:
                return
            again = _Again(prepared, {held.prepared.end.offset: held for held in lost}, place)
            clock, log = self.space.clock, SourceLog(events, self.wanted, again)
            heard = clock.monotonic()
            for transaction in log.follow(start, self.space, self.stop):
                if transaction is None:
                    if events.trouble is None and clock.monotonic() - heard > _REST_SECONDS:
                        return
                    continue
                heard = clock.monotonic()
                end = transaction.end
                if again.done or end.file != place.file or end.offset >= last:
                    return
        except DMError as error:
            if error.retryable:
                raise
            structlog.get_logger().info("a PREPARE can't be read again from here", position=str(place), error=error)


def _file(held: HeldXa) -> tuple[str, str]:
    return held.prepared.end.server_uuid, held.prepared.end.file


@dataclass(slots=True)
class _Again:
    """An `UndecidedXa` that keeps just the PREPAREs that are wanted."""

    prepared: PreparedTransactions
    wanted: dict[int, HeldXa]  # by the offset of their ends
    place: Position
    found: set[int] = field(default_factory=set)

    @property
    def done(self) -> bool:
        """Whether all are found."""
        return len(self.found) == len(self.wanted)

    def hold(
        self,
        xid: str,
        items: TransactionItems,
        *,
        end: Position,
        gtid: Gtid | None,
        timestamp: int,
        left_out: Iterable[TableName] = (),
    ) -> None:
        """A PREPARE."""
        held = self.wanted.get(end.offset) if end.file == self.place.file else None
        if held is not None and held.xid == xid and end.offset not in self.found:
            self.found.add(end.offset)
            self.prepared.read_again(held, items, frozenset(left_out))

    def commit(self, xid: str, **_: object) -> None:
        """An XA COMMIT: of what was decided before the checkpoint."""

    def rollback(self, xid: str, **_: object) -> None:
        """An XA ROLLBACK, likewise."""
