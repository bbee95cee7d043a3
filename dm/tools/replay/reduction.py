"""The net effect of a stretch on each row: what it was at the beginning, if it was there, and what it is at the end.

A row is identified by the values of its key, byte for byte as the source wrote them. No collation is involved: the
before image of a change equals the after image of the row's previous change. An UPDATE that changes the key ends one
row and begins another. So "a" that became "A" is a removed row and a new row. Whether the target holds the two keys for
equal does not matter, as long as all removals come before all writes.

From the net effects follow three kinds of changes, for which any order among themselves is right:

    there at the beginning, not at the end      a removal
    not there at the beginning, there at the end     a write: INSERT
    there at both: with the same values in all unique keys    a write: UPDATE
                   with others                       a removal, and an INSERT

The rows at the end exist together at the source, and with the rows that the stretch never touched. So once all removals
are done, no INSERT meets a row with one of its unique keys. An UPDATE takes no key that its row has not had.

If earlier runs may have applied parts of the stretch (`again`), the beginning is unknown: each touched key is removed,
and each row that is there at the end is inserted.

Pieces of a stretch are reduced one by one, and their net effects joined in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any, NamedTuple
from zlib import crc32

from dm.changes.plan import TablePlan
from dm.changes.row_change import ChangeKind, RowChange
from dm.errors import DMError
from dm.mysql.binlog.value import Row

RowKey = Any
"""The value of a key of one column, or the values of several."""


class Net(NamedTuple):
    """What a stretch does to one row; an image with its bytes, where the source's may go to the target."""

    key: RowKey
    existed: bool
    before: Row | None  # at the beginning; where it did not exist, the first image of it
    raw_before: bytes | None
    after: Row | None  # at the end
    raw_after: bytes | None


# A list, as it is changed for each change of the row: whether it existed, the first image, the last.
_State = list[Any]
_EXISTED, _BEFORE, _RAW_BEFORE, _AFTER, _RAW_AFTER = range(5)


class Reduction:
    """The rows of one table."""

    def __init__(self, plan: TablePlan) -> None:
        self._table = plan.source
        self._key_of = itemgetter(*[column.at for column in plan.row_key])
        self._rows: dict[RowKey, _State] = {}
        self.changes = 0

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, change: RowChange) -> None:
        """Take the next change of the table; raises DMError where it does not follow from those before."""
        self.changes += 1
        before, after = change.before, change.after
        if change.kind is ChangeKind.INSERT:
            assert after is not None
            self._put(self._key_of(after), after, change.raw_after)
            return
        assert before is not None
        key = self._key_of(before)
        state = self._rows.get(key)
        if state is None:
            state = self._rows[key] = [True, before, change.raw_before, None, None]
        elif state[_AFTER] is None:
            raise self._unlike(key, "changed, and is not there")
        if after is None:
            state[_AFTER] = state[_RAW_AFTER] = None
            return
        moved = self._key_of(after)
        if moved == key:
            state[_AFTER], state[_RAW_AFTER] = after, change.raw_after
            return
        state[_AFTER] = state[_RAW_AFTER] = None
        self._put(moved, after, change.raw_after)

    def _put(self, key: RowKey, after: Row, raw: bytes | None) -> None:
        state = self._rows.get(key)
        if state is None:
            self._rows[key] = [False, after, raw, after, raw]
        elif state[_AFTER] is not None:
            raise self._unlike(key, "inserted, and is there")
        else:
            state[_AFTER], state[_RAW_AFTER] = after, raw

    def join(self, later: Iterable[Net]) -> None:
        """Take the net effects of the piece that follows; raises DMError where they don't follow."""
        rows = self._rows
        for net in later:
            state = rows.get(net.key)
            if state is None:
                rows[net.key] = [*net[1:]]
                continue
            if net.existed != (state[_AFTER] is not None):
                raise self._unlike(net.key, "changed, and is not there" if net.existed else "inserted, and is there")
            state[_AFTER], state[_RAW_AFTER] = net.after, net.raw_after

    def nets(self) -> Iterator[Net]:
        """The rows so far, in the order in which they were first touched."""
        for key, state in self._rows.items():
            yield Net(key, *state)

    def _unlike(self, key: RowKey, what: str) -> DMError:
        return DMError("replay-history-unlike", table=self._table, key=key, what=what)


def bucket_of(key: RowKey, buckets: int) -> int:
    """The bucket of a key, the same in every process."""
    if isinstance(key, int):
        return key % buckets
    return crc32(repr(key).encode("utf-8", "surrogatepass")) % buckets


class Changer:
    """Makes the changes of one table from its rows' net effects."""

    def __init__(self, plan: TablePlan, *, again: bool, updates: bool) -> None:
        self._plan = plan
        self._again = again
        self._updates = updates  # the values of all its unique keys are in the rows
        self._keys = sorted(plan.key_columns)

    def removal(self, net: Net) -> RowChange | None:
        """The removal that a row's net effect asks for."""
        if self._again:
            return RowChange(self._plan, ChangeKind.DELETE, net.before, None, True, keys=())
        if not net.existed or self._stays(net):
            return None
        return RowChange(self._plan, ChangeKind.DELETE, net.before, None, False, keys=(), raw_before=net.raw_before)

    def write(self, net: Net) -> RowChange | None:
        """The write that it asks for."""
        if net.after is None:
            return None
        if not self._again and net.existed and self._stays(net):
            return RowChange(
                self._plan,
                ChangeKind.UPDATE,
                net.before,
                net.after,
                False,
                keys=(),
                raw_before=net.raw_before,
                raw_after=net.raw_after,
            )
        return RowChange(self._plan, ChangeKind.INSERT, None, net.after, False, keys=(), raw_after=net.raw_after)

    def _stays(self, net: Net) -> bool:
        before, after = net.before, net.after
        if after is None or before is None or not self._updates:
            return False
        return all(before[at] == after[at] for at in self._keys)
