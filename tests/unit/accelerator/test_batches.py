"""Compaction and grouping of batches, compiled and in Python."""

from __future__ import annotations

import random
from types import ModuleType, SimpleNamespace

import pytest

from dm.changes.compacted import compacted
from dm.changes.grouped import grouped
from dm.changes.keys import WILD, keys_of
from dm.changes.row_change import ChangeKind, RowChange, tally
from dm.mysql.binlog.value import ABSENT
from tests.testbed.decoders import running
from tests.unit.accelerator.batches_at_random import any_batch, copied, made
from tests.unit.changes.plans import insert, key, number, plan

ONE = plan([number("a")], [key("PRIMARY", "a")])


def test_batches_of_any_changes(native: ModuleType) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    chance = random.Random(seed)
    answered = merged = failed = 0
    for number_of in range(800):
        batch, limit = any_batch(chance), chance.choice((100, 1000, 1 << 20))
        found = made(native, copied(batch), limit)
        assert found == made(None, copied(batch), limit), (seed, number_of, batch)
        if isinstance(found, tuple) and isinstance(found[0], str):
            failed += 1
            continue
        with running(native):
            left = compacted(copied(batch), limit=limit)
        merged += len(left) < len(batch)
        answered += native.grouped(left, limit, keys_of, lambda change: [], ABSENT, WILD) is not None
    assert min(answered, merged, failed) > 5, (seed, answered, merged, failed)


def test_what_nothing_moves_over_is_left_to_python(native: ModuleType) -> None:
    keyless = plan([number("a")], [])
    for batch in ([insert(keyless, 1)], [insert(ONE, 1), insert(keyless, 1)], [SimpleNamespace(safe=False)]):
        assert native.grouped(batch, 100, keys_of, list, ABSENT, WILD) is None
    assert native.compacted([SimpleNamespace(safe=False)], 100, keys_of, ABSENT, WILD) is None


def test_a_change_that_is_not_whole_is_left_to_python(native: ModuleType) -> None:
    unset = RowChange.__new__(RowChange)
    strange = [
        unset,
        RowChange(ONE, ChangeKind.INSERT, None, None, False),
        RowChange(ONE, ChangeKind.UPDATE, (1,), None, False),
        RowChange(ONE, ChangeKind.DELETE, (), None, False),
    ]
    for change in strange:
        assert native.grouped([change], 100, keys_of, list, ABSENT, WILD) is None
        assert native.compacted([change], 100, keys_of, ABSENT, WILD) is None


def test_what_python_raises_on_the_way_comes_through(native: ModuleType) -> None:
    class Unequal:
        def __hash__(self) -> int:
            raise RuntimeError("no hash")

    change = insert(ONE, 1)
    change.keys = (("token", Unequal()),)
    with running(native):
        for loop in (compacted, grouped):
            with pytest.raises(RuntimeError, match="no hash"):
                loop([change], limit=100)


@pytest.mark.parametrize("arguments", [(), ([], 9, 5, list, 0, 0), ([], "9", keys_of, list, 0, 0)])
def test_what_are_no_changes_is_refused(native: ModuleType, arguments: tuple[object, ...]) -> None:
    with pytest.raises((TypeError, AttributeError)):
        native.grouped(*arguments)
    with pytest.raises((TypeError, AttributeError)):
        native.compacted(*arguments)


def test_both_count_a_batch_alike(native: ModuleType) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(300):
        batch = [change for _ in range(chance.randrange(4)) for change in any_batch(chance)]
        chance.shuffle(batch)
        found = []
        for extension in (native, None):
            with running(extension):
                found.append([(id(one), *counts) for one, *counts in tally(batch)])
        assert found[0] == found[1]
        assert sum(sum(counts) for _, *counts in found[0]) == len(batch)


def test_a_batch_of_many_plans_or_of_something_else_is_counted_in_python(native: ModuleType) -> None:
    plans = [plan([number("a")], [key("PRIMARY", "a")]) for _ in range(17)]
    assert native.tally([insert(one, 1) for one in plans]) is None
    assert len(native.tally([insert(one, 1) for one in plans[1:]])) == 16
    for strange in ([None], [RowChange.__new__(RowChange)], (insert(ONE, 1),), [SimpleNamespace(plan=ONE)]):
        assert native.tally(strange) is None
    with running(native):
        assert [one for one, *_ in tally([insert(one, 1) for one in plans])] == plans
