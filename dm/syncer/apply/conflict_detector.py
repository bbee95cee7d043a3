"""Key conflicts: between lanes, so that changes with a common key keep their order, and between sources.

**Between lanes.** A change must go to the lane that has an earlier change with one of its keys. Worker lanes are called
workers here. Every key (`dm/changes/keys.py`) is mapped to the worker that got it last; a worker applies its changes in
order. A change without a mapped key may go to any worker. A change whose keys all map to one worker must go there. If
its keys map to two workers, neither may have the change before the other has finished. That is a conflict: the caller
waits until all workers are idle, calls `clear` and places the change again. The map does not know whether a key's
change is still waiting, so it only grows. At `limit` keys it also reports a conflict, which empties it.

**Between sources.** Where two sources of a task write the same key, no order holds between them. Each subtask is a
process. What they know of each other's keys is in a file that all of them map: a hash table without chains. A slot has
44 bits of a key's hash and 20 bits that stand for the source that wrote it last. A key may be pushed out by another, so
some cases are missed; a reported case is real, but for one hash in 10^13.

A table costs nothing while a single source writes it: the head of the file has, per target table, the source that
writes it, or a mark for several. For tables with several writers, the number of keys checked per second is limited.

Lanes call `KeyWriters` after their commits. Two processes may do so in another order than they committed in. Slots are
read and written without a lock: one entry may overwrite another, but is never torn, since it is one aligned word.
"""

from __future__ import annotations

import mmap
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from sys import getsizeof
from typing import Final

from dm.changes.keys import WILD, Key, keys_of
from dm.changes.native_changes import Part, Room, RunPart, change_maker
from dm.changes.row_change import RowChange
from dm.clock import Clock
from dm.ident import TableName
from dm.unit import JSON

CONFLICT: Final = -1
"""Instead of a worker: wait for all of them, clear, and ask again."""

DEFAULT_LIMIT: Final = 1_000_000


class ConflictDetector:
    """The map from keys to workers. Not thread-safe: it belongs to the dispatcher."""

    def __init__(
        self,
        workers: int,
        *,
        limit: int = DEFAULT_LIMIT,
        choose: Callable[[], int] | None = None,
    ) -> None:
        if workers < 1 or limit < 1:
            raise ValueError("a conflict detector needs a worker and room for a key")
        self._workers = workers
        self._limit = limit
        self._choose = choose or self._next_in_turn
        self._turn = -1
        self._maker = change_maker(0, 0, 0)  # it only spreads changes, so it counts no memory
        self._holder: dict[Key, int] = {}
        self._alone = False  # a change with an unknown key is in a lane: no other may run beside it
        self.conflicts = 0
        self.overflows = 0

    def place(self, keys: Sequence[Key]) -> int:
        """The worker for a change with these keys, now recorded as theirs, or CONFLICT (nothing recorded)."""
        holder = self._holder
        worker = CONFLICT
        if self._alone:
            self.conflicts += 1
            return CONFLICT
        for key in keys:
            held = holder.get(key, CONFLICT)
            if held not in (CONFLICT, worker):
                if worker != CONFLICT:
                    self.conflicts += 1
                    return CONFLICT
                worker = held
            if key is WILD:
                if holder:
                    self.conflicts += 1
                    return CONFLICT
                self._alone = True
        if len(holder) >= self._limit:
            self.overflows += 1
            return CONFLICT
        if worker == CONFLICT:
            worker = self._choose()
        for key in keys:
            holder[key] = worker
        return worker

    def place_all(self, changes: list[RowChange], at: int, room: Room) -> tuple[Sequence[Part], int]:
        """Spread changes of the compiled loop from `at` on; also returns where it stopped: no room, or a conflict."""
        if self._maker is None or self._alone:
            return (), at
        return self._maker.spread(self._holder, changes, at, self._choose(), self._limit, room)

    def place_run(
        self, changes: list[RowChange], at: int, room: Room, ends: list[int]
    ) -> tuple[Sequence[RunPart], int]:
        """The same for changes of a run's transactions: `ends` says how many changes end with each."""
        if self._maker is None or self._alone:
            return (), at
        return self._maker.spread_run(self._holder, changes, at, self._choose(), self._limit, room, ends)

    def clear(self) -> None:
        """Forget everything; only when all workers are idle."""
        self._holder.clear()
        self._alone = False

    def __len__(self) -> int:
        return len(self._holder)

    def holder(self, key: Key) -> int | None:
        """The worker that holds a key."""
        return self._holder.get(key)

    def _next_in_turn(self) -> int:
        self._turn = (self._turn + 1) % self._workers
        return self._turn


_SAMPLE_CHANGES: Final = 64
_SLOT: Final = 100  # of a dictionary, per key, while it grows


class KeyMemory:
    """Estimates the memory of the detector's keys by samples: a key may be a number or kilobytes of text.

    Belongs to the dispatcher.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.used = 0
        self._per_change = 0
        self._since = _SAMPLE_CHANGES

    @property
    def full(self) -> bool:
        """Whether it is time to clear."""
        return self.used > self._limit

    def placed(self, sample: RowChange, count: int) -> None:
        """Count this many changes of the sample's size."""
        self._since += count
        if self._since >= _SAMPLE_CHANGES:
            self._since = 0
            self._per_change = sum(
                _SLOT + getsizeof(key) + sum(getsizeof(part) for part in key[1:]) for key in keys_of(sample)
            )
        self.used += self._per_change * count

    def clear(self) -> None:
        """The detector was cleared."""
        self.used = 0


SLOTS: Final = 1 << 20  # 8 MiB
TABLES: Final = 1 << 12
KEYS_PER_SECOND: Final = 20_000
_WORD: Final = 8
_SOURCE: Final = (1 << 20) - 1
_SEVERAL: Final = 1 << 62


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_WORD).digest(), "little")


def _number(source: str) -> int:
    return _hash(source) & _SOURCE or 1


class KeyWriters:
    """The last writers of keys, for one source's run; any lane calls `note`."""

    def __init__(self, path: Path, source: str, others: Sequence[str], clock: Clock) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        size = (TABLES + SLOTS) * _WORD
        with path.open("a+b") as file:
            if path.stat().st_size != size:
                file.truncate(size)
            self._words = memoryview(mmap.mmap(file.fileno(), size)).cast("Q")
        self._own = _number(source)
        self._others = {_number(other): other for other in others}
        self._clock = clock
        self._second = 0
        self._left = 0
        self._lock = threading.Lock()
        self._found: Counter[TableName] = Counter()
        self._last = ""

    def note(self, changes: Sequence[RowChange]) -> None:
        """These changes are committed."""
        several: dict[TableName, bool] = {}
        for change in changes:
            target = change.plan.target
            known = several.get(target)
            if known is None:
                known = several[target] = self._has_several(target)
            if known:
                keys = [key for key in keys_of(change) if len(key) > 1 and key is not WILD]
                if not self._afford(len(keys)):
                    return
                others = [other for other in map(self._written, keys) if other is not None]
                if others:
                    self._count(target, others[0])

    def _has_several(self, target: TableName) -> bool:
        """Whether other sources write the table, too; records that this one does."""
        at = _hash(str(target)) % TABLES
        word = self._words[at]
        if word == _SEVERAL:
            return True
        if word not in (0, self._own):
            self._words[at] = _SEVERAL
            return True
        if not word:
            self._words[at] = self._own
        return False

    def _afford(self, keys: int) -> bool:
        second = int(self._clock.monotonic())
        if second != self._second:
            self._second, self._left = second, KEYS_PER_SECOND
        self._left -= keys
        return self._left >= 0

    def _written(self, key: Key) -> str | None:
        """Record the key; returns the source that wrote it last, if that is another one."""
        digest = _hash(repr(key))
        at, tag = TABLES + (digest & (SLOTS - 1)), digest & ~_SOURCE
        word = self._words[at]
        if word == tag | self._own:
            return None
        self._words[at] = tag | self._own
        return self._others.get(word & _SOURCE) if word & ~_SOURCE == tag else None

    def _count(self, target: TableName, other: str) -> None:
        with self._lock:
            self._found[target] += 1
            self._last = f"{target}, written by {other} before"

    @property
    def report(self) -> dict[str, JSON]:
        """The fields of `query-status`."""
        with self._lock:
            tables: dict[str, JSON] = {str(table): count for table, count in sorted(self._found.items())}
            return {
                "keysOfTwoSources": sum(self._found.values()),
                "keysOfTwoSourcesTables": tables,
                "lastKeyOfTwoSources": self._last,
            }
