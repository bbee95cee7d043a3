"""How a batch is applied where both sides write the same rows, and one of them wins (`conflicts`).

`source-wins`: a row is set to what the source has, whatever is there, and what was there is recorded. Most rows are
what the source's was, so a batch is tried as with `pause`; only where that fails, its changes go one by one.

`target-wins`: what loses is left out (`target_writes.py` has the rule), recorded, and the rest of the batch is applied
as with `pause`: a row that is not what the source had, although nobody has written it since, is an error.

The record is written in the transaction of the rows, by either task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from dm.changes.keys import completed
from dm.changes.row_change import ChangeKind, RowChange, decode_all
from dm.changes.statement import find, operation_of
from dm.downstream.apply import BatchResult, FirstStatement, apply_batch, apply_parts
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.position import Position
from dm.progress.conflict_record import Conflict, Image, image_of, key_image, row_found, store_conflicts
from dm.progress.tables import SubtaskKey
from dm.syncer.apply.lane import LaneJob
from dm.syncer.apply.table_counters import Parts
from dm.syncer.apply.target_writes import Losing, place_text

Blame = Callable[[RowChange], None]


@dataclass(frozen=True, slots=True)
class BatchEnds:
    """What a batch's transaction begins and ends with, and who is told which change can't be applied."""

    first: FirstStatement
    last: Callable[[], None]
    failed: Blame


class Batch:
    """The changes of some jobs, each with its job; a stream's are decoded anew each time."""

    def __init__(self, jobs: Sequence[LaneJob], streamed: Parts | None) -> None:
        self.jobs = jobs
        self.streamed = streamed is not None
        self._parts = streamed

    def parts(self) -> Iterator[list[tuple[RowChange, LaneJob]]]:
        """All of them in order, to be applied."""
        return self._of(self._parts)

    def again(self) -> Iterator[list[tuple[RowChange, LaneJob]]]:
        """The same, to be looked at: neither counted nor held back."""
        stream = self.jobs[0].stream
        return self._of(None if stream is None else stream.parts)

    def _of(self, parts: Parts | None) -> Iterator[list[tuple[RowChange, LaneJob]]]:
        if parts is None:
            yield [(change, job) for job in self.jobs for change in job.changes]
        else:
            for part in parts():
                yield [(change, self.jobs[0]) for change in part]


class Resolution(Protocol):
    """How conflicts are resolved; one for all lanes of a run."""

    @property
    def recorded(self) -> int:
        """Conflicts that this run has recorded."""
        ...

    def apply(self, connection: TargetConnection, batch: Batch, ends: BatchEnds) -> BatchResult:
        """Apply a batch in one transaction; raises DMError as `apply_batch` does."""
        ...


@dataclass(frozen=True, slots=True)
class Record:
    """Where conflicts are stored, and whether with their rows."""

    key: SubtaskKey
    rows: bool

    def store(self, connection: TargetConnection, conflicts: Sequence[Conflict]) -> None:
        """Inside the open transaction; raises DMError."""
        store_conflicts(connection, self.key, conflicts, rows=self.rows)


class SourceWins:
    """`conflicts: source-wins`."""

    def __init__(self, record: Record) -> None:
        self.recorded = 0
        self._record = record

    def apply(self, connection: TargetConnection, batch: Batch, ends: BatchEnds) -> BatchResult:
        """Set rows to what the source has."""
        found = list[Conflict]()
        jobs: dict[int, LaneJob] = {}

        def parts() -> Iterator[list[RowChange]]:
            found.clear()
            for part in batch.parts():
                jobs.clear()
                jobs.update((id(change), job) for change, job in part)
                yield [change for change, _ in part]

        def overwrites(change: RowChange, conditions: Iterable[bytes]) -> None:
            plan, image = change.plan, change.after if change.before is None else change.before
            assert image is not None
            key, source = key_image(plan, image), jobs[id(change)].end
            rows = [row_found(connection, plan, condition) for condition in conditions]
            known: list[Image | None] = [each for each in rows if each is not None]
            for row in known or [None]:
                before, after = image_of(plan, change.before), image_of(plan, change.after)
                found.append(Conflict("source", plan, operation_of(change), key, before, after, row, source, ""))

        def last() -> None:
            self._record.store(connection, found)
            ends.last()

        if batch.streamed:
            applied = apply_parts(connection, parts, first=ends.first, last=last, looks=True, overwrites=overwrites)
        else:
            (changes,) = parts()
            applied = apply_batch(
                connection, changes, first=ends.first, last=last, failed=ends.failed, looks=True,
                overwrites=overwrites,
            )  # fmt: skip
        self.recorded += len(found)
        return applied


class ConflictJudge(Protocol):
    """Says what loses: `TargetWrites`."""

    def losing(self, change: RowChange, brought: Position) -> Losing | None:
        """Whether a change loses, by what is known."""
        ...

    def catch_up(self) -> None:
        """Get to know all that the target has committed by now."""
        ...

    def passed(self, brought: Position) -> None:
        """Nobody asks for an earlier place any more."""
        ...


class _More(Exception):
    """The target has been written meanwhile, and more of the batch loses."""


@dataclass(frozen=True, slots=True)
class _Lost:
    """A change that loses, as a whole or in part."""

    change: RowChange
    losing: Losing
    job: LaneJob


class TargetWins:
    """`conflicts: target-wins`."""

    def __init__(self, record: Record, judge: ConflictJudge) -> None:
        self.recorded = 0
        self._record = record
        self._judge = judge

    def apply(self, connection: TargetConnection, batch: Batch, ends: BatchEnds) -> BatchResult:
        """Apply what does not lose, and look again before the commit."""
        while True:
            lost = list[_Lost]()
            try:
                applied = self._attempt(connection, batch, ends, lost)
            except _More:
                continue
            except DMError as error:
                # A row that the target has written meanwhile is no error: the source's write loses.
                if error.retryable or not self._more(batch, lost):
                    raise
                continue
            self.recorded += sum((each.losing.before is not None) + (each.losing.after is not None) for each in lost)
            brought = batch.jobs[-1].ticket.brought
            if brought is not None:
                self._judge.passed(brought)
            return applied

    def _attempt(self, connection: TargetConnection, batch: Batch, ends: BatchEnds, lost: list[_Lost]) -> BatchResult:
        whole: dict[int, RowChange] = {}  # what a part of a change stands for

        def parts() -> Iterator[list[RowChange]]:
            lost.clear()
            whole.clear()
            for part in batch.parts():
                yield list(self._left(part, lost, whole))

        def failed(change: RowChange) -> None:
            ends.failed(whole.get(id(change), change))

        def last() -> None:
            self._record.store(connection, [one for each in lost for one in _conflicts(connection, each)])
            if self._more(batch, lost):
                raise _More
            ends.last()

        if batch.streamed:
            return apply_parts(connection, parts, first=ends.first, last=last, looks=True)
        (changes,) = parts()
        return apply_batch(connection, changes, first=ends.first, last=last, failed=failed, looks=True)

    def _left(
        self, part: Iterable[tuple[RowChange, LaneJob]], lost: list[_Lost], whole: dict[int, RowChange]
    ) -> Iterator[RowChange]:
        for change, job in part:
            losing = self._losing(change, job)
            if losing is None:
                yield change
                continue
            decode_all([change])
            lost.append(_Lost(change, losing, job))
            rest = _rest(change, losing)
            if rest is not None:
                whole[id(rest)] = change
                yield rest

    def _losing(self, change: RowChange, job: LaneJob) -> Losing | None:
        brought = job.ticket.brought
        assert brought is not None, "a losing task follows the opposite's place"
        return self._judge.losing(change, brought)

    def _more(self, batch: Batch, lost: Sequence[_Lost]) -> bool:
        self._judge.catch_up()
        now = [losing for part in batch.again() for change, job in part if (losing := self._losing(change, job))]
        return [(each.before is None, each.after is None) for each in now] != [
            (each.losing.before is None, each.losing.after is None) for each in lost
        ]


def _rest(change: RowChange, losing: Losing) -> RowChange | None:
    """The half of an UPDATE of the key that does not lose: the old row's DELETE or the new row's INSERT.

    None if both halves lose, or the key stays.
    """
    before, after = change.before, change.after
    if before is None or after is None or not losing.moves or None not in (losing.before, losing.after):
        return None
    if losing.before is None:
        return replace(change, kind=ChangeKind.DELETE, after=None, keys=None, raw_before=None, raw_after=None)
    whole = completed(after, before)
    return replace(change, kind=ChangeKind.INSERT, before=None, after=whole, keys=None, raw_before=None, raw_after=None)


def _conflicts(connection: TargetConnection, lost: _Lost) -> Iterator[Conflict]:
    """A conflict for each row of a change that loses."""
    change, losing = lost.change, lost.losing
    plan, before, after = change.plan, change.before, change.after
    if before is not None and after is not None:
        after = completed(after, before)
    for image, place in ((before, losing.before), (after, losing.after)):
        if image is not None and place is not None:
            yield Conflict(
                "target",
                plan,
                operation_of(change),
                key_image(plan, image),
                image_of(plan, before),
                image_of(plan, after),
                row_found(connection, plan, find(plan, image)),
                lost.job.end,
                place_text(place),
            )
