"""Changes drawn at random, given to workers by the compiled loop and by Python, which must agree."""

from __future__ import annotations

import contextlib
import random
from array import array
from bisect import bisect_right
from types import ModuleType
from typing import cast

from dm.changes.keys import Key
from dm.changes.native_changes import Room
from dm.changes.plan import TablePlan
from dm.changes.row_change import ChangeKind, RowChange
from dm.syncer.apply.conflict_detector import CONFLICT, ConflictDetector
from tests.testbed.decoders import running


def some_changes(chance: random.Random) -> list[RowChange]:
    made = []
    for _ in range(chance.randrange(1, 60)):
        keys: tuple[Key, ...] = tuple({("t", chance.randrange(40)) for _ in range(chance.randrange(3))})
        change = RowChange(cast(TablePlan, None), ChangeKind.INSERT, None, (1,), False)
        change.keys = keys
        made.append(change)
    return made


BATCH, FULL, SHARE, COST = 3, 7, 50, 10


def room(held: list[list[RowChange]], most: int) -> Room:
    counts = [len(changes) for changes in held]
    return Room(counts, [COST * count for count in counts], COST, BATCH, FULL, SHARE, most)


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
                    assert part[-1] is changes[end - 1], "it went on after a full batch"
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


def agree(native: ModuleType, chance: random.Random) -> None:
    """Several transactions, one after the other."""
    limit, free = chance.choice([3, 20, 1000]), [0]
    detectors = []
    for extension in (native, None):
        with running(extension):
            detectors.append(
                ConflictDetector(
                    4,
                    limit=limit,
                    choose=lambda: free[0],
                )
            )
    for _ in range(6):
        changes = some_changes(chance)
        free[0] = chance.randrange(4)
        assert placed(detectors[0], changes, chance) == placed(detectors[1], changes, None)
        assert (detectors[0].conflicts, detectors[0].overflows) == (detectors[1].conflicts, detectors[1].overflows)
        assert len(detectors[0]) == len(detectors[1])


def give_nonsense(native: ModuleType, chance: random.Random) -> None:
    """Lanes that there are not, numbers that are none: an error, or an answer."""

    def odd() -> int:
        return chance.choice((-1, 0, 1, 3, 7, 1 << 40, 1 << 70))

    maker = native.ChangeMaker(odd() & 7, odd() & 3, 1)
    lanes = [odd() for _ in range(chance.randrange(5))]
    room = (
        lanes,
        chance.choice((lanes, lanes[1:], [odd(), "none"])),
        *(odd() for _ in range(chance.choice((4, 5, 5, 5)))),
    )
    changes: list[object] = [*some_changes(chance), *chance.choice(([], [None], [object()]))]
    holder = {("t", chance.randrange(40)): odd() for _ in range(chance.randrange(3))}
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        maker.spread(holder, changes, odd(), odd(), odd(), room)
    ends = [odd() for _ in range(chance.randrange(9))]
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        maker.spread_run(holder, changes, odd() & 7, odd() & 3, odd(), room, chance.choice((ends, [None], ())))


def by_transaction(
    detector: ConflictDetector, changes: list[RowChange], ends: list[int], chance: random.Random | None
) -> list[list[tuple[int, RowChange]]]:
    """What each worker got, each change with its transaction; with `chance`, by `place_run` where it can."""
    held: list[list[tuple[int, RowChange]]] = [[] for _ in range(4)]
    at = 0
    while at < len(changes):
        if chance is not None:
            most = chance.randrange(1, 30)
            given = [[change for _, change in some] for some in held]
            parts, end = detector.place_run(changes, at, room(given, most), ends)
            for worker, some, transactions in parts:
                held[worker] += zip(array("I", transactions), some, strict=True)
            assert end - at == sum(len(some) for _, some, _ in parts) <= most
            at = end
        if at == len(changes):
            break
        keys = changes[at].keys
        assert keys is not None
        if (worker := detector.place(keys)) == CONFLICT:
            detector.clear()
            worker = detector.place(keys)
        held[worker].append((bisect_right(ends, at), changes[at]))
        at += 1
    return held


def agree_on_runs(native: ModuleType, chance: random.Random) -> None:
    """The changes of several transactions at once, some of them without any."""
    limit, free = chance.choice([3, 20, 1000]), chance.randrange(4)
    changes = some_changes(chance)
    cuts = sorted(chance.choices(range(len(changes) + 1), k=chance.randrange(6)))
    ends = [*cuts, len(changes)]
    found = []
    for extension in (native, None):
        with running(extension):
            detector = ConflictDetector(4, limit=limit, choose=lambda: free)
        found.append(by_transaction(detector, changes, ends, None if extension is None else chance))
    assert found[0] == found[1]
