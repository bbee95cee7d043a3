"""Waiting for one's turn among the sources of a task (`merge-order: commit-time`; `dm.progress.merge_order`).

The dispatcher's thread asks before each transaction. As long as what it knows of the other sources lets it, nothing is
written, and their rows are read once a second: one may have joined, or begun again. Otherwise everything given to the
lanes is committed and stored, with the moment of the transaction in hand as the frontier. Then the other sources' rows
are read until it is this source's turn.

Who goes on without being asked to wait stores its frontier each second, with the checkpoint's timer; who has nothing to
do, at each watermark. So the row of a source that is alive changes, and one that does not change is silent.

A word between the subtasks of a task on one host: look at the rows again.

A source that has stored its row sends an empty datagram to each other one. One that waits for its turn looks at once
then, not after its pause. Nothing is right or wrong because of a hint: one that is lost costs the rest of the pause.
What is true is in the rows. The names of the sockets are no files (Linux's abstract names), so nothing is left behind.
"""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol

import structlog

from dm import faults
from dm.clock import Clock
from dm.config.syncer import CommitTimeOrder
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.position import Position
from dm.progress.merge_order import NEVER, SourceProgress, holders, read_order, write_left, write_order
from dm.progress.tables import SubtaskKey
from dm.sourcelog.stream.source_monitor import SourceEnd
from dm.sourcelog.stream.transaction import SourceTransaction
from dm.sourcelog.stream.watermark import Watermark
from dm.syncer.apply.completion import CommittedPoint
from dm.syncer.apply.progress_writer import ProgressWriter
from dm.unit import JSON

FIRST_PAUSE: Final = 0.002  # seconds between two looks at the other sources' rows
LONGEST_PAUSE: Final = 0.1
LOOK_SECONDS: Final = 1.0  # how old the knowledge of the others may be, of whom one may join or begin again
SHOWN_SECONDS: Final = 1.0  # a wait that a person is told of
SKEW_SECONDS: Final = 0.1  # from where on unequal clocks are said


class Publishing(Protocol):
    """What stores this source's row with its checkpoint, and reads the others'."""

    def read(self) -> Mapping[str, SourceProgress]:
        """The rows of all sources; raises DMError."""
        ...

    def leave(self, sources: Sequence[str]) -> None:
        """Store that nobody waits for these any more; raises DMError."""
        ...

    def publish(self, made: Callable[[CommittedPoint], SourceProgress]) -> SourceProgress:
        """Store the checkpoint at the mark, and the row that is made of it; returns that. Raises DMError."""
        ...


class Hint(Protocol):
    """A word between sources that saves a pause (`dm.syncer.order.merge_turn`)."""

    def tell(self) -> None:
        """Have the others look at the rows."""
        ...

    def wait(self, over: threading.Event, seconds: float) -> bool:
        """Wait for a word, at most so long; whether the run is over."""
        ...

    def close(self) -> None:
        """Nobody waits any more."""
        ...


@dataclass(frozen=True, slots=True)
class OwnSide:
    """What the turn needs of its own run."""

    source: str
    drain: Callable[[], None]  # everything given to the lanes is committed; raises Stopped
    progress: Publishing
    watermark: Watermark
    applied: Callable[[], Position | None]  # the end of what is committed, if that is all that was given
    working: Callable[[], bool]  # it has a transaction in hand
    read: Callable[[], int]  # bytes of binlog
    hint: Hint


class MergeTurn:
    """The turn of one source; `take` and `rest` belong to the dispatcher's thread, `beat` to the checkpoint's timer."""

    def __init__(self, order: CommitTimeOrder, own: OwnSide, clock: Clock, ending: threading.Event) -> None:
        self._order = order
        self._own = own
        self._others = tuple(source for source in order.sources if source != own.source)
        self._clock = clock
        self._ending = ending
        self._publishing = threading.Lock()
        self._row = SourceProgress(0)
        self._floor = 0  # no transaction counts as earlier
        self._known: Mapping[str, SourceProgress] = {}
        self._read_at = 0.0
        self._changed_at: dict[str, float] = {}
        self._without: dict[str, SourceProgress] = {}  # silent sources, as they were
        self._used: SourceEnd | None = None  # the watermark that the row has
        self._waiting: tuple[tuple[str, ...], float] | None = None  # for whom, and since when
        self._log = structlog.get_logger()
        self._skew_said = False
        self._read_bytes = 0
        self.late = 0
        self.turns = 0

    # -- The dispatcher's thread

    def begin(self) -> None:
        """Find what is stored, and tell the others that this source is there; raises DMError."""
        self._look()
        gone = sorted(source for source in self._known if source not in self._order.sources)
        if gone:
            self._own.progress.leave(gone)
            self._look()
        row = self._known.get(self._own.source) or SourceProgress(0)
        self._floor = row.done if row.frontier == NEVER else row.frontier
        self._row = replace(row, frontier=self._floor)
        self._publish(0)
        faults.hit("order.joined")

    def take(self, transaction: SourceTransaction) -> bool:
        """Wait until it is this transaction's turn; False if the run ends meanwhile. Raises DMError."""
        if not transaction.moment:
            return True  # it only moves the position
        own = transaction.moment
        moment = transaction.moment = self._floor = max(own, self._floor)
        if transaction.empty:
            return True
        if own < moment or self._clock.monotonic() - self._read_at >= LOOK_SECONDS:
            self._look()
        if self._holders(moment) and not self._wait(moment):
            return False
        if any(row.done > own for source, row in self._known.items() if source in self._others):
            self.late += 1
        return True

    def rest(self) -> None:
        """There is no transaction for now: the source's own clock tells how far it is; raises DMError."""
        if self._without or not self._skew_said:
            self._look()
        found, applied = self._own.watermark.latest, self._own.applied()
        if found is None or applied is None:
            return
        end, moment = found
        if end is self._used or not end.is_covered_by(applied):
            return
        self._used = end
        self._floor = max(self._floor, moment)
        self._publish(self._floor)

    def finished(self) -> None:
        """The run is where it was to end, and all is stored: the others need not wait for it any more."""
        self._publish(NEVER)

    def _holders(self, moment: int) -> tuple[str, ...]:
        found = holders(self._own.source, moment, self._others, self._known)
        return tuple(source for source in found if source not in self._without)

    def _wait(self, moment: int) -> bool:
        self._own.drain()
        faults.hit("order.drained")
        self._publish(moment)
        faults.hit("order.published")
        self.turns += 1
        since = self._clock.monotonic()
        pause = FIRST_PAUSE
        try:
            while True:
                self._look()
                held_by = self._holders(moment)
                if not held_by:
                    return True
                self._waiting = held_by, since
                self._bear(held_by)
                if self._own.hint.wait(self._ending, pause):
                    return False
                pause = min(pause * 1.5, LONGEST_PAUSE)
        finally:
            self._waiting = None

    def _look(self) -> None:
        """Read all rows."""
        now = self._clock.monotonic()
        known = self._own.progress.read()
        for source, row in known.items():
            if self._known.get(source) != row:
                self._changed_at[source] = now
                if self._without.pop(source, None) is not None:
                    self._log.info("a silent source is back", source=source)
        self._known, self._read_at = known, now
        self._others = tuple(sorted({*self._order.sources, *known} - {self._own.source}))
        self._say_skew()

    def _bear(self, held_by: tuple[str, ...]) -> None:
        """Go on without sources that have been silent for too long, or raise DMError, as the task file says.

        A source that has never begun is waited for: its load may still be under way.
        """
        now = self._clock.monotonic()
        silent = [
            source for source in held_by if source in self._known and now - self._changed_at[source] >= self._order.hold
        ]
        if not silent:
            return
        who, seconds = ", ".join(silent), round(self._order.hold)
        if self._order.silent == "pause":
            raise DMError("merge-order-silent", sources=who, seconds=seconds, source=self._own.source)
        for source in silent:
            self._without[source] = self._known[source]
        self._log.warning("goes on without silent sources; what they bring later is late", sources=who, after=seconds)

    # -- Any thread

    def beat(self) -> None:
        """Once a second: store how far the source is, if it has something to do."""
        read, self._read_bytes = self._read_bytes, self._own.read()
        if self._own.working() or read != self._read_bytes:
            self._publish(0)

    def _publish(self, frontier: int) -> None:
        with self._publishing:
            self._row = self._own.progress.publish(lambda mark: self._raised(mark, frontier))
        self._own.hint.tell()

    def close(self) -> None:
        """The run is over."""
        self._own.hint.close()

    def _raised(self, mark: CommittedPoint, frontier: int) -> SourceProgress:
        row = self._row
        highest = max(row.frontier, frontier, mark.moment)
        return SourceProgress(highest, max(row.done, mark.moment), row.beat + 1, self._own.watermark.skew)

    # -- For a person

    @property
    def waits(self) -> str:
        """What the run waits for; empty if it does not, or for a moment only."""
        waiting = self._waiting
        if waiting is None:
            return ""
        held_by, since = waiting
        seconds = self._clock.monotonic() - since
        if seconds < SHOWN_SECONDS:
            return ""
        known = self._known
        texts = [
            f"{source}, which has not begun to sync"
            if source not in known
            else f"{source}, which was heard of {self._clock.monotonic() - self._changed_at[source]:.0f} s ago"
            for source in held_by
        ]
        return f"for its turn since {seconds:.0f} s (merge-order): {'; '.join(texts)}"

    def report(self) -> dict[str, JSON]:
        """The field `mergeOrder` of the status."""
        waiting, known = self._waiting, dict(self._known)
        return {
            "waitsFor": list[JSON](waiting[0]) if waiting else [],
            "waitsSeconds": round(self._clock.monotonic() - waiting[1], 1) if waiting else 0,
            "withoutSources": list[JSON](sorted(self._without)),
            "lateTransactions": self.late,
            "turns": self.turns,
            "clockAheadSeconds": {
                source: round((own - row.skew) / 1e6, 3)
                for source, row in known.items()
                if source != self._own.source and row.skew is not None and (own := self._own.watermark.skew) is not None
            },
        }

    def _say_skew(self) -> None:
        skews = {source: row.skew for source, row in self._known.items() if row.skew is not None}
        if self._skew_said or len(skews) < len(self._others) + 1:
            return
        self._skew_said = True
        apart = (max(skews.values()) - min(skews.values())) / 1e6
        say = self._log.warning if apart >= SKEW_SECONDS else self._log.info
        say("clocks of the sources, seconds apart", apart=round(apart, 3))


_DATAGRAM: Final = 16


def _name(place: Path, source: str) -> str:
    return "\0dm-order-" + sha256(f"{place.absolute()}\0{source}".encode()).hexdigest()[:32]


class OrderHint:
    """The ear of one source, and the names of the others'; `place` is common to all of them."""

    def __init__(self, place: Path, source: str, others: Sequence[str]) -> None:
        self._others = [_name(place, other) for other in others]
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        with suppress(OSError):  # an older run still has the name: this one waits as long as its pauses are
            self._socket.bind(_name(place, source))

    def tell(self) -> None:
        """Have the others look."""
        for other in self._others:
            with suppress(OSError):  # nobody is there, or has more hints than it has read
                self._socket.sendto(b"", other)

    def wait(self, over: threading.Event, seconds: float) -> bool:
        """Wait for a hint, at most so long; whether the run is over."""
        if not over.is_set() and select.select([self._socket], [], [], seconds)[0]:
            with suppress(BlockingIOError):
                while True:
                    self._socket.recv(_DATAGRAM)
        return over.is_set()

    def close(self) -> None:
        """Give the name back."""
        self._socket.close()


# The rows of a merge order, read and written in the control lane's session.


class OrderRows:
    """What `MergeTurn` publishes with."""

    def __init__(self, progress: ProgressWriter, key: SubtaskKey) -> None:
        self._progress = progress
        self._key = key

    def read(self) -> Mapping[str, SourceProgress]:
        """The rows of all sources; raises DMError."""
        return self._progress.ask(lambda connection: read_order(connection, self._key))

    def leave(self, sources: Sequence[str]) -> None:
        """Store that nobody waits for these any more; raises DMError."""
        self._progress.beside(lambda connection: write_left(connection, self._key, sources))

    def publish(self, made: Callable[[CommittedPoint], SourceProgress]) -> SourceProgress:
        """Store the checkpoint, and the row that is made of its mark, in one transaction; raises DMError."""
        rows: list[SourceProgress] = []

        def store(connection: TargetConnection, mark: CommittedPoint) -> None:
            rows.append(made(mark))
            write_order(connection, self._key, rows[-1])

        self._progress.publish(store)
        return rows[-1]
