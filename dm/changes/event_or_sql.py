"""A batch of changes as row events where its tables allow that, and as SQL elsewhere.

The result is that of `grouped.py`, for the same reason: a change may move over another only if they have no key in
common. Here the statements are events, one for each table and kind of change, so a batch has few of them, and

- within an event the server applies the rows in the order in which they stand there. So a change may join the very
  event that touched one of its keys last.
- an event checks only the key that finds a row, none of its other keys. If a table has several unique keys, its changes
  keep their order among each other (`EventForm.order_key`): only a run of one kind becomes one event.
- rows of a table without a key are found by all their values; within an event the server looks up all of them at once,
  by a hash. Equal rows are interchangeable, so any order in which all are found gives the same rows. But a row that a
  change of the same event has just made is not found: that change begins another event.

Within a stretch, a run of changes that may move, all changes of a target table go the same way. So the two ways never
meet in a table. Such changes touch no other table (triggers and checked foreign keys end a stretch), so it does not
matter which way is sent first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from dm.accelerator.native import Native
from dm.accelerator.switch import Twins
from dm.changes.event_form import EventForm
from dm.changes.grouped import grouped
from dm.changes.keys import WILD, Key, keys_of
from dm.changes.plan import TablePlan
from dm.changes.row_change import ChangeKind, RowChange, decode_all
from dm.changes.safe_mode import removes_others
from dm.changes.statement import ANY, ApplyStatement, Expected
from dm.mysql.binlog.row_events import RowsKind, binlog_statement, statement_room


@dataclass(slots=True)
class EventGroup:
    """One rows event in the making."""

    form: EventForm
    plan: TablePlan
    kind: ChangeKind
    unchecked: bool
    changes: list[RowChange] = field(default_factory=list)
    images: list[bytes] = field(default_factory=list)
    size: int = 0
    made: set[bytes] = field(default_factory=set)  # of a table without a key: the rows that the event makes

    def add(self, change: RowChange, images: Sequence[bytes]) -> None:
        """Put the change with its images after the others."""
        self.changes.append(change)
        self.images += images
        self.size += _bytes(images)
        if not self.form.keyed and change.raw_after is not None:
            self.made.add(change.raw_after)

    def takes(self, change: RowChange, size: int, room: int) -> bool:
        """Whether the change may stand in this event."""
        if self.size + size > room:
            return False
        if change.raw_before is None:
            return True
        return change.raw_before not in self.made and not (self.form.scans and len(self.changes) == SCANNED_ROWS)

    @property
    def scans(self) -> int:
        """How often the server reads the table for it."""
        return len(self.changes) if self.form.scans and self.kind is not ChangeKind.INSERT else 0


# Rows that one statement may have the server search for where it reads the table for each. It says nothing until the
# statement is done, and a session waits 300 s for an answer (READ_TIMEOUT). So each of them may take 18 s, in which a
# server reads some 100 million rows. Beyond that the session counts as lost, and the task would repeat the same without
# end.
SCANNED_ROWS: Final = 16

Arranged = EventGroup | ApplyStatement

_KINDS: Final[dict[ChangeKind, RowsKind]] = {
    ChangeKind.INSERT: "insert",
    ChangeKind.UPDATE: "update",
    ChangeKind.DELETE: "delete",
}


def arranged(changes: Sequence[RowChange], *, limit: int) -> list[ApplyStatement]:
    """The changes in few statements, none much longer than `limit` bytes."""
    room = statement_room(limit)
    groups = _TWINS()(changes, room)
    if groups is not None:
        return _statements(groups, room)
    if all(change.raw_before is None and change.raw_after is None for change in changes):
        return grouped(changes, limit=limit)
    batch = _ArrangedBatch(limit)
    for change in changes:
        batch.add(change)
    batch.end_stretch()
    return _statements(batch.done, room)


class _Groups(Protocol):
    """The loop over a batch that is one stretch of events."""

    def __call__(self, changes: Sequence[RowChange], room: int, /) -> Sequence[EventGroup] | None:
        """The events; None for any other batch."""
        ...


def _any_batch(changes: Sequence[RowChange], room: int) -> Sequence[EventGroup] | None:
    return None  # `_ArrangedBatch` takes them all


def _compiled(native: Native) -> _Groups:
    def groups(changes: Sequence[RowChange], room: int) -> Sequence[EventGroup] | None:
        found = native.event_groups(changes, room, keys_of, WILD, SCANNED_ROWS)
        return None if found is None else [_group_of(*each) for each in found]

    return groups


_TWINS: Final[Twins[_Groups]] = Twins(_any_batch, _compiled)


def _group_of(changes: list[RowChange], images: list[bytes], size: int) -> EventGroup:
    group = _group(changes[0])
    group.changes, group.images, group.size = changes, images, size
    return group


class _ArrangedBatch:
    """What is done so far, in order, and the stretch under way."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.room = statement_room(limit)
        self.done: list[Arranged] = []
        self._stretch: list[RowChange] = []
        self._safe: bool | None = None

    def add(self, change: RowChange) -> None:
        """Put the change into the stretch, or where nothing moves."""
        if change.safe is not self._safe:
            self._safe = change.safe
            self.end_stretch()
        if moves(change):
            self._stretch.append(change)
            return
        self.end_stretch()
        if _takes(change, self.room):
            _join(self.done, change, self.room)
        else:
            self._write([change])

    def end_stretch(self) -> None:
        """Arrange the stretch; nothing moves across its end."""
        stretch, self._stretch = self._stretch, []
        written = {change.plan.target for change in stretch if not _takes(change, self.room)}
        events = _Events(self.room)
        for change in stretch:
            if change.plan.target not in written:
                events.add(change)
        self.done += events.groups
        if written:
            self._write([change for change in stretch if change.plan.target in written])

    def _write(self, changes: list[RowChange]) -> None:
        decode_all(changes)
        self.done += grouped(changes, limit=self._limit)


def moves(change: RowChange) -> bool:
    """Whether the change may stand elsewhere among those with no key of its own."""
    return change.plan.groupable and WILD not in keys_of(change) and not removes_others(change)


def _takes(change: RowChange, room: int) -> bool:
    """Whether the change can be an event of so many bytes at most."""
    form = change.plan.events
    if form is None or form.refused or change.safe or change.kind not in _KINDS:
        return False
    if any(
        image is not None and raw is None
        for image, raw in ((change.before, change.raw_before), (change.after, change.raw_after))
    ):
        return False
    return _size(change) <= room


def _group(change: RowChange) -> EventGroup:
    plan = change.plan
    assert plan.events is not None
    return EventGroup(plan.events, plan, change.kind, change.unchecked)


def _size(change: RowChange) -> int:
    return len(change.raw_before or b"") + len(change.raw_after or b"")


def _images(change: RowChange) -> tuple[bytes, ...]:
    assert change.plan.events is not None
    return change.plan.events.images(change.raw_before, change.raw_after)


def _bytes(images: Sequence[bytes]) -> int:
    return sum(map(len, images))


def _join(done: list[Arranged], change: RowChange, room: int) -> None:
    """Into the last event if it is one of the same, else into a new one."""
    last = done[-1] if done else None
    like = isinstance(last, EventGroup) and (last.plan, last.kind, last.unchecked) == (
        change.plan,
        change.kind,
        change.unchecked,
    )
    images = _images(change)
    if not (like and isinstance(last, EventGroup) and last.takes(change, _bytes(images), room)):
        last = _group(change)
        done.append(last)
    last.add(change, images)


class _Events:
    """The events of one stretch, in order, and which of them touched a key last."""

    def __init__(self, room: int) -> None:
        self._room = room
        self.groups: list[EventGroup] = []
        self._open: dict[tuple[int, ChangeKind, bool], int] = {}
        self._last: dict[Key, int] = {}

    def add(self, change: RowChange) -> None:
        """Put the change into the last event where it may stand, or into a new one at the end."""
        last, plan = self._last, change.plan
        assert plan.events is not None
        keys = keys_of(change)
        if plan.events.order_key is not None:
            keys = (*keys, plan.events.order_key)
        after = -1
        for key in keys:
            at = last.get(key, -1)
            after = at if at > after else after
        signature = (id(plan), change.kind, change.unchecked)
        at = self._open.get(signature, -1)
        images = _images(change)
        if at < after or at < 0 or not self.groups[at].takes(change, _bytes(images), self._room):
            self.groups.append(_group(change))
            at = self._open[signature] = len(self.groups) - 1
        self.groups[at].add(change, images)
        for key in keys:
            last[key] = at


def _statements(done: Sequence[Arranged], room: int) -> list[ApplyStatement]:
    """The events in as few statements as they fit into; what the server does with them is asked before the first."""
    result: list[ApplyStatement] = []
    waiting: list[EventGroup] = []
    size = scans = 0
    guarded = False

    def send() -> None:
        nonlocal size, scans, guarded
        if waiting:
            if not guarded:
                first = {id(each.form): each for each in reversed(done) if isinstance(each, EventGroup)}
                for each in first.values():
                    look = each.form.look
                    expected = Expected(columns=look.names, key=look.key)
                    result.append(ApplyStatement(look.sql, expected, tuple(each.changes)))
                result.append(ApplyStatement(waiting[0].form.guard, Expected(affected=1), tuple(waiting[0].changes)))
                guarded = True
            result.append(_statement(waiting))
            waiting.clear()
        size = scans = 0

    for item in done:
        if isinstance(item, ApplyStatement):
            send()
            result.append(item)
            continue
        alone = item.form.alone or (waiting and waiting[-1].form.alone)
        other = alone and waiting and waiting[-1].form is not item.form
        session = waiting and waiting[-1].plan.settings != item.plan.settings
        if other or session or size + item.size > room or scans + item.scans > SCANNED_ROWS:
            send()
        waiting.append(item)
        size, scans = size + item.size, scans + item.scans
    send()
    return result


def _statement(groups: Sequence[EventGroup]) -> ApplyStatement:
    pieces: list[bytes] = []
    for each in groups:
        pieces += each.form.pieces(_KINDS[each.kind], each.images, unchecked=each.unchecked)
    changes = tuple([change for each in groups for change in each.changes])
    return ApplyStatement(binlog_statement(pieces), ANY, changes)
