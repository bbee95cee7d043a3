"""`compact`: several changes of one row within a batch become one, where the result is the same.

    INSERT, UPDATE   INSERT of the new values          DELETE, INSERT   UPDATE
    UPDATE, UPDATE   UPDATE from the first to the last  INSERT, DELETE   nothing, if there is no such row
    UPDATE, DELETE   DELETE                             safe mode        the last REPLACE, or DELETE

DM's compactor checks the primary key alone and puts the result at the end of its buffer, where another change may have
taken a value of a second unique key meanwhile. Here the rule of `grouped.py` holds. The second change moves to the
place of the first, so no change between the two may share a key with it. Both have the same values in the columns of
*all* unique keys, in every image. So the merged change can collide with exactly what each of the two can collide with.

Errors are part of the result. A dropped change could have failed in one of these ways, and each is excluded:

- A key is taken, or the row is missing. The merged change meets the same, or the count of its statement shows it.
  "Nothing" is a DELETE that must not find the row. That is a full check if there is one unique key and no missing
  partition.
- The target can't hold a value that only an intermediate image had. `plan.compacts` requires that every target column
  has the source's own type, and that no CHECK and no generated column could judge the value.
- A statement exceeds `max_allowed_packet`: long images are not merged.

Any other surprise ends the attempt. The original changes are then applied one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from dm.accelerator.native import Native
from dm.accelerator.switch import Twins
from dm.changes.keys import WILD, Key, keys_of
from dm.changes.plan import TablePlan
from dm.changes.row_change import ChangeKind, RowChange
from dm.changes.safe_mode import removes_others
from dm.changes.statement import has_zero_enum
from dm.mysql.binlog.value import ABSENT, Row


def compacted(changes: Sequence[RowChange], *, limit: int) -> Sequence[RowChange]:
    """The changes with those of one row merged; `limit`: the size of a statement that is always safe."""
    return _TWINS()(changes, limit)


class _Compact(Protocol):
    """Merges the changes of a batch."""

    def __call__(self, changes: Sequence[RowChange], limit: int, /) -> Sequence[RowChange]:
        """The remaining changes."""
        ...


def _compact(changes: Sequence[RowChange], limit: int) -> Sequence[RowChange]:
    return _Compactor(limit).run(changes)


def _compiled(native: Native) -> _Compact:
    def compact(changes: Sequence[RowChange], limit: int) -> Sequence[RowChange]:
        found = native.compacted(changes, limit, keys_of, ABSENT, WILD)
        return _compact(changes, limit) if found is None else found

    return compact


_TWINS: Final[Twins[_Compact]] = Twins(_compact, _compiled)


class _Compactor:
    """One batch: the remaining changes so far, and which of them touched a key last."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left: list[RowChange] = []
        self._last: dict[Key, int] = {}
        self._floor = 0  # changes before this place stay as they are
        self._safe: bool | None = None

    def run(self, changes: Iterable[RowChange]) -> list[RowChange]:
        """Take all changes; returns the remaining ones."""
        for change in changes:
            self._add(change)
        return self._left

    def _add(self, change: RowChange) -> None:
        left, plan = self._left, change.plan
        keys = keys_of(change)
        if change.safe is not self._safe:
            self._safe, self._floor = change.safe, len(left)
        if not plan.groupable or WILD in keys or removes_others(change):
            left.append(change)
            self._floor = len(left)
            return
        at = self._last.get(keys[0], -1) if plan.compacts and keys else -1
        if at >= self._floor and left[at].plan is plan and all(self._last.get(key) == at for key in keys):
            merged = self._merged(left[at], change)
            if merged is not None:
                merged.keys = keys_of(left[at])
                left[at] = merged
                return
        for key in keys:
            self._last[key] = len(left)
        left.append(change)

    def _merged(self, first: RowChange, second: RowChange) -> RowChange | None:
        plan = first.plan
        sides = [side for one in (first, second) for side in _sides(one)]
        if not self._alike(plan, [(image, raw) for image, raw in sides if image is not None]):
            return None
        return _safe_merge(plan, second) if first.safe else _merge(plan, first, second)

    def _alike(self, plan: TablePlan, images: Sequence[tuple[Row, bytes | None]]) -> bool:
        """Whether the images have the same keys, are whole, and are nothing special to write."""
        one = images[0][0]
        for image, raw in images:
            if any(image[at] != one[at] for at in plan.key_columns):
                return False
            if ABSENT in image or (plan.zero_enums and has_zero_enum(plan, image)):
                return False
            # A byte takes two digits as hexadecimal, or an escape.
            if plan.long_columns and 3 * _long_bytes(plan, image, raw) > self._limit:
                return False
        return True


def _sides(change: RowChange) -> tuple[tuple[Row | None, bytes | None], ...]:
    return (change.before, change.raw_before), (change.after, change.raw_after)


def _long_bytes(plan: TablePlan, image: Row, raw: bytes | None) -> int:
    # Of a raw image the values may not have been read.
    return sum(_length(image, at) for at in plan.long_columns) if raw is None else len(raw)


def _length(image: Row, at: int) -> int:
    value = image[at]
    return len(value) if isinstance(value, (bytes, str)) else 0


def _merge(plan: TablePlan, first: RowChange, second: RowChange) -> RowChange | None:
    kinds = first.kind, second.kind
    if kinds == (ChangeKind.INSERT, ChangeKind.UPDATE):
        return RowChange(plan, ChangeKind.INSERT, None, second.after, False, raw_after=second.raw_after)
    if kinds in ((ChangeKind.UPDATE, ChangeKind.UPDATE), (ChangeKind.DELETE, ChangeKind.INSERT)):
        before, after = first.raw_before, second.raw_after
        kind = ChangeKind.UPDATE
        return RowChange(plan, kind, first.before, second.after, False, raw_before=before, raw_after=after)
    if kinds == (ChangeKind.UPDATE, ChangeKind.DELETE):
        return RowChange(plan, ChangeKind.DELETE, first.before, None, False, raw_before=first.raw_before)
    forgets = plan.forgets_rows and not plan.insert_replaces and first.raw_after is None  # no event says "nothing"
    if kinds == (ChangeKind.INSERT, ChangeKind.DELETE) and forgets:
        return RowChange(plan, ChangeKind.NOTHING, first.after, None, False)
    return None  # impossible at the source, or a neighbouring row is involved


def _safe_merge(plan: TablePlan, second: RowChange) -> RowChange | None:
    """In safe mode a change only says what the row shall be; a REPLACE also removes rows with another key of it."""
    if second.after is not None:
        return RowChange(plan, ChangeKind.INSERT, None, second.after, True)
    if plan.forgets_rows:
        return RowChange(plan, ChangeKind.DELETE, second.before, None, True)
    return None
