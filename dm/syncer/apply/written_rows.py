"""Which rows of the target others have written, and where in its binlog: digests of keys, no values.

A row is known by the folded value of the key that the target finds it by. A change of this task and a row of the
target's own binlog are of one row if their digests are equal. So a key that dm can't fold as the target does is
refused.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from dm.changes.keys import WILD, KeyFunction, completed
from dm.changes.plan import TablePlan
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.value import Row

_PLANS: Final = 10_000  # a table gets another plan after each statement
_DIGEST: Final = 16
_SWEEP: Final = 10_000  # notes after which those that are passed are dropped
_CACHE_KILOBYTES: Final = 16 << 10


class RowDigests:
    """Tells rows of the target apart, in changes of this task and in the target's own binlog alike; any thread asks."""

    def __init__(self, *, folded: bool) -> None:
        self._folded = folded  # the target does not tell upper from lower case in names of tables
        self._functions: dict[int, tuple[TablePlan, KeyFunction]] = {}

    def table(self, table: TableName) -> TableName:
        """A name, as the target tells it from others."""
        return TableName(table.schema.lower(), table.table.lower()) if self._folded else table

    def of(self, plan: TablePlan, row: Row | None, other: Row | None = None) -> bytes | None:
        """Which row an image is of; what it lacks is as in the other image. None without an image. Raises DMError."""
        if row is None:
            return None
        function = self._function(plan)
        key = function.read(row)
        if key is WILD and other is not None:
            key = function.read(completed(row, other))
        if key is None or key is WILD:
            raise DMError("partial-row-image", table=plan.source, column=plan.row_key[0].source.name)
        return blake2b(
            repr((self.table(plan.target), key[1:])).encode("utf-8", "backslashreplace"), digest_size=_DIGEST
        ).digest()

    def _function(self, plan: TablePlan) -> KeyFunction:
        known = self._functions.get(id(plan))
        if known is None:
            token = f"{plan.target}({','.join(sorted(column.target.name.lower() for column in plan.row_key))})"
            function = next((each for each in plan.key_functions if each.token == token), None)
            unfolded = function is None or function.parts is None or any(part.fold is None for part in function.parts)
            if function is None or unfolded or plan.identity:
                raise DMError("conflicts-key-unclear", table=plan.target, key=plan.row_index)
            if len(self._functions) >= _PLANS:
                self._functions.clear()
            known = self._functions[id(plan)] = plan, function
        return known[1]


class WrittenRows:
    """Where others have last written to each row of the target; on disk if they are many. Any thread may ask."""

    def __init__(self) -> None:
        # A database without a name is in memory, and in a temporary file what is more.
        self._rows = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        for setting in ("journal_mode = OFF", "synchronous = OFF", f"cache_size = -{_CACHE_KILOBYTES}"):
            self._rows.execute(f"PRAGMA {setting}")
        self._rows.execute("CREATE TABLE written (digest BLOB PRIMARY KEY, place INTEGER NOT NULL) WITHOUT ROWID")
        self._lock = threading.Lock()
        self._count = 0  # at most
        self._sweep = _SWEEP
        self._passed = 0

    def note(self, digests: Iterable[bytes], place: int) -> None:
        """These rows were written at a place, after all that are known."""
        with self._lock:
            before = self._rows.total_changes
            self._rows.execute("BEGIN")
            self._rows.executemany("INSERT OR REPLACE INTO written VALUES (?, ?)", ((each, place) for each in digests))
            self._rows.execute("COMMIT")
            self._count += self._rows.total_changes - before
            if self._count >= self._sweep:
                self._rows.execute("DELETE FROM written WHERE place <= ?", (self._passed,))
                ((self._count,),) = self._rows.execute("SELECT COUNT(*) FROM written")
                self._sweep = 2 * self._count + _SWEEP

    def after(self, digest: bytes, place: int) -> int | None:
        """Where a row was written last, if that is after a place."""
        with self._lock:
            found = [each for (each,) in self._rows.execute("SELECT place FROM written WHERE digest = ?", (digest,))]
        return found[0] if found and found[0] > place else None

    def passed(self, place: int) -> None:
        """Nobody asks for an earlier place any more."""
        self._passed = max(self._passed, place)

    def close(self) -> None:
        """Forget all."""
        with self._lock:
            self._rows.close()
