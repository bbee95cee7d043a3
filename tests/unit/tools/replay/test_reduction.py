"""Net effects, joined over any cut and applied in any order, give what the changes give one after the other."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.changes.plan import TablePlan
from dm.changes.row_change import ChangeKind, RowChange
from dm.errors import DMError
from dm.mysql.binlog.value import UNREAD, Row
from dm.tools.replay.reduction import Changer, Net, Reduction, bucket_of
from tests.unit.changes.plans import delete, insert, key, number, plan, text, update

UNIQUES = plan([number("a"), number("b", nullable=True), number("c")], [key("PRIMARY", "a"), key("b", "b")])
TEXTS = plan([text("k", collation="utf8mb4_general_ci"), number("v")], [key("PRIMARY", "k")])

UniqueKeys = Callable[[Row], Iterable[object]]


def keys_of_uniques(row: Row) -> Iterable[object]:
    a, b, _ = row
    return [("a", a)] + ([] if b is None else [("b", b)])


def keys_of_texts(row: Row) -> Iterable[object]:
    """As the target compares them: without case."""
    name = row[0]
    assert isinstance(name, bytes)
    return [name.lower()]


class Target:
    """A table that refuses what a server refuses."""

    def __init__(self, rows: Iterable[Row], keys: UniqueKeys) -> None:
        self._keys = keys
        self.rows: list[Row] = [*rows]

    def _place(self, row: Row) -> int | None:
        """By the first of its keys, as a server finds it."""
        (wanted, *_) = self._keys(row)
        return next((at for at, other in enumerate(self.rows) if wanted in self._keys(other)), None)

    def _demand_free(self, row: Row) -> None:
        taken = {each for other in self.rows for each in self._keys(other)}
        assert taken.isdisjoint(self._keys(row)), f"{row} meets another row"

    def apply(self, change: RowChange) -> None:
        """As the statement of it does; a change in safe mode may find nothing."""
        if change.kind is not ChangeKind.INSERT:
            assert change.before is not None
            at = self._place(change.before)
            assert at is not None or change.safe, f"{change.before} is missing"
            if at is not None:
                del self.rows[at]
        if change.after is not None:
            self._demand_free(change.after)
            self.rows.append(change.after)


class Source:
    """Draws changes that a table with such keys allows."""

    def __init__(self, of: TablePlan, keys: UniqueKeys, draw_row: Callable[[], Row], chance: random.Random) -> None:
        self._plan, self._keys, self._draw, self._chance = of, keys, draw_row, chance
        self.rows: list[Row] = []

    def _free(self, row: Row, but: Row | None = None) -> bool:
        taken = {each for other in self.rows if other is not but for each in self._keys(other)}
        return taken.isdisjoint(self._keys(row))

    def changes(self, count: int) -> list[RowChange]:
        found: list[RowChange] = []
        while len(found) < count:
            old = self._chance.choice(self.rows) if self.rows and self._chance.random() < 0.7 else None
            new = None if old is not None and self._chance.random() < 0.4 else self._draw()
            if new is not None and not self._free(new, old):
                continue
            if old is not None:
                self.rows.remove(old)
            if new is not None:
                self.rows.append(new)
            if old is None:
                assert new is not None
                found.append(insert(self._plan, *new))
            else:
                found.append(delete(self._plan, *old) if new is None else update(self._plan, old, new))
        return found


def reduced(of: TablePlan, changes: Sequence[RowChange], cuts: Sequence[int], buckets: int) -> list[list[Net]]:
    """The net effects by bucket, joined over the pieces that the cuts make."""
    joined = [Reduction(of) for _ in range(buckets)]
    edges = [0, *sorted(cuts), len(changes)]
    for begin, end in pairwise(edges):
        piece = Reduction(of)
        for change in changes[begin:end]:
            piece.add(change)
        for bucket, whole in enumerate(joined):
            whole.join([net for net in piece.nets() if bucket_of(net.key, buckets) == bucket])
    return [[*whole.nets()] for whole in joined]


def apply_in_any_order(target: Target, changes: Iterable[RowChange | None], chance: random.Random) -> None:
    some = [change for change in changes if change is not None]
    chance.shuffle(some)
    for change in some:
        target.apply(change)


def sources(chance: random.Random) -> list[tuple[TablePlan, UniqueKeys, Source]]:
    def uniques() -> Row:
        return chance.randrange(6), chance.choice((None, 1, 2, 3, 4)), chance.randrange(3)

    def texts() -> Row:
        return chance.choice((b"a", b"A", b"b", b"B", b"c", b"C")), chance.randrange(3)

    return [
        (UNIQUES, keys_of_uniques, Source(UNIQUES, keys_of_uniques, uniques, chance)),
        (TEXTS, keys_of_texts, Source(TEXTS, keys_of_texts, texts, chance)),
    ]


@given(seed=st.integers(0, 1 << 32), count=st.integers(1, 60), buckets=st.integers(1, 4), pieces=st.integers(0, 4))
def test_the_net_effect_is_that_of_the_changes(seed: int, count: int, buckets: int, pieces: int) -> None:
    chance = random.Random(seed)
    for of, keys, source in sources(chance):
        source.changes(chance.randrange(12))
        target = Target(source.rows, keys)
        changes = source.changes(count)
        cuts = [chance.randrange(count + 1) for _ in range(pieces)]
        nets = [net for bucket in reduced(of, changes, cuts, buckets) for net in bucket]
        assert len({net.key for net in nets}) == len(nets)
        changer = Changer(of, again=False, updates=chance.random() < 0.7)
        apply_in_any_order(target, map(changer.removal, nets), chance)
        apply_in_any_order(target, map(changer.write, nets), chance)
        assert sorted(target.rows, key=repr) == sorted(source.rows, key=repr)


@given(seed=st.integers(0, 1 << 32), count=st.integers(1, 60))
def test_what_was_begun_before_is_brought_to_the_same_end(seed: int, count: int) -> None:
    chance = random.Random(seed)
    for of, keys, source in sources(chance):
        source.changes(chance.randrange(12))
        start = [*source.rows]
        changes = source.changes(count)
        nets = [net for bucket in reduced(of, changes, [count // 2], 2) for net in bucket]
        # Of each touched row nothing may be there, or what it is at either end, or an image in between.
        target = Target([], keys)
        touched = {net.key for net in nets}
        for row in start:
            if Reduction(of)._key_of(row) not in touched:
                target.apply(insert(of, *row))
        images = [row for change in changes for row in (change.before, change.after) if row is not None]
        chance.shuffle(images)
        for row in images[: chance.randrange(len(images) + 1)]:
            taken = {each for other in target.rows for each in keys(other)}
            if taken.isdisjoint(keys(row)):
                target.apply(insert(of, *row))
        changer = Changer(of, again=True, updates=True)
        apply_in_any_order(target, map(changer.removal, nets), chance)
        apply_in_any_order(target, map(changer.write, nets), chance)
        assert sorted(target.rows, key=repr) == sorted(source.rows, key=repr)


def test_a_row_keeps_the_bytes_of_its_first_and_its_last_image() -> None:
    reduction = Reduction(UNIQUES)
    first = update(UNIQUES, (1, 1, UNREAD), (1, 2, UNREAD))
    first.raw_before, first.raw_after = b"first", b"second"
    last = update(UNIQUES, (1, 2, UNREAD), (1, 1, UNREAD))
    last.raw_before, last.raw_after = b"second", b"third"
    reduction.add(first)
    reduction.add(last)
    (net,) = reduction.nets()
    assert (net.raw_before, net.raw_after) == (b"first", b"third")
    changer = Changer(UNIQUES, again=False, updates=True)
    assert changer.removal(net) is None
    written = changer.write(net)
    assert written is not None
    assert (written.kind, written.raw_before, written.raw_after) == (ChangeKind.UPDATE, b"first", b"third")


@pytest.mark.parametrize(
    "changes",
    [
        [insert(UNIQUES, 1, 1, 1), insert(UNIQUES, 1, 2, 2)],
        [delete(UNIQUES, 1, 1, 1), delete(UNIQUES, 1, 1, 1)],
        [delete(UNIQUES, 1, 1, 1), update(UNIQUES, (1, 1, 1), (1, 2, 2))],
        [insert(UNIQUES, 2, 2, 2), update(UNIQUES, (1, 1, 1), (2, 2, 2))],
    ],
)
def test_changes_that_do_not_fit_together_are_refused(changes: list[RowChange]) -> None:
    def together() -> None:
        reduction = Reduction(UNIQUES)
        for change in changes:
            reduction.add(change)

    def joined() -> None:
        whole = Reduction(UNIQUES)
        for change in changes:
            one = Reduction(UNIQUES)
            one.add(change)
            whole.join(one.nets())

    for reduce in (together, joined):
        with pytest.raises(DMError) as raised:
            reduce()
        assert raised.value.name == "replay-history-unlike"


def test_buckets_do_not_depend_on_the_process() -> None:
    assert [bucket_of(key, 7) for key in (5, -1, (1, "x"), b"text", "1.50")] == [5, 6, 6, 4, 1]
