"""Notices where two sources of a task write the same key, with no order between them.

Each subtask is a process. What they know of each other's keys is in a file that all of them map: a hash table without
chains. A slot has 44 bits of a key's hash and 20 bits that stand for the source that wrote it last. A key may be pushed
out by another, so some cases are missed; a reported case is real, but for one hash in 10^13.

A table costs nothing while a single source writes it: the head of the file has, per target table, the source that
writes it, or a mark for several. For tables with several writers, the number of keys checked per second is limited.

Lanes call this after their commits. Two processes may do so in another order than they committed in. Slots are read and
written without a lock: one entry may overwrite another, but is never torn, since it is one aligned word.
"""

from __future__ import annotations

import mmap
import threading
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final

from dm.changes.keys import WILD, Key, keys_of
from dm.changes.row_change import RowChange
from dm.clock import Clock
from dm.ident import TableName
from dm.unit import JSON

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
