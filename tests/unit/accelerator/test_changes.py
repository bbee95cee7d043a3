"""The compiled loop makes the row changes, keys included, that Python makes, and gives them to the same workers."""

from __future__ import annotations

import random
from types import ModuleType
from typing import cast

from dm.changes.keys import Key
from dm.changes.native_changes import Room
from dm.changes.plan import TablePlan
from dm.changes.row_change import ChangeKind, RowChange
from dm.syncer.conflict_detector import CONFLICT, ConflictDetector
from tests.testbed.decoders import running
from tests.unit.accelerator.changes_at_random import compare


def test_changes_of_any_table(native: ModuleType) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    made = sum(compare(native, seed + number, damage=False) for number in range(400))
    assert made > 100, "hardly any was made by the loop"


def test_changes_of_damaged_events(native: ModuleType) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    for number in range(400):
        compare(native, seed + number, damage=True)


def some_changes(chance: random.Random) -> list[RowChange]:
    made = []
    for _ in range(chance.randrange(1, 60)):
        keys: tuple[Key, ...] = tuple({("t", chance.randrange(40)) for _ in range(chance.randrange(3))})
        change = RowChange(cast(TablePlan, None), ChangeKind.INSERT, None, (1,), False)
        change.keys = keys
        made.append(change)
    return made


BATCH, FULL, SHARE, MOST, COST = 3, 7, 50, 40, 10


def room(held: list[list[RowChange]], most: int) -> Room:
    counts = [len(changes) for changes in held]
    return counts, [COST * count for count in counts], COST, BATCH, FULL, SHARE, most


def placed(
    detector: ConflictDetector, changes: list[RowChange], chance: random.Random | None
) -> tuple[list[list[RowChange]], int]:
    """What each worker got, and how often all of them were waited for; with `chance`, by `place_all` where it can."""
    held: list[list[RowChange]] = [[] for _ in range(4)]
    at = waited = 0
    while at < len(changes):
        if chance is not None:
            most = chance.randrange(1, 30)
            before = room(held, most)
            parts, end = detector.place_all(changes, at, before)
            filled = []
            for worker, part in parts:
                held[worker] += part
                count = len(held[worker])
                assert before[0][worker] + len(part) == count
                if count >= BATCH and (count >= FULL or COST * count >= SHARE):
                    filled.append(worker)
                    assert part[-1] is changes[end - 1], "it went on behind a full batch"
            assert len(filled) <= 1
            assert end - at == sum(len(part) for _, part in parts) <= most
            at = end
        if at == len(changes):
            break
        keys = changes[at].keys
        assert keys is not None
        if (worker := detector.place(keys)) == CONFLICT:
            waited += 1
            detector.clear()
            worker = detector.place(keys)
        held[worker].append(changes[at])
        at += 1
    return held, waited


def test_changes_go_to_the_workers_that_each_would_go_to_alone(native: ModuleType) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(500):
        follows, limit, free = chance.random() < 0.7, chance.choice([3, 20, 1000]), [0]
        detectors = []
        for extension in (native, None):
            with running(extension):
                detectors.append(
                    ConflictDetector(
                        4,
                        limit=limit,
                        policy="follow" if follows else "flush-on-overlap",
                        choose=lambda free=free: free[0],  # type: ignore[misc]
                    )
                )
        for _ in range(6):
            changes = some_changes(chance)
            free[0] = chance.randrange(4)
            assert placed(detectors[0], changes, chance) == placed(detectors[1], changes, None)
            assert detectors[0].placed == detectors[1].placed
            assert (detectors[0].conflicts, detectors[0].overflows) == (detectors[1].conflicts, detectors[1].overflows)
            assert len(detectors[0]) == len(detectors[1])
