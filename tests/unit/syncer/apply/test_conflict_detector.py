"""Changes with a key in common keep their order, others run side by side."""

from __future__ import annotations

import random
from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.changes.keys import WILD, Key, keys_of
from dm.syncer.apply.conflict_detector import CONFLICT, ConflictDetector
from tests.unit.changes.plans import delete, insert, key, number, plan, update

pytestmark = pytest.mark.usefixtures("twin")

A, B = number("a"), number("b")


def k(*names: object) -> tuple[Key, ...]:
    """Keys of one part each."""
    return tuple((name,) for name in names)


def test_an_update_between_two_workers_rows_is_one_conflict() -> None:
    table = plan([A, B], [key("PRIMARY", "a"), key("b", "b")])
    detector = ConflictDetector(4)
    first = detector.place(keys_of(insert(table, 1, 1)))
    second = detector.place(keys_of(insert(table, 2, 2)))
    assert first != second
    assert detector.place(keys_of(delete(table, 2, 2))) == second
    joining = keys_of(update(table, (1, 1), (1, 2)))
    assert detector.place(joining) == CONFLICT
    detector.clear()
    assert detector.place(joining) != CONFLICT
    assert detector.conflicts == 1


def test_a_change_whose_keys_one_worker_holds_follows_it() -> None:
    detector = ConflictDetector(4)
    first = detector.place(k(3, 4))
    detector.place(k(5, 2))
    assert detector.place(k(3)) == first
    assert detector.conflicts == 0
    assert detector.place(k(4, 5)) == CONFLICT
    detector.clear()
    detector.place(k(4, 5))
    assert len(detector) == 2
    assert (detector.holder((3,)), detector.conflicts) == (None, 1)


def test_a_change_does_not_conflict_with_itself() -> None:
    detector = ConflictDetector(4)
    assert detector.place(k(7, 7)) != CONFLICT


def test_changes_without_common_keys_use_all_workers_evenly() -> None:
    detector = ConflictDetector(16)
    placed = Counter(detector.place(k(number_)) for number_ in range(1600))
    assert placed == dict.fromkeys(range(16), 100)
    assert detector.conflicts == 0


def test_a_conflict_records_nothing() -> None:
    detector = ConflictDetector(2)
    detector.place(k(1))
    detector.place(k(2))
    assert detector.place(k(3, 1, 2)) == CONFLICT
    assert detector.holder((3,)) is None


def test_the_map_is_bounded() -> None:
    detector = ConflictDetector(2, limit=10)
    for number_ in range(10):
        assert detector.place(k(number_)) != CONFLICT
    assert detector.place(k(10)) == CONFLICT
    assert (detector.overflows, detector.conflicts) == (1, 0)
    detector.clear()
    assert detector.place(k(10)) != CONFLICT


def test_a_change_with_an_unknown_key_runs_alone() -> None:
    detector = ConflictDetector(2)
    assert detector.place((WILD,)) != CONFLICT
    assert detector.place(k(1)) == CONFLICT
    detector.clear()
    assert detector.place(k(1)) != CONFLICT
    assert detector.place((*k(2), WILD)) == CONFLICT
    detector.clear()
    assert detector.place((*k(2), WILD)) != CONFLICT


def test_the_caller_may_choose_the_worker() -> None:
    detector = ConflictDetector(8, choose=lambda: 5)
    assert detector.place(k(1)) == 5


@pytest.mark.parametrize(("workers", "limit"), [(0, 1), (1, 0)])
def test_it_needs_a_worker_and_room(workers: int, limit: int) -> None:
    with pytest.raises(ValueError, match="needs a worker"):
        ConflictDetector(workers, limit=limit)


@given(
    st.lists(st.frozensets(st.integers(0, 12), min_size=1, max_size=3), max_size=60),
    st.randoms(use_true_random=False),
)
def test_whatever_the_workers_speed_common_keys_keep_their_order(
    changes: list[frozenset[int]], chance: random.Random
) -> None:
    detector = ConflictDetector(5, limit=20)
    queues: list[deque[int]] = [deque() for _ in range(5)]
    done: list[int] = []

    def run_some(share: float) -> None:
        while any(queues) and chance.random() < share:
            done.append(chance.choice([queue for queue in queues if queue]).popleft())

    for at, names in enumerate(changes):
        worker = detector.place(k(*sorted(names)))
        if worker == CONFLICT:
            run_some(share=1.1)
            detector.clear()
            worker = detector.place(k(*sorted(names)))
        assert worker != CONFLICT
        queues[worker].append(at)
        run_some(share=0.5)
    run_some(share=1.1)
    place = {at: position for position, at in enumerate(done)}
    assert len(place) == len(changes)
    for later, names in enumerate(changes):
        for earlier in range(later):
            if names & changes[earlier]:
                assert place[earlier] < place[later]
