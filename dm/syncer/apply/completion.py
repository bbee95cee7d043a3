"""How far everything is committed: the low-water mark over transactions that finish in any order.

The dispatcher opens one ticket per transaction, in source order, and closes it with the number of changes it gave to
the lanes. The lanes count down as their batches commit, in any order, possibly before the ticket is closed. The mark is
at the end of the last transaction up to which every ticket is finished. It is the only source of L.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dm.position import Position
from dm.sourcelog.stream.transaction import TransactionRun


@dataclass(slots=True)
class Ticket:
    """One open transaction."""

    end: Position
    timestamp: int
    begin: Position | None = None
    moment: int = 0  # its place in the order of several sources (`dm.syncer.merge_order`)
    number: int = 0  # in source order
    open: int = 0  # changes given minus changes committed; may be negative while not closed
    closed: bool = False
    begun: bool = False  # a part of it may be committed
    brought: Position | None = None  # up to where the source had the target's writes
    divided: bool = False  # changes of one row may have gone to the lanes at different times


class RunTicket(Ticket):
    """A transaction of a run: its places are worked out where they are asked for, and what it gives is known before."""

    __slots__ = ("_at", "_run")

    moment = 0
    closed = True
    brought = None

    def __init__(self, run: TransactionRun, at: int, number: int, given: int) -> None:
        self._run, self._at = run, at
        self.number = number
        self.open = given
        self.begun = self.divided = False

    @property
    def begin(self) -> Position:  # type: ignore[override]  # nobody sets it
        """Where it begins."""
        return self._run.begin_of(self._at)

    @property
    def end(self) -> Position:  # type: ignore[override]  # nobody sets it
        """Where it ends."""
        return self._run.place(self._at)

    @property
    def timestamp(self) -> int:  # type: ignore[override]  # nobody sets it
        """When it ended, by the source's clock."""
        return self._run.timestamp(self._at)


@dataclass(frozen=True, slots=True)
class CommittedPoint:
    """Everything up to `position` is committed; `timestamp` is the source's time of its last transaction."""

    position: Position
    timestamp: int
    moment: int = 0  # of the last transaction that has one; moments never fall


class CompletionTracker:
    """Tickets in source order, and the mark after the finished ones."""

    def __init__(self, start: Position) -> None:
        self._lock = threading.Lock()
        self._under_way: deque[Ticket] = deque()
        self._opened = 0
        self._mark = CommittedPoint(start, 0)
        self.transactions = 0

    def open(self, end: Position, timestamp: int, begin: Position | None = None, moment: int = 0) -> Ticket:
        """Begin the next transaction in source order."""
        with self._lock:
            self._opened += 1
            ticket = Ticket(end, timestamp, begin, moment, self._opened)
            self._under_way.append(ticket)
        return ticket

    def open_run(self, run: TransactionRun, given: Sequence[int]) -> list[RunTicket]:
        """Begin the transactions of a run; `given` to the lanes are so many changes of each, whenever that happens."""
        with self._lock:
            first = self._opened + 1
            tickets = [RunTicket(run, at, first + at, count) for at, count in enumerate(given)]
            self._opened += len(tickets)
            self._under_way += tickets
            if not tickets[0].open:
                self._advance()
        return tickets

    def close(self, ticket: Ticket, given: int) -> None:
        """All changes of the transaction, `given` in number, are in the lanes."""
        with self._lock:
            ticket.open += given
            ticket.closed = True
            self._advance()

    def committed(self, counts: Iterable[tuple[Ticket, int]]) -> None:
        """One target transaction committed; `counts`: tickets, each repeatable, with their numbers of changes."""
        with self._lock:
            for ticket, count in counts:
                ticket.open -= count
                ticket.begun = True
            self._advance()

    def _advance(self) -> None:
        under_way, found = self._under_way, list[Ticket]()
        while under_way and under_way[0].open == 0 and under_way[0].closed:
            found.append(under_way.popleft())
        if not found:
            return
        self.transactions += len(found)
        # Those of the last one that has them; nearly each has.
        timestamp = next((stamp for ticket in reversed(found) if (stamp := ticket.timestamp)), self._mark.timestamp)
        moment = next((moment for ticket in reversed(found) if (moment := ticket.moment)), self._mark.moment)
        self._mark = CommittedPoint(found[-1].end, timestamp, moment)

    @property
    def mark(self) -> CommittedPoint:
        """The low-water mark."""
        return self._mark

    @property
    def under_way(self) -> int:
        """Transactions opened and not covered by the mark."""
        return len(self._under_way)
