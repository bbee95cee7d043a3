"""Rows that wait: the last change of a row counts, the quota holds, and what is stored comes back."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from dm.ident import TableName
from dm.mysql.schema.table import Column
from dm.tools.validator.pending import Kind, PendingRow, PendingRows, Shape, restored

COLUMNS = (Column("id", "int", nullable=False), Column("v", "varchar", 10, charset="utf8mb4"))
CHANGES = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["insert", "update", "delete"]), st.binary(max_size=9)))


def shape(table: str = "t", *, compared: Sequence[str] = ("id", "v")) -> Shape:
    return Shape(TableName("s", table), TableName("d", table), COLUMNS, ("id",), frozenset(compared))


def row(of: Shape, key: int, kind: Kind = "insert", values: bytes = b"1,'a'") -> PendingRow:
    return PendingRow(of, kind, b"(%d)" % key, values)


@given(CHANGES)
def test_only_the_last_change_of_a_row_waits(changes: list[tuple[int, Kind, bytes]]) -> None:
    of, pending = shape(), PendingRows(1000, 1 << 30)
    last: dict[int, tuple[Kind, bytes]] = {}
    for key, kind, values in changes:
        pending.put(row(of, key, kind, values))
        last[key] = (kind, values)
    found = {int(each.key[1:-1]): (each.kind, each.values) for each in pending.all()}
    assert found == last
    kinds = [kind for kind, _ in last.values()]
    assert pending.counts() == {kind: kinds.count(kind) for kind in ("insert", "update", "delete")}
    for each in pending.all():
        assert pending.done(each)
    assert (len(pending), pending.used) == (0, 0)


@given(CHANGES, st.booleans())
def test_what_is_stored_comes_back(changes: list[tuple[int, Kind, bytes]], failed: bool) -> None:
    shapes = [shape("t"), shape("u", compared=["id"])]
    rows = [row(shapes[key % 2], key, kind, values) for key, kind, values in changes]
    for each in rows:
        each.failed_at = 12.5 if failed else None
    known: dict[Shape, int] = {}
    again = restored([each.stored(known) for each in rows])

    def told(one: PendingRow) -> tuple[object, ...]:
        of = one.shape
        return one.kind, one.key, one.values, one.failed_at, of.source, of.target, of.columns, of.key, of.compared

    assert [told(each) for each in again] == [told(each) for each in rows]
    assert len({id(each.shape) for each in again}) == len({id(each.shape) for each in rows})


def test_a_result_counts_only_for_the_change_that_was_looked_at() -> None:
    of, pending = shape(), PendingRows(10, 1 << 30)
    old, new = row(of, 1), row(of, 1, "update")
    pending.put(old)
    pending.put(new)
    assert not pending.done(old)
    assert not pending.current(old)
    assert pending.current(new)


def test_who_reads_waits_for_room() -> None:
    of, pending = shape(), PendingRows(2, 1 << 30)
    rows = [row(of, key) for key in (1, 2)]
    for each in rows:
        pending.put(each)
    assert pending.full
    waited = threading.Event()

    def wait() -> None:
        pending.wait_for_room()
        waited.set()

    threading.Thread(target=wait, daemon=True).start()
    assert not waited.is_set()
    pending.done(rows[0])
    assert waited.wait(30)
    assert not pending.full


def test_bytes_fill_the_quota_too() -> None:
    pending = PendingRows(1000, 5000)
    pending.put(row(shape(), 1, values=b"x" * 5000))
    assert pending.full


def test_rows_follow_the_names_of_their_tables() -> None:
    one, two, pending = shape("a"), shape("b"), PendingRows(10, 1 << 30)
    pending.put(row(one, 1, values=b"of a"))
    pending.put(row(two, 1, values=b"of b"))
    between = TableName("s", "x")
    for old, new in ((one.source, between), (two.source, one.source), (between, two.source)):
        pending.rename({old: (new, TableName("d", new.table))})
    assert {(str(each.shape.target), each.values) for each in pending.all()} == {("d.b", b"of a"), ("d.a", b"of b")}
    assert pending.forget(lambda of: of.target == TableName("d", "a")) == 1
    assert [each.values for each in pending.all()] == [b"of a"]
