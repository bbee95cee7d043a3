"""What the source has that we lack: its binlog end and its clock, and so whether we are synced and how far behind.

`synced` answers only with an end that was read after the question. Lag is the source's clock minus the time of the last
applied transaction. It is 0 only if everything up to a just-read end is applied, never for lack of knowledge: while the
source does not answer, the lag is unknown. It may have rested since, or not.

If the end is before a position that was already applied when the question was sent, the source's binlog was reset. Such
a server sends nothing and reports nothing until it has written as much again.

Until when a source has surely nothing more to say: what raises the frontier of one that is idle.

The clock of the source is read first, then the end of its binlog. A transaction that is not before that end is written
later, so its commit time is later than the clock. Two things are taken off the clock. A clock may be set back by a
little. And MariaDB's commit times are whole seconds: those of the time at which the last statement began.

That statement may have begun long before its transaction is written. Then its time lies below the frontier. It counts
as committed at the frontier, which is between its own time and the time when it was really committed.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from dm.clock import Clock
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.dialect import dialect
from dm.position import Position
from dm.rules.block_allow import ListEntry
from dm.session.answers import reads_answers, understood
from dm.sourcelog.upstream.connection import Connection, fetch
from dm.sourcelog.upstream.facts import (
    ServerFacts,
    binlog_end,
    binlog_files,
    binlog_kept_bytes,
    binlog_kept_seconds,
    list_tables,
)
from dm.sourcelog.upstream.lineage import Opened, SourceAddresses
from dm.unit import JSON

INTERVAL_SECONDS = 2.0
FRESH_SECONDS = 3 * INTERVAL_SECONDS  # an older end proves nothing about now

BEHIND = 2  # readings that prove it: between two files a server may name the one that it has just closed

_NOWHERE: Final = Position("", "")

Look = Callable[[Connection, ServerFacts, float], None]  # asks more at each reading, made at the source's time


@dataclass(frozen=True, slots=True)
class SourceEnd:
    """The end of the source's binlog, and the source's clock at that moment."""

    position: Position
    source_time: float
    read_at: float  # our monotonic clock, before the question was sent
    before_applied: bool = False  # what was applied before the question is beyond it

    def is_covered_by(self, applied: Position) -> bool:
        """Whether everything up to here is applied; raises DMError when that can't be known."""
        end = self.position
        # Across a switch of servers without GTIDs positions can't be compared, so nothing is claimed.
        if self.before_applied or (applied.server_uuid != end.server_uuid and not applied.gtid_set):
            return False
        if applied.covers(end):
            return True
        # After a switch to MariaDB, our position may be after the last transaction, with events outside transactions
        # after it. Texts are compared: sets are equal whichever server assigned a number, and strict mode assigns each
        # only once.
        return (
            dialect(end.flavor).gtids_have_domains and bool(end.gtid_set) and str(applied.gtid_set) == str(end.gtid_set)
        )


class SourceMonitor:
    """Reads the source's end every two seconds, and at once when asked."""

    def __init__(
        self,
        addresses: SourceAddresses,
        clock: Clock,
        look: Look = lambda *_: None,
        *,
        applied: Callable[[], Position] = lambda: _NOWHERE,
        reset: Callable[[DMError], None] = lambda _: None,
        interval: float = INTERVAL_SECONDS,
    ) -> None:
        self._interval = interval
        self._addresses = addresses
        self._clock = clock
        self._look = look
        self._applied = applied
        self._reset = reset
        self._readings_before = 0  # consecutive readings
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._changed = threading.Condition()
        self._end: SourceEnd | None = None
        self._tried_at = 0.0
        self._asked_at = 0.0
        self._answered_at = 0.0
        self.trouble: DMError | None = None
        self._thread = threading.Thread(target=self._run, name="source-monitor", daemon=True)

    @property
    def address(self) -> str:
        """The address of the source that is in use."""
        return self._addresses.current.address

    @property
    def on_standby(self) -> bool:
        """Whether that is the standby."""
        return self._addresses.on_standby

    @property
    def end(self) -> SourceEnd | None:
        """The last end read; None before the first."""
        return self._end

    @property
    def answered(self) -> bool:
        """Whether the last end was read after the last question, and recently."""
        end = self._end
        return end is not None and end.read_at >= self._asked_at and self._fresh

    @property
    def _fresh(self) -> bool:
        return self._clock.monotonic() - self._answered_at <= FRESH_SECONDS

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()

    def refresh(self, timeout: float) -> None:
        """Return when a reading begun after this call is over, or after the timeout."""
        asked = self._asked_at = self._clock.monotonic()
        self._wake.set()
        with self._changed:
            self._changed.wait_for(lambda: self._tried_at >= asked or self._stop.is_set(), timeout)

    def _run(self) -> None:
        opened: Opened | None = None
        while not self._stop.is_set():
            self._wake.clear()
            began = self._clock.monotonic()
            try:
                if opened is not None and not self._addresses.is_read(opened[1]):
                    opened[0].close()
                    opened = None
                if opened is None:
                    opened = self._addresses.open()  # may be another server than before
                connection, facts = opened
                applied = self._applied()
                position = binlog_end(connection, facts)
                with understood():
                    source_time = float(str(fetch(connection, "SELECT UNIX_TIMESTAMP(NOW(6))")[0][0]))
                self._end = SourceEnd(position, source_time, began, self._compare(applied, position))
                self._answered_at = self._clock.monotonic()
                self._look(connection, facts, source_time)
                self.trouble = None
            except DMError as error:
                # Not the unit's end: the reader meets the same trouble and reports it. The status shows it meanwhile.
                self.trouble = error
                if opened is not None:
                    opened[0].close()
                    opened = None
            with self._changed:
                self._tried_at = began
                self._changed.notify_all()
            self._clock.wait(self._wake, self._interval)
        if opened is not None:
            opened[0].close()

    def _compare(self, applied: Position, end: Position) -> bool:
        """Whether the end is before what was applied already."""
        if not applied.same_files(end) or applied.order <= end.order:
            self._readings_before = 0
            return False
        self._readings_before += 1
        if self._readings_before == BEHIND:
            what = f"its binlog ends at {end}, and {applied} was applied before"
            self._reset(DMError("source-reset", what=what, position=applied))
        return True

    def lag(self, applied: Position, timestamp: int, synced: Callable[[Position], bool]) -> float | None:
        """Seconds after the source; None until its end is known, and while it does not answer."""
        end = self._end
        if end is None or self.trouble is not None or not self._fresh:
            return None
        if synced(applied):
            return 0.0
        if not timestamp:
            return None
        return max(0.0, end.source_time + self._clock.monotonic() - end.read_at - timestamp)


ASK_SECONDS: Final = 60.0
LOOKS_OF_GROWTH: Final = 61  # an hour


class ListWatch:
    """Called at each check of the source; its report is part of the unit's status.

    A schema or table may come later, and a misspelt name looks like one that does. `check-task` warns once; a person
    who looks at the task later finds it in the status. While an entry is left, the source is asked once a minute.
    """

    def __init__(self, entries: Iterable[tuple[str, ListEntry]], clock: Clock, *, case_sensitive: bool) -> None:
        self._left = tuple(entries)
        self._clock = clock
        self._case_sensitive = case_sensitive
        self._asked_at: float | None = None

    @property
    def report(self) -> list[str]:
        """The entries left, each with its place in the list; none before the first look."""
        return [] if self._asked_at is None else [f"{place}: {entry}" for place, entry in self._left]

    @reads_answers
    def look(self, connection: Connection, facts: ServerFacts, source_time: float) -> None:
        """Ask for what is not there yet, now and then; raises DMError."""
        now = self._clock.monotonic()
        if not self._left or (self._asked_at is not None and now - self._asked_at < ASK_SECONDS):
            return
        schemas = [str(row[0]) for row in fetch(connection, "SELECT schema_name FROM information_schema.schemata")]
        of_tables = any(entry.table for _, entry in self._left)
        self.seen(schemas, list_tables(connection) if of_tables else ())
        self._asked_at = now

    def seen(self, schemas: Iterable[str], tables: Iterable[TableName]) -> None:
        """The source has these."""
        schemas, tables = tuple(schemas), tuple(tables)
        self._left = tuple(
            (place, entry)
            for place, entry in self._left
            if not entry.there(schemas, tables, case_sensitive=self._case_sensitive)
        )


class RetentionWatch:
    """How long the source keeps its binlog: a task that is further behind loses its place.

    A server purges a file some time after its last change, and a file's last change is not before any event in it. So
    what was written `age` ago may be gone. A MariaDB may also have a limit for the size of all files together. How fast
    they grow tells when that is reached; it is known after the second look. Purging by hand is not foreseen here.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked_at: float | None = None
        self._files: tuple[tuple[str, int], ...] = ()
        self._written = deque[tuple[float, int]](maxlen=LOOKS_OF_GROWTH)  # when, and bytes since the first look
        self.age: int | None = None
        """Seconds; None until it is known, 0 where the server purges nothing by age."""
        self.most = 0
        """Bytes of all files; 0 where they may be any size."""

    def look(self, connection: Connection) -> None:
        """Ask now and then, since it may be set while the server runs; raises DMError."""
        now = self._clock.monotonic()
        if self._asked_at is None or now - self._asked_at >= ASK_SECONDS:
            self.age, self.most = binlog_kept_seconds(connection), binlog_kept_bytes(connection)
            self.seen(binlog_files(connection))
            self._asked_at = now

    def seen(self, files: tuple[tuple[str, int], ...]) -> None:
        """The source has these files with these sizes, the oldest first."""
        names, before, sizes = [name for name, _ in files], self._files, dict(files)
        if not before or sizes.get(before[-1][0], -1) < before[-1][1]:  # the first look, or another history
            self._written.clear()
            self._written.append((self._clock.monotonic(), 0))
        else:
            last, size = before[-1]
            grown = sum(each for _, each in files[names.index(last) :]) - size
            self._written.append((self._clock.monotonic(), self._written[-1][1] + grown))
        self._files = files

    @property
    def oldest(self) -> str:
        """The oldest file that the source has; empty until it is known."""
        return self._files[0][0] if self._files else ""

    @property
    def rate(self) -> float | None:
        """Bytes per second that the source writes, over the last hour at most; None until it is known."""
        if len(self._written) < 2:
            return None
        (first, before), (last, after) = self._written[0], self._written[-1]
        return (after - before) / (last - first)

    @property
    def seconds(self) -> int | None:
        """After how long something may go, whatever purges it; None until it is known, 0 where nothing does."""
        if self.age is None:
            return None
        by_size = round(self.most / self.rate) if self.most and self.rate else 0
        return min(filter(None, (self.age, by_size)), default=0)

    def purged_at(self, lag: float | None, file: str = "") -> float | None:
        """When the binlog may go that is `lag` seconds old and in this file, by our clock; None where nobody knows."""
        now = self._clock.time()
        found = [now + self.age - lag] if self.age and lag is not None else []
        names = [name for name, _ in self._files]
        if self.most and self.rate and file in names:
            needed = sum(size for _, size in self._files[names.index(file) :])
            found.append(now + max(0.0, self.most - needed) / self.rate)
        return min(found, default=None)

    def report(self, lag: float | None, file: str) -> dict[str, JSON]:
        """Fields of a status."""
        rate = self.rate
        return {
            "binlogKeptSeconds": self.seconds,
            "binlogPurgedAt": self.purged_at(lag, file),
            "binlogOldest": self.oldest,
            "binlogBytesPerHour": None if rate is None else round(rate * 3600),
            "binlogKeptBytes": self.most or None,
        }


WATERMARK_SECONDS: Final = 0.5  # between two looks at the source
FINE_MARGIN: Final = 200_000  # microseconds
COARSE_MARGIN: Final = 1_000_000  # where times are whole seconds


def has_fine_times(facts: ServerFacts) -> bool:
    """Whether the source's binlog has commit times in microseconds."""
    return facts.dialect.has_commit_times


class Watermark:
    """Written by the source monitor's thread, read by the dispatcher's."""

    def __init__(self, clock: Clock, told: Callable[[], None]) -> None:
        self._clock = clock
        self._told = told
        self._latest: tuple[SourceEnd, int] | None = None
        self.skew: int | None = None
        """The source's clock minus ours, in microseconds; as exact as half of a round trip."""

    @property
    def latest(self) -> tuple[SourceEnd, int] | None:
        """The last end read, and the moment up to which nothing comes after it."""
        return self._latest

    def look(self, connection: Connection, facts: ServerFacts, source_time: float) -> None:
        """Read the end after the clock; raises DMError."""
        moment = round(source_time * 1_000_000)
        self.skew = moment - round(self._clock.time() * 1_000_000)
        read_at = self._clock.monotonic()
        margin = FINE_MARGIN if has_fine_times(facts) else COARSE_MARGIN
        self._latest = SourceEnd(binlog_end(connection, facts), source_time, read_at), moment - margin
        self._told()
