"""How far everything is committed: the low-water mark over transactions that finish in any order.

The dispatcher opens one ticket per transaction, in source order, and closes it with the number of changes it gave to
the lanes. The lanes count down as their batches commit, in any order, possibly before the ticket is closed. The mark is
at the end of the last transaction up to which every ticket is finished. It is the only source of L.

The transactions of a run have one record, `RunTickets`. A lane's job has a share of it: which transaction each of the
job's changes belongs to. A committed share is only put to the others; a counter for the whole run says when all of it
is finished. What single transactions have open is counted when somebody asks for the mark, about once a second.
`RunTicket`, the ticket of one of them, is made where one is meant: by an error, a conflict, a replay.
"""

from __future__ import annotations

import threading
from array import array
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

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

    def committed(self, count: int) -> None:
        """So many of its changes are committed."""
        self.open -= count
        self.begun = True


class RunTickets:
    """The transactions of a run, as one record; `ends`: for each, how many changes of the run end with it."""

    __slots__ = (
        "_begun", "_committed", "_counting", "_divided", "_ends", "_left", "_passed", "_singles", "first", "open",
        "run",
    )  # fmt: skip

    def __init__(self, run: TransactionRun, first: int, ends: Sequence[int]) -> None:
        self.run = run
        self.first = first
        """The number of its first transaction, in source order."""
        self.open = ends[-1]
        """Changes of all transactions, given and not committed."""
        self._ends = ends
        self._left: list[int] = []  # of each transaction, as counted last; empty: never counted
        self._committed = list[Sequence[int]]()  # since then: the transaction of each change
        self._passed = 0  # transactions that the mark has passed
        self._begun = set[int]()  # of these, a part may be committed although nobody has said so
        self._divided = set[int]()
        self._singles: dict[int, RunTicket] = {}
        self._counting = threading.Lock()

    @property
    def count(self) -> int:
        """How many transactions."""
        return len(self._ends)

    def ticket(self, at: int) -> RunTicket:
        """The ticket of one transaction, from 0; always the same one."""
        return self._singles.get(at) or self._singles.setdefault(at, RunTicket(self, at))

    def committed(self, transactions: Sequence[int]) -> None:
        """A change of each of these transactions is committed."""
        self.open -= len(transactions)
        self._committed.append(transactions)

    def left(self, at: int) -> int:
        """How many changes of a transaction are not committed."""
        return self._counted()[at]

    def passing(self) -> tuple[int, int]:
        """How many transactions the mark had passed before, and how many it passes now; the tracker's alone."""
        before, left = self._passed, self._counted() if self.open else ()
        if not self.open:
            self._passed = self.count
        while self._passed < len(left) and left[self._passed] == 0:
            self._passed += 1
        return before, self._passed

    def _counted(self) -> list[int]:
        with self._counting:  # whoever asks for the mark counts, and so does an end that tells what is undone
            left = self._left
            if not left:
                ends = self._ends
                left = self._left = [end - begin for begin, end in zip([0, *ends], ends, strict=False)]
            committed, self._committed = self._committed, []
            for transactions in committed:
                for at, count in Counter(transactions).items():
                    left[at] -= count
            return left

    def gave(self, at: int) -> int:
        """How many changes a transaction has."""
        return self._ends[at] - (self._ends[at - 1] if at else 0)

    def has(self, at: int, *, begun: bool = False) -> bool:
        """Whether a transaction is divided; with `begun`, whether a part of it may be committed."""
        return (at in self._begun or self.left(at) < self.gave(at)) if begun else at in self._divided

    def note(self, transactions: Iterable[int], *, begun: bool) -> None:
        """These transactions are begun, or divided."""
        (self._begun if begun else self._divided).update(transactions)


class RunTicket(Ticket):
    """The ticket of one transaction of a run."""

    __slots__ = ("_at", "_tickets")

    moment = 0
    closed = True
    brought = None

    def __init__(self, tickets: RunTickets, at: int) -> None:
        self._tickets, self._at = tickets, at
        self.number = tickets.first + at

    @property
    def begin(self) -> Position:  # type: ignore[override]  # nobody sets it
        """Where it begins."""
        return self._tickets.run.begin_of(self._at)

    @property
    def end(self) -> Position:  # type: ignore[override]  # nobody sets it
        """Where it ends."""
        return self._tickets.run.place(self._at)

    @property
    def timestamp(self) -> int:  # type: ignore[override]  # nobody sets it
        """When it ended, by the source's clock."""
        return self._tickets.run.timestamp(self._at)

    @property
    def open(self) -> int:  # type: ignore[override]  # nobody sets it
        """Changes given and not committed."""
        return self._tickets.left(self._at)

    @property
    def begun(self) -> bool:
        """Whether a part of it may be committed."""
        return self._tickets.has(self._at, begun=True)

    @begun.setter
    def begun(self, begun: bool) -> None:
        self._tickets.note((self._at,) if begun else (), begun=True)

    @property
    def divided(self) -> bool:
        """Whether changes of one row may have gone to the lanes at different times."""
        return self._tickets.has(self._at)

    @divided.setter
    def divided(self, divided: bool) -> None:
        self._tickets.note((self._at,) if divided else (), begun=False)

    def committed(self, count: int) -> None:
        """So many of its changes are committed."""
        self._tickets.committed([self._at] * count)


class RunShare:
    """Changes of a run in one lane's job: for each of them, the number of its transaction in the run."""

    __slots__ = ("of", "tickets")

    def __init__(self, tickets: RunTickets, of: array[int]) -> None:
        self.tickets = tickets
        self.of = of

    @property
    def first(self) -> RunTicket:
        """The ticket of the first change."""
        return self.tickets.ticket(self.of[0])

    @property
    def last(self) -> RunTicket:
        """The ticket of the last change."""
        return self.tickets.ticket(self.of[-1])

    @property
    def brought(self) -> None:
        """Tasks with an opposite have no runs."""
        return

    @property
    def end(self) -> Position:
        """Where the last of its transactions ends."""
        return self.tickets.run.place(self.of[-1])

    def committed(self, count: int) -> None:
        """All changes, of which there are so many, are committed."""
        assert count == len(self.of)
        self.tickets.committed(self.of)

    def may_be_committed(self) -> None:
        """Whether they are is unknown."""
        self.tickets.note(self.of, begun=True)

    def apart(self) -> Iterator[tuple[RunTicket, int]]:
        """The tickets of the transactions, each with the number of its changes."""
        for at, some in groupby(self.of):
            yield self.tickets.ticket(at), sum(1 for _ in some)


class Given(Protocol):
    """What counts changes as committed: the ticket of a transaction, or a share of a run."""

    def committed(self, count: int, /) -> None:
        """So many more are."""
        ...


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
        self._under_way: deque[Ticket | RunTickets] = deque()
        self._opened = 0
        self._passed = 0
        self._mark = CommittedPoint(start, 0)

    def open(self, end: Position, timestamp: int, begin: Position | None = None, moment: int = 0) -> Ticket:
        """Begin the next transaction in source order."""
        with self._lock:
            self._opened += 1
            ticket = Ticket(end, timestamp, begin, moment, self._opened)
            self._under_way.append(ticket)
        return ticket

    def open_run(self, run: TransactionRun, ends: Sequence[int]) -> RunTickets:
        """Begin the transactions of a run; the first `ends[n]` of its changes, whenever given, are up to number n."""
        with self._lock:
            tickets = RunTickets(run, self._opened + 1, ends)
            self._opened += tickets.count
            self._under_way.append(tickets)
            self._advance()
        return tickets

    def close(self, ticket: Ticket, given: int) -> None:
        """All changes of the transaction, `given` in number, are in the lanes."""
        with self._lock:
            ticket.open += given
            ticket.closed = True
            self._advance()

    def committed(self, counts: Iterable[tuple[Given, int]]) -> None:
        """One target transaction committed; `counts`: tickets, each repeatable, with their numbers of changes."""
        with self._lock:
            for ticket, count in counts:
                ticket.committed(count)
            self._advance()

    def _advance(self) -> None:
        """Go past what is finished; of a run that is not, `mark` finds the transactions that are."""
        under_way, mark = self._under_way, self._mark
        position, timestamp, moment, passed = mark.position, mark.timestamp, mark.moment, self._passed
        while under_way and (head := under_way[0]).open == 0:
            if isinstance(head, RunTickets):
                position, timestamp = self._pass(head, position, timestamp)
            elif head.closed:
                # Nearly each has a time.
                position, timestamp, moment = head.end, head.timestamp or timestamp, head.moment or moment
                self._passed += 1
            else:
                break
            under_way.popleft()
        if self._passed != passed:
            self._mark = CommittedPoint(position, timestamp, moment)

    def _pass(self, tickets: RunTickets, position: Position, timestamp: int) -> tuple[Position, int]:
        """Position and time after the transactions of a run that are finished by now."""
        before, now = tickets.passing()
        self._passed += now - before
        if now == before:
            return position, timestamp
        run = tickets.run
        stamps = (stamp for at in reversed(range(before, now)) if (stamp := run.timestamp(at)))
        return run.place(now - 1), next(stamps, timestamp)

    def _count(self) -> None:
        head = self._under_way[0] if self._under_way else None
        if isinstance(head, RunTickets):
            mark = self._mark
            position, timestamp = self._pass(head, mark.position, mark.timestamp)
            if position is not mark.position:
                self._mark = CommittedPoint(position, timestamp, mark.moment)

    @property
    def mark(self) -> CommittedPoint:
        """The low-water mark."""
        with self._lock:
            self._count()
            return self._mark

    @property
    def transactions(self) -> int:
        """How many the mark has passed."""
        with self._lock:
            self._count()
            return self._passed

    @property
    def under_way(self) -> int:
        """Transactions opened and not covered by the mark."""
        with self._lock:
            self._count()
            return self._opened - self._passed
