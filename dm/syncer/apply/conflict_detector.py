"""Key conflicts: which lane a change must go to, so that changes with a common key keep their order.

Worker lanes are called workers here. Every key (`dm/changes/keys.py`) is mapped to the worker that got it last; a
worker applies its changes in order. A change without a mapped key may go to any worker. A change whose keys all map to
one worker must go there. If its keys map to two workers, neither may have the change before the other has finished.
That is a conflict: the caller waits until all workers are idle, calls `clear` and places the change again. The map does
not know whether a key's change is still waiting, so it only grows. At `limit` keys it also reports a conflict, which
empties it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getsizeof
from typing import Final

from dm.changes.keys import WILD, Key, keys_of
from dm.changes.native_changes import Part, Room, change_maker
from dm.changes.row_change import RowChange

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
        self._maker = change_maker(0, 0)  # it only spreads changes, so it counts no memory
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
