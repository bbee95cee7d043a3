"""The order of several sources of one task (`merge-order: commit-time`): waiting for this source's turn.

Each source's subtask is a process with a checkpoint of its own. They share one row per source at the target:

    frontier    microseconds: every transaction that the source still has to apply was committed at this moment or later
    done        the moment of the last transaction that is committed at the target
    beat        grows while the source is alive, even if its frontier stays
    skew        the source's clock minus ours, in microseconds

Transactions are ordered by (moment, source id, place in the source's binlog). A source's moments never fall: a
transaction with a moment below the frontier counts as committed at the frontier.

O1  A transaction of source A at moment t is given to the lanes only when the frontier of each other source is above t,
    or is t and A's id is the lower one. So everything before it is committed, and nothing before it can still come.
O2  A frontier is stored with a checkpoint L, in one transaction: L covers everything below the frontier. So a crash
    takes nothing back that others have relied on. A replay repeats only what is after L, which no other source has
    passed.
O3  A frontier falls only from NEVER, when a source begins again that had ended or left. Any other frontier can be used
    as it was last read. The rows are read again each second all the same, to see sources that begin again or join.
O4  A source that waits has stored the moment of the transaction in hand as its frontier. So the source with the lowest
    moment can go on, and no two sources wait for each other.
O5  A source without transactions raises its frontier by its clock: the end of its binlog was read after the clock, and
    L covers everything up to that end (`dm.sourcelog.stream.source_monitor`).

O1 needs no claim of the control lane on other sources' rows: a frozen run of A that wakes up can't commit (I1 of
`protocol.py`), and a new run repeats what is after its own L. A DDL statement is a transaction like others: what is
before it in any source is committed first, and what is after it waits until L has passed it.

The sources are those of the task file, and all that have a row: a new source is waited for as soon as its first row is
seen. A run whose file lacks a source sets that source's frontier to NEVER, so nobody waits for it. If a source is
silent for too long, the others may be told to go on without it. Then O1 does not hold for its later transactions, and
these are counted: a transaction is late if another source had committed a later one before it.

The dispatcher asks before each transaction. While the known rows allow it to go on, it writes nothing, and reads the
rows once a second. Otherwise it drains the lanes and stores a checkpoint with the moment of the transaction in hand as
the frontier. Then it reads the rows until it is this source's turn. A source that need not wait stores its frontier
each second, with the checkpoint's timer; an idle one, at each watermark. So a row that does not change shows a silent
source.
"""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol

import structlog

from dm import faults
from dm.clock import Clock
from dm.config.units import CommitTimeOrder
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.position import Position
from dm.progress.tables import CHARSET, SubtaskKey, reads
from dm.sourcelog.stream.source_monitor import SourceEnd, Watermark
from dm.sourcelog.stream.transaction import SourceTransaction
from dm.syncer.apply.completion import CommittedPoint
from dm.syncer.apply.progress_writer import ProgressWriter
from dm.unit import JSON

FIRST_PAUSE: Final = 0.002  # seconds between two looks at the other sources' rows
LONGEST_PAUSE: Final = 0.1
LOOK_SECONDS: Final = 1.0  # how old the known rows may be: a source may join or begin again
SHOWN_SECONDS: Final = 1.0  # shorter waits are not reported
SKEW_SECONDS: Final = 0.1  # clocks further apart are logged as a warning


class Publishing(Protocol):
    """Stores this source's row with its checkpoint, and reads all rows."""

    def read(self) -> Mapping[str, SourceProgress]:
        """The rows of all sources; raises DMError."""
        ...

    def leave(self, sources: Sequence[str]) -> None:
        """Store that nobody waits for these sources any more; raises DMError."""
        ...

    def publish(self, made: Callable[[CommittedPoint], SourceProgress]) -> SourceProgress:
        """Store the checkpoint at the mark, and the row made from it; returns the row. Raises DMError."""
        ...


class Hint(Protocol):
    """Tells the other sources on this host that a row has changed, which saves them a pause."""

    def tell(self) -> None:
        """Have the others look at the rows."""
        ...

    def wait(self, over: threading.Event, seconds: float) -> bool:
        """Wait for a hint, at most this long; whether the run is over."""
        ...

    def close(self) -> None:
        """Free what it holds."""
        ...


@dataclass(frozen=True, slots=True)
class OwnSide:
    """What the turn needs of its own run."""

    source: str
    drain: Callable[[], None]  # waits until the lanes have committed everything; raises Stopped
    progress: Publishing
    watermark: Watermark
    applied: Callable[[], Position | None]  # the committed position, if the lanes have nothing left
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
        self._waiting: tuple[tuple[str, ...], float] | None = None  # for which sources, and since when
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
        """No transaction for now: the source's clock gives its frontier; raises DMError."""
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
        """The run has reached its end, and all is stored: the others need not wait for this source any more."""
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
        sources, seconds = ", ".join(silent), round(self._order.hold)
        if self._order.silent == "pause":
            raise DMError("merge-order-silent", sources=sources, seconds=seconds, source=self._own.source)
        for source in silent:
            self._without[source] = self._known[source]
        self._log.warning(
            "goes on without silent sources; what they bring later is late", sources=sources, after=seconds
        )

    # -- Any thread

    def beat(self) -> None:
        """Once a second: store the frontier, unless the source is idle."""
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
    """Hints between the subtasks of a task on one host: read the rows again.

    After storing its row, a source sends an empty datagram to each other source, which ends the pause of one that
    waits. A lost hint only costs the rest of the pause: the rows alone decide. The sockets have abstract names (Linux),
    so no files are left behind. `place` is the same for all sources of the task.
    """

    def __init__(self, place: Path, source: str, others: Sequence[str]) -> None:
        self._others = [_name(place, other) for other in others]
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        with suppress(OSError):  # an older run still has the name; this one gets no hints
            self._socket.bind(_name(place, source))

    def tell(self) -> None:
        """Wake the others."""
        for other in self._others:
            with suppress(OSError):  # no such run, or its queue of hints is full
                self._socket.sendto(b"", other)

    def wait(self, over: threading.Event, seconds: float) -> bool:
        """Wait for a hint, at most so long; whether the run is over."""
        if not over.is_set() and select.select([self._socket], [], [], seconds)[0]:
            with suppress(BlockingIOError):
                while True:
                    self._socket.recv(_DATAGRAM)
        return over.is_set()

    def close(self) -> None:
        """Free the socket's name."""
        self._socket.close()


class OrderRows:
    """The rows, read and written in the control lane's session."""

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
        """Store the checkpoint, and the row made from its mark, in one transaction; raises DMError."""
        rows: list[SourceProgress] = []

        def store(connection: TargetConnection, mark: CommittedPoint) -> None:
            rows.append(made(mark))
            write_order(connection, self._key, rows[-1])

        self._progress.publish(store)
        return rows[-1]


NEVER: Final = 1 << 62  # the frontier of a source that has ended or left

_TABLE = """CREATE TABLE IF NOT EXISTS {table} (
    id VARCHAR(32) NOT NULL,
    frontier BIGINT NOT NULL,
    done BIGINT NOT NULL,
    beat BIGINT NOT NULL,
    skew BIGINT NULL,
    PRIMARY KEY (id)
) ENGINE=InnoDB {charset}"""


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """One source's row, as in the module's essay."""

    frontier: int
    done: int = 0
    beat: int = 0
    skew: int | None = None


def create_order_table(connection: TargetConnection, key: SubtaskKey) -> None:
    """Create the table; safe to repeat and to race."""
    connection.execute(_TABLE.format(table=key.order.sql, charset=CHARSET))


@reads(lambda key: key.order)
def read_order(connection: TargetConnection, key: SubtaskKey) -> dict[str, SourceProgress]:
    """All rows, by source."""
    rows = connection.query(f"SELECT id, frontier, done, beat, skew FROM {key.order.sql}")
    return {
        str(row[0]): SourceProgress(int(row[1]), int(row[2]), int(row[3]), None if row[4] is None else int(row[4]))
        for row in rows
    }


def write_order(connection: TargetConnection, key: SubtaskKey, progress: SourceProgress) -> None:
    """Store the own row, inside an open transaction under the control lane's claim."""
    connection.execute(
        f"REPLACE INTO {key.order.sql} (id, frontier, done, beat, skew) VALUES (%s, %s, %s, %s, %s)",
        (key.source_id, progress.frontier, progress.done, progress.beat, progress.skew),
    )


def write_left(connection: TargetConnection, key: SubtaskKey, sources: Iterable[str]) -> None:
    """Store that these sources have left the task, inside an open transaction under the claim."""
    for source in sources:
        connection.execute(f"UPDATE {key.order.sql} SET frontier = %s WHERE id = %s", (NEVER, source))


def holders(source: str, moment: int, others: Iterable[str], known: Mapping[str, SourceProgress]) -> tuple[str, ...]:
    """The other sources that may still have a transaction before this moment of this source (O1)."""
    found = []
    for other in others:
        progress = known.get(other)
        if progress is None or progress.frontier < moment or (progress.frontier == moment and other < source):
            found.append(other)
    return tuple(found)
