"""The sync unit's status: DM's fields first, then ours."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Final

from dm.accelerator import switch
from dm.clock import Clock
from dm.position import Position
from dm.syncer.resources import RunParts
from dm.unit import JSON

RECENT_SECONDS = 10.0
# A frozen server, or one behind a dead firewall, keeps its connections open and is silent: no error shows it until a
# read times out, minutes later. So an operation that has taken this long is reported.
LONG_SECONDS = 3.0


def _waits(parts: RunParts) -> str:
    """The external obstacle that the run waits for; empty if there is none."""
    trouble = parts.source.trouble or parts.monitor.trouble
    if trouble is not None:
        return trouble.message
    target, seconds = parts.progress.target, parts.lanes.batch_seconds
    if seconds >= LONG_SECONDS:
        return f"target {target} has not finished a transaction that it was given {seconds:.0f} s ago"
    seconds = parts.progress.write_seconds
    if parts.turn is not None and seconds < LONG_SECONDS:
        return parts.turn.waits
    return f"target {target} has not answered for {seconds:.0f} s" if seconds >= LONG_SECONDS else ""


def _ddl(parts: RunParts, now: float) -> dict[str, JSON]:
    """The running statement: DM's list, and since when."""
    running = parts.ddl.execution.running
    if running is None:
        return {"blockingDDLs": [], "blockingDDLSeconds": None}
    return {"blockingDDLs": [running.text], "blockingDDLSeconds": int(now - running.since)}


_LONGEST_TEXT: Final = 200  # of a statement that has ended


def _recent_ddl(parts: RunParts) -> list[JSON]:
    """The statements that ended last, the newest at the end."""
    return [
        {
            "number": each.number, "text": each.text[:_LONGEST_TEXT], "ended": round(each.ended, 3),
            "seconds": round(each.seconds, 3),
        }
        for each in list(parts.ddl.execution.recent)
    ]  # fmt: skip


def _source(parts: RunParts) -> dict[str, JSON]:
    """Where the events come from."""
    return {
        "binlogType": parts.source.status,
        "sourceAddress": parts.monitor.address,
        "standbyInUse": parts.monitor.on_standby,
    }


def _tables(parts: RunParts) -> dict[str, JSON]:
    """Rows of the lanes and statements of the barrier, together."""
    tables = parts.lanes.tables
    tables.merge(parts.progress.tables)
    return tables.report(parts.forms.of)


def _opposite(parts: RunParts) -> dict[str, JSON]:
    """What the run has left out because the opposite has written it, and how many conflicts it has recorded."""
    marks, resolving = parts.marks, parts.resolving
    if marks is None:
        return {}
    left_out: dict[str, JSON] = {
        "oppositeTransactions": marks.transactions,
        "oppositeStatements": marks.statements,
    }
    return left_out if resolving is None else left_out | {"recordedConflicts": resolving.resolution.recorded}


def _doing(parts: RunParts) -> dict[str, float]:
    """What each part of the run is doing now."""
    reader, lanes = parts.reader, parts.lanes
    for_memory = parts.reading.waited_for
    idle, for_lanes, ddl = reader.queue.empty_handed, lanes.waited_for, bool(parts.ddl.execution.running)
    busy, committing = lanes.shares
    return {
        "readerWaitsForSource": float(not reader.busy),
        "readerWaitsForMemory": float(for_memory),
        "readerWorks": float(reader.busy and not for_memory),
        "dispatcherWaitsForReader": float(idle),
        "dispatcherWaitsForLanes": float(for_lanes and not idle),
        "dispatcherRunsDdl": float(ddl),
        "dispatcherWorks": float(not (idle or for_lanes or ddl)),
        "lanesBusy": busy,
        "lanesCommitting": committing,
    }


def is_at_rest(parts: RunParts) -> bool:
    """Whether the run is idle; checked in the order in which work moves, so that no work is missed."""
    reader, lanes = parts.reader, parts.lanes
    if not reader.begun or reader.busy or len(reader.queue) or not reader.queue.empty_handed:
        return False
    if parts.ddl.execution.running:
        return False
    return not lanes.queued and lanes.shares == (0.0, 0.0)


class SyncStatus:
    """Collects the status from the running parts."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._parts: RunParts | None = None
        self._waiting = ""
        self.target_session: Mapping[str, str] = {}  # a lane's variables, as the server has them
        self._samples: deque[tuple[float, ...]] = deque()  # time, transactions, rows, bytes
        self._shares: TimeShares | None = None

    def waiting(self, what: str) -> None:
        """The run waits for something before it can start."""
        self._waiting = what

    def attach(self, parts: RunParts) -> None:
        """The run has started with these parts."""
        self._parts = parts
        self._waiting = ""
        self._began = self._clock.monotonic()
        reader = parts.reader
        self._shares = TimeShares(
            lambda: _doing(parts), lambda: is_at_rest(parts), reader.wait_for_event, self._clock, reader.stopping
        )
        self._shares.start()

    def refresh(self, timeout: float) -> None:
        """Read the source's end now, and check that the target answers.

        Both are asked before either is waited for: a source that is silent for the whole time leaves none for its
        target, which would be taken for silent, too.
        """
        if self._parts is not None:
            until = self._clock.monotonic() + timeout
            asked = self._parts.progress.want_answer()
            self._parts.monitor.refresh(timeout)
            self._parts.progress.await_answer(asked, max(0.0, until - self._clock.monotonic()))

    def report(self) -> Mapping[str, JSON]:
        """The fields of `query-status`."""
        parts = self._parts
        if parts is None:
            return {"synced": False, "starting": True, "waiting": self._waiting or "starting"}
        mark = parts.completions.mark
        end = parts.monitor.end

        def covered(applied: Position) -> bool:
            return end is not None and end.is_covered_by(applied)

        transactions, rows, size = parts.completions.transactions, parts.lanes.rows, parts.reader.bytes
        elapsed = max(self._clock.monotonic() - self._began, 0.001)
        recent_transactions, recent_rows, recent_bytes = self._recent(transactions, rows, size)
        lag = parts.monitor.lag(mark.position, mark.timestamp, covered)
        if lag is not None and not parts.progress.answered:
            lag = max(lag, parts.progress.silent_seconds)  # nothing was committed since
        return {
            "totalEvents": parts.reader.events,
            "totalTps": round(transactions / elapsed),
            "recentTps": round(recent_transactions),
            "masterBinlog": str(end.position) if end else "",
            "masterBinlogGtid": str(end.position.gtid_set) if end else "",
            "syncerBinlog": str(mark.position),
            "syncerBinlogGtid": str(mark.position.gtid_set),
            **_ddl(parts, self._clock.monotonic()),
            "unresolvedGroups": [],
            "synced": parts.monitor.answered
            and parts.progress.answered
            and covered(mark.position)
            and parts.completions.under_way == 0,
            "sourceAnswers": parts.monitor.answered,
            "targetAnswers": parts.progress.answered,
            **_source(parts),
            "accelerator": switch.state(),
            "secondsBehindMaster": None if lag is None else round(lag, 3),
            **parts.retention.report(lag, mark.position.file),
            "totalTransactions": transactions,
            "totalRows": rows,
            "totalRps": round(rows / elapsed),
            "recentRps": round(recent_rows),
            "ioTotalBytes": size,
            "recentBytesPerSecond": round(recent_bytes),
            "readBinlog": str(parts.reader.position),
            "checkpoint": str(parts.progress.stored),
            "safeMode": list[JSON](parts.safe_mode.reasons),
            "safeModeRows": parts.safe_mode.rows,
            "conflicts": parts.lanes.conflicts,
            "batches": parts.lanes.batches,
            "compactedRows": parts.lanes.compacted,
            "eventRows": parts.lanes.event_rows,
            "hashRows": parts.lanes.hash_rows,
            **parts.missing.report,
            "retries": parts.lanes.retries,
            "queuedTransactions": len(parts.reader.queue),
            "queuedRows": parts.lanes.queued,
            "queuedBytes": parts.reading.used + parts.lanes.memory.used,
            "memoryQuota": parts.memory_quota,
            "memoryUsed": parts.reading.used + parts.lanes.memory_used,
            "spooledBytes": parts.spool.bytes,
            "spooledTransactions": parts.spool.transactions,
            "undecidedXa": parts.prepared.report,
            "compared": list[JSON](parts.progress.compared),
            "listEntriesWithoutTables": list[JSON](parts.lists.report),
            "ddlExecuted": parts.ddl.execution.executed,
            "recentDDLs": _recent_ddl(parts),
            "ddlAlreadyEffective": parts.ddl.execution.already_effective,
            "waiting": _waits(parts),
            "targetSession": dict(self.target_session),
            "timeShares": {} if self._shares is None else self._shares.report(),
            **_tables(parts),
            **_opposite(parts),
            **({} if parts.turn is None else {"mergeOrder": parts.turn.report()}),
            **({} if parts.writers is None else parts.writers.report),
        }

    def _recent(self, *totals: int) -> list[float]:
        now = self._clock.monotonic()
        self._samples.append((now, *totals))
        while self._samples[0][0] < now - RECENT_SECONDS and len(self._samples) > 1:
            self._samples.popleft()
        then, *old = self._samples[0]
        elapsed = now - then
        return [(total - before) / elapsed if elapsed > 0 else 0.0 for total, before in zip(totals, old, strict=True)]


INTERVAL_SECONDS: Final = 0.05
SLICE_SAMPLES: Final = 20
SLICES: Final = 10  # kept slices, of a second each

Look = Callable[[], Mapping[str, float]]
"""The present state: a share from 0 to 1 for each name."""

AtRest = Callable[[], bool]
"""Whether nothing can change before the next event."""

Sleep = Callable[[AtRest], bool]
"""If at rest, sleep until the next event or the end of the run; else return False at once."""


class TimeShares:
    """Where a run's time goes: the state of each thread, sampled twenty times a second until the stop signal.

    Threads show their state in plain attributes that they set anyway, or set when they begin to wait; no thread reads a
    clock per row or event. The sampler counts the states and reports shares of the last seconds. They tell which part
    holds the others up: the source, this process, or the target.

    Sampling an idle run would be its only activity. So if all parts wait for the source, the sampler sleeps until the
    reader has an event, and counts the time in between as sampled: nothing can change without an event.
    """

    def __init__(self, look: Look, at_rest: AtRest, sleep: Sleep, clock: Clock, stop: threading.Event) -> None:
        self._look = look
        self._at_rest = at_rest
        self._sleep = sleep
        self._clock = clock
        self._stop = stop
        self._slices: deque[Counter[str]] = deque(maxlen=SLICES)
        self._samples: deque[int] = deque(maxlen=SLICES)
        self._resting: tuple[float, Mapping[str, float]] | None = None  # since when, and the state meanwhile
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="time-shares", daemon=True)

    def start(self) -> None:
        """Start to sample."""
        self._thread.start()

    def _run(self) -> None:
        while not self._clock.wait(self._stop, INTERVAL_SECONDS):
            self.sample()

    def sample(self) -> None:
        """Sample once; sleep while all parts are idle."""
        seen = self._look()
        with self._lock:
            self._count(seen, 1)
        if self._sleep(self._rests):
            with self._lock:
                self._count_rest()
                self._resting = None

    def _rests(self) -> bool:
        if not self._at_rest():
            return False
        with self._lock:
            self._resting = self._clock.monotonic(), self._look()
        return True

    def _count_rest(self) -> None:
        if self._resting is None:
            return
        since, seen = self._resting
        samples = int((self._clock.monotonic() - since) / INTERVAL_SECONDS)
        self._resting = since + samples * INTERVAL_SECONDS, seen
        self._count(seen, min(samples, SLICES * SLICE_SAMPLES))

    def _count(self, seen: Mapping[str, float], samples: int) -> None:
        while samples:
            if not self._samples or self._samples[-1] >= SLICE_SAMPLES:
                self._slices.append(Counter())
                self._samples.append(0)
            counted = min(samples, SLICE_SAMPLES - self._samples[-1])
            samples -= counted
            self._samples[-1] += counted
            for name, share in seen.items():
                self._slices[-1][name] += share * counted  # type: ignore[assignment]  # a Counter counts anything

    def report(self) -> dict[str, JSON]:
        """Each name's share of the last seconds, from 0 to 1."""
        with self._lock:
            self._count_rest()
            samples = sum(self._samples)
            total = sum(self._slices, Counter[str]())
            names = {name for part in self._slices for name in part}
        return {name: round(total[name] / samples, 2) for name in sorted(names)} if samples else {}
