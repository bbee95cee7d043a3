"""One row change of the source, before it becomes SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from operator import attrgetter
from typing import Final

from dm.accelerator.native import shared
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


def read_all(changes: Sequence[RowChange]) -> None:
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


def plans_of(changes: Iterable[RowChange]) -> set[TablePlan]:
    """The plans of the changes: what has to be asked of each change is asked of these first."""
    return set(map(_PLAN, changes))


def by_plan(changes: Iterable[RowChange]) -> list[list[RowChange]]:
    """The changes of each plan, in their order."""
    found: dict[int, list[RowChange]] = {}
    for change in changes:
        found.setdefault(id(change.plan), []).append(change)
    return list(found.values())


_PLAN: Final[Callable[[RowChange], TablePlan]] = attrgetter("plan")


def _unread(row: Row) -> bool:
    return any(value is UNREAD for value in row)
