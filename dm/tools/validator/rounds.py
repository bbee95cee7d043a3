"""Rounds of looks at the rows that wait: which are equal and go, which stay, which are errors by now.

A row differs for a moment whenever the target is a change ahead of what was read. So a difference counts only if it was
there when everything was known that might have caused it: after a look that finds rows different, the end of the
source's binlog is asked for, their fence. Whatever the target showed lies before it. When the validator has read up to
the fence and no later change has taken the row's place, the row was wrong.

It becomes an error when it is still different, and has been for as long as `row-error-delay`.

The syncer's checkpoint has to be past the fence, too: after `--start-time` back, rows are older for a while than what
was read long ago.

A round that gives way to the syncer (`dm.tools.validator.throttle`) is a short one. It leaves out rows of which a look
tells nothing yet: those that were found different, until their fence is passed and their delay is over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Final

from dm.clock import Clock
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.table import TableSchema
from dm.position import Position
from dm.progress.validator_errors import RowError
from dm.tools.validator.judge import Judge, Wrong
from dm.tools.validator.pending import PendingRow, PendingRows, Shape
from dm.tools.validator.throttle import Throttle

# A structure that does not bear a comparison on this server: too many columns, a type that temporary tables refuse.
_UNFIT: Final = (1064, 1115, 1117, 1118, 1267, 1273)
_BESIDE: Final = (" (number)", " (types)", " (a member)")  # parts of a value that are compared beside it
_SHOWN: Final = 60_000  # characters of a value
_SHORT: Final = 10_000  # rows of a round that gives way


@dataclass(frozen=True, slots=True)
class Places:
    """Where everybody is, as of the call."""

    read: Callable[[], Position]  # the validator
    applied: Callable[[], Position | None]  # the syncer's checkpoint; raises DMError
    source_end: Callable[[], Position]  # raises DMError


@dataclass(frozen=True, slots=True)
class RoundContext:
    """What a round acts upon."""

    pending: PendingRows
    schemas: TargetSchemas
    places: Places
    store: Callable[[Sequence[RowError]], None]
    unfit: Callable[[Shape, str], None]  # the table can't be compared


@dataclass
class Rounds:
    """Belongs to one thread, which has others look in parallel."""

    around: RoundContext
    judges: Sequence[Judge]
    pace: Throttle
    clock: Clock
    batch: int
    delay: float  # seconds
    _free: SimpleQueue[Judge] = field(default_factory=SimpleQueue)
    _final: bool = False
    more: bool = False  # the last round was cut short

    def __post_init__(self) -> None:
        for judge in self.judges:
            self._free.put(judge)
        self._pool = ThreadPoolExecutor(len(self.judges), "look")

    def close(self) -> None:
        """End all sessions; nobody looks any more."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        for judge in self.judges:
            judge.close()

    def look(self, *, final: bool = False) -> int:
        """One round; gives how many rows have become errors. Raises DMError.

        It is `final` where all is read and applied that is to be: no row waits for its delay, or for what comes after.
        """
        self._final = final
        rows = self._worth_a_look()
        wrong: list[Wrong] = []
        unsure: list[PendingRow] = []
        looks = [(part, target, self._pool.submit(self._look, part, target)) for part, target in self._parts(rows)]
        try:
            for part, target, future in looks:
                found = self._outcome(part, future)
                wrong += found or []
                if found is not None:
                    unsure += self._let_go(part, found, there=target is not None)
        finally:
            for _, _, future in looks:
                future.cancel()
        errors = self._errors(wrong)
        if not final:
            self._fence([*unsure, *(each.row for each in wrong)])
        return errors

    def _worth_a_look(self) -> list[PendingRow]:
        rows = self.around.pending.all()
        self.more = False
        if self._final or not self.pace.gives_way:
            return rows
        now, applied = self.clock.time(), self.around.places.applied()
        worth = [row for row in rows if row.fence is None or (self._old(row, now) and self._passed(row, applied))]
        self.more = len(worth) > _SHORT
        return worth[:_SHORT]

    def _old(self, row: PendingRow, now: float) -> bool:
        return self._final or row.failed_at is None or now - row.failed_at >= self.delay

    def _let_go(self, rows: Sequence[PendingRow], wrong: Sequence[Wrong], *, there: bool) -> list[PendingRow]:
        """Rows that are as they should be wait no more; gives those of which that is not known yet.

        A table that is not there may have another name there already, by a statement that was not read yet.
        """
        different = {each.row for each in wrong}
        right = [row for row in rows if row not in different]
        unsure: list[PendingRow] = []
        if right and not there:
            applied = self.around.places.applied()
            unsure = [row for row in right if not self._passed(row, applied)]
        waiting = set(unsure)
        for row in right:
            if row not in waiting:
                self.around.pending.done(row)
        return unsure

    def _parts(self, rows: Sequence[PendingRow]) -> Iterator[tuple[list[PendingRow], TableSchema | None]]:
        by_shape: dict[Shape, list[PendingRow]] = {}
        for row in rows:
            by_shape.setdefault(row.shape, []).append(row)
        targets: dict[TableName, TableSchema | None] = {}
        for shape, of_shape in by_shape.items():
            if shape.target not in targets:
                targets[shape.target] = self.around.schemas.read(shape.target)
            for first in range(0, len(of_shape), self.batch):
                yield of_shape[first : first + self.batch], targets[shape.target]

    def _look(self, rows: Sequence[PendingRow], target: TableSchema | None) -> list[Wrong] | None:
        """What is wrong; None where the target's table has changed meanwhile."""
        judge = self._free.get()
        try:
            return self.pace.look(lambda: judge.look(rows, target), len(rows))
        except DMError as error:
            if judge.changed_meanwhile(error):
                return None
            raise
        finally:
            self._free.put(judge)

    def _outcome(self, rows: Sequence[PendingRow], future: Future[list[Wrong] | None]) -> list[Wrong] | None:
        """What is wrong; None where nothing is known."""
        try:
            return future.result()
        except DMError as error:
            if error.server_errno not in _UNFIT:
                raise
            self.around.unfit(rows[0].shape, f"its rows can't be compared: {error.cause or error.message}")
            return None

    def _errors(self, wrong: Sequence[Wrong]) -> int:
        now = self.clock.time()
        found: list[Wrong] = []
        applied = self.around.places.applied() if wrong else None
        for each in wrong:
            row = each.row
            row.failed_at = row.failed_at or now
            # The fence first: what is read after it might have been a change of the row.
            if self._old(row, now) and self._passed(row, applied) and self._still(each):
                found.append(each)
        if found:
            self.around.store([_error(each) for each in found])
            for each in found:
                self.around.pending.done(each.row)
        return len(found)

    def _still(self, wrong: Wrong) -> bool:
        """Whether neither a change of the row nor one of its table was read since it was looked at."""
        return self.around.pending.current(wrong.row) and wrong.version == wrong.row.shape.version

    def _passed(self, row: PendingRow, applied: Position | None) -> bool:
        fence = row.fence
        if self._final:
            return True
        if fence is None or applied is None:
            return False
        try:
            return self.around.places.read().covers(fence) and applied.covers(fence)
        except DMError:  # another server by now: its positions have no order with these
            row.fence = None
            return False

    def _fence(self, rows: Sequence[PendingRow]) -> None:
        without = [row for row in rows if row.fence is None]
        if without:
            fence = self.around.places.source_end()
            for row in without:
                row.fence = fence


def _error(wrong: Wrong) -> RowError:
    row = wrong.row
    fix = ";\n".join(each.decode("utf-8", "backslashreplace") for each in wrong.fix.statements)
    message = wrong.key
    if wrong.columns and wrong.source is not None and wrong.target is not None:
        values = [f"{name}: {wrong.source[name]} at the source, {wrong.target[name]} at the target"
                  for name in wrong.columns]  # fmt: skip
        message = f"{wrong.key}: {'; '.join(values)}"
    return RowError(
        row.shape.source,
        row.shape.target,
        row.row_pk,
        wrong.kind,
        _json(wrong.source),
        _json(wrong.target),
        message[:_SHOWN],
        fix or (f"-- {wrong.fix.impossible}" if wrong.fix.impossible else ""),
    )


def _json(row: Mapping[str, str] | None) -> str:
    if row is None:
        return "null"
    return json.dumps({name: value[:_SHOWN] for name, value in row.items() if not name.endswith(_BESIDE)})
