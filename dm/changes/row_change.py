"""One row change of the source, before it becomes SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from dm.accelerator.native import Native, shared
from dm.accelerator.switch import Twins
from dm.changes.keys import Key, completed
from dm.changes.plan import TablePlan
from dm.mysql.binlog.value import UNREAD, Row


@shared
class ChangeKind(IntEnum):
    """What happened to the row."""

    INSERT = 1
    UPDATE = 2
    DELETE = 3
    NOTHING = 4  # an INSERT and the DELETE of its row, merged: `before` must not exist


@shared
@dataclass(slots=True)
class RowChange:
    """A change with its images in the source's column order; the plan knows the target table and the mapping."""

    plan: TablePlan
    kind: ChangeKind
    before: Row | None  # UPDATE, DELETE
    after: Row | None  # INSERT, UPDATE
    safe: bool  # applied in safe mode: INSERT as REPLACE, UPDATE as DELETE + REPLACE, no affected-count check
    unchecked: bool = False  # applied without checking foreign keys that the target would check
    # The result of `keys_of`; the dispatcher and the worker both need it.
    keys: tuple[Key, ...] | None = field(default=None, repr=False, compare=False)
    # The images as the source wrote them, where they may go to the target so (`dm.changes.event_form`). Of such a
    # change the values of other columns than those of keys may be UNREAD.
    raw_before: bytes | None = field(default=None, repr=False, compare=False)
    raw_after: bytes | None = field(default=None, repr=False, compare=False)


def decode_all(changes: Sequence[RowChange]) -> None:
    """Read what was left unread of changes that become SQL; raises DMError."""
    for change in changes:
        form = change.plan.events
        if form is not None:
            if change.before is not None and change.raw_before is not None and _unread(change.before):
                change.before = form.read_image(change.raw_before)
            if change.after is not None and change.raw_after is not None and _unread(change.after):
                change.after = form.read_image(change.raw_after)


def row_left(change: RowChange) -> Row:
    """The row that an INSERT or UPDATE leaves: an image may have no more than the values that have changed."""
    assert change.after is not None
    return change.after if change.before is None else completed(change.after, change.before)


PlanTally = tuple[TablePlan, int, int, int]
"""A plan, and how many inserts, updates and deletes (and changes that only forbid a row) are of it."""


def tally(changes: Sequence[RowChange]) -> Sequence[PlanTally]:
    """What a batch has of each plan, in the order in which the plans come first.

    What has to be asked of each change is asked of the plans first.
    """
    return _TWINS()(changes)


def plans_of(changes: Sequence[RowChange]) -> list[TablePlan]:
    """The plans alone."""
    return [plan for plan, _, _, _ in tally(changes)]


def by_plan(changes: Iterable[RowChange]) -> list[list[RowChange]]:
    """The changes of each plan, in their order."""
    found: dict[int, list[RowChange]] = {}
    for change in changes:
        found.setdefault(id(change.plan), []).append(change)
    return list(found.values())


def _unread(row: Row) -> bool:
    return any(value is UNREAD for value in row)


def _tally(changes: Sequence[RowChange]) -> Sequence[PlanTally]:
    found: dict[int, list[int]] = {}
    plans = list[TablePlan]()
    plan, counts = None, [0, 0, 0]
    for change in changes:
        if change.plan is not plan:
            plan = change.plan
            if id(plan) not in found:
                found[id(plan)] = [0, 0, 0]
                plans.append(plan)
            counts = found[id(plan)]
        kind = change.kind
        counts[0 if kind is ChangeKind.INSERT else 1 if kind is ChangeKind.UPDATE else 2] += 1
    return [(plan, inserts, updates, deletes) for plan in plans for inserts, updates, deletes in [found[id(plan)]]]


def _compiled(native: Native) -> Callable[[Sequence[RowChange]], Sequence[PlanTally]]:
    def counted(changes: Sequence[RowChange]) -> Sequence[PlanTally]:
        found = native.tally(changes)
        return _tally(changes) if found is None else found

    return counted


_TWINS: Final[Twins[Callable[[Sequence[RowChange]], Sequence[PlanTally]]]] = Twins(_tally, _compiled)
