"""Whether rows of one source table meet in a unique key that only the target has, where safe mode is to replace them.

In safe mode a REPLACE removes every row that has a key of the new one. By a key of the source that is an older or newer
state of the same row, or a row that the source has moved. By a key that the source lacks it may be a row that is still
there. So the target is asked twice in the transaction of a batch:

- before its statements: has another row the key, one that no change of the batch touches? Rows of a batch may exchange
  a key's values, so those that the batch writes or deletes itself are no reason to stop.
- after them: are all rows there that the batch leaves? One that has gone for a later one of the batch is not.

Rows are told apart by the source's own key, or where it has none by the key that finds rows at the target. A row that
another batch moves can't be told from one that is still there: in a replay such a key may pause the task although the
source never had two such rows at one time. What can't be compared here (a part that the target computes, a prefix) the
target's index refuses: safe mode uses no REPLACE for those tables (`TablePlan.upsert`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from dm.changes.plan import TablePlan
from dm.changes.row_change import RowChange, by_plan, decode_all, plans_of, row_left
from dm.changes.row_keys import LackedKey
from dm.changes.statement import find, holds, shown
from dm.errors import DMError
from dm.mysql.binlog.value import Row

Ask = Callable[[bytes], Sequence[Sequence[object]]]

_ROWS = 200


@dataclass(frozen=True, slots=True)
class MetRow:
    """A change whose row meets another one of the target."""

    change: RowChange
    index: str
    other: Sequence[object]  # the key of the other row

    def error(self) -> DMError:
        """The error for it."""
        plan, row = self.change.plan, row_left(self.change)
        there = zip(plan.lacked.source_key, self.other, strict=True)
        names = [
            ", ".join(f"{column.target.name} = {shown(value)}" for column, value in pairs)
            for pairs in (
                [(column, value if isinstance(value, bytes) else str(value)) for column, value in there],
                [(column, row[column.at]) for column in plan.lacked.source_key],
            )
        ]
        return own_key_met(plan, self.index, " and ".join(names))


def own_key_met(plan: TablePlan, index: str, rows: str, cause: str = "") -> DMError:
    """The error for rows that meet in the index."""
    return DMError("own-key-met", table=plan.target, source_table=plan.source, index=index, rows=rows, cause=cause)


@dataclass(frozen=True, slots=True)
class OwnKeyCheck:
    """The changes of a batch that are of one plan with such keys."""

    plan: TablePlan
    changes: Sequence[RowChange]

    def met_before(self, ask: Ask) -> MetRow | None:
        """Before the batch is written: a row of it that meets one which no change touches."""
        written = ((change, row_left(change)) for change in self.changes if change.safe and change.after is not None)
        each = (
            (change, key, self._others(key, row))
            for change, row in written
            for key in self.plan.lacked.compared
            if not any(row[column.at] is None for column in key.columns)
        )
        while some := list(islice(each, _ROWS)):
            any_of = _any(condition for _, _, condition in some)
            if not ask(self._rows(any_of)):
                continue
            untouched = b" AND NOT " + _any(dict.fromkeys(self._touched()))
            if not ask(self._rows(any_of + untouched)):
                continue
            for change, key, condition in some:
                found = ask(self._rows(b"(" + condition + b")" + untouched))
                if found:
                    return MetRow(change, key.index, found[0])
        return None

    def met_after(self, ask: Ask) -> MetRow | None:
        """After it is written: a row of it that is not there, for one that has its key."""
        left: dict[tuple[object, ...], RowChange] = {}
        for change in self.changes:
            if change.before is not None:
                left.pop(self._key(change.before), None)
            if change.after is not None:
                left[self._key(row_left(change))] = change
        rows = iter(left.values())
        while some := list(islice(rows, _ROWS)):
            conditions = [find(self.plan, row_left(change)) for change in some]
            if len(ask(self._rows(_any(conditions), len(some)))) == len(some):
                continue
            for change, condition in zip(some, conditions, strict=True):
                if not ask(self._rows(condition)):
                    for key in self.plan.lacked.compared:
                        found = ask(self._rows(self._others(key, row_left(change))))
                        if found:
                            return MetRow(change, key.index, found[0])
        return None

    def _rows(self, condition: bytes, most: int = 1) -> bytes:
        names = b",".join([column.sql for column in self.plan.lacked.source_key])
        table = self.plan.target.sql.encode()
        return b"SELECT " + names + b" FROM " + table + b" WHERE " + condition + b" LIMIT %d" % most

    def _others(self, key: LackedKey, row: Row) -> bytes:
        same = holds(self.plan, self.plan.lacked.source_key, row)
        return holds(self.plan, key.columns, row) + b" AND NOT (" + same + b")"

    def _touched(self) -> Iterator[bytes]:
        for change in self.changes:
            if change.before is not None:
                yield holds(self.plan, self.plan.lacked.source_key, change.before)
            if change.after is not None:
                yield holds(self.plan, self.plan.lacked.source_key, row_left(change))

    def _key(self, row: Row) -> tuple[object, ...]:
        return tuple([row[column.at] for column in self.plan.lacked.source_key])


def own_key_checks(changes: Sequence[RowChange]) -> Iterator[OwnKeyCheck]:
    """What has to be asked for a batch; nothing unless it replaces rows of a table with such a key."""
    if not any(plan.lacked.compared for plan in plans_of(changes)):
        return
    concerned = [change for change in changes if change.plan.lacked.compared]
    if not any(change.safe for change in concerned):
        return
    decode_all(concerned)
    for of_plan in by_plan(concerned):
        yield OwnKeyCheck(of_plan[0].plan, of_plan)


def _any(conditions: Iterator[bytes] | Sequence[bytes] | dict[bytes, None]) -> bytes:
    return b"(" + b" OR ".join([b"(" + condition + b")" for condition in conditions]) + b")"
