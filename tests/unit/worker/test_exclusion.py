"""Verbs of one task exclude each other, those of others do not; each wait is seen, none is guessed from a clock."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from types import TracebackType

import pytest

from dm.worker.verb_work import Exclusion

LONG = 30.0  # before a test fails that would otherwise hang


class _ToldLock:
    """A lock that tells who waits for it, and in which order locks are taken."""

    def __init__(self, taken: list[_ToldLock]) -> None:
        self._lock = threading.Lock()
        self._taken = taken
        self.waited_for = threading.Event()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.waited_for.set()
            assert self._lock.acquire(timeout=LONG)
        self._taken.append(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    @property
    def held(self) -> bool:
        return self._lock.locked()


class _Told:
    """An Exclusion, and its locks of tasks by the names that they are known by."""

    def __init__(self) -> None:
        self.taken: list[_ToldLock] = []
        self.locks: defaultdict[str, _ToldLock] = defaultdict(lambda: _ToldLock(self.taken))
        self.exclusion = Exclusion(self.locks)

    def order(self) -> list[str]:
        """The tasks in the order in which they were taken."""
        return [name for lock in self.taken for name, each in self.locks.items() if each is lock]


def beside(act: Callable[[], None]) -> threading.Thread:
    """Another verb's thread."""
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread


def ended(thread: threading.Thread) -> bool:
    thread.join(LONG)
    return not thread.is_alive()


@pytest.fixture
def told() -> _Told:
    return _Told()


def test_the_second_verb_of_a_task_waits_for_the_first_whatever_the_case_of_its_name(told: _Told) -> None:
    done: list[str] = []

    def second() -> None:
        with told.exclusion.tasks("shop"):
            done.append("second")

    with told.exclusion.tasks("Shop"):
        thread = beside(second)
        assert told.locks["shop"].waited_for.wait(LONG)
        done.append("first")
    assert ended(thread)
    assert done == ["first", "second"]


def test_verbs_of_other_tasks_and_of_sources_do_not_wait(told: _Told) -> None:
    def others() -> None:
        with told.exclusion.tasks("b"), told.exclusion.sources:
            pass

    with told.exclusion.tasks("a"):
        assert ended(beside(others))
    with told.exclusion.sources:
        assert ended(beside(lambda: told.exclusion.tasks("a").__enter__()))
    assert not any(lock.waited_for.is_set() for lock in told.locks.values())


def test_several_tasks_are_taken_in_one_order_by_everybody(told: _Told) -> None:
    """Two verbs that name the same tasks in two orders would wait for each other for ever."""
    with told.exclusion.tasks("b", "C", "a", "B"):
        assert all(told.locks[name].held for name in "abc")
    with told.exclusion.tasks("c", "b", "a"):
        pass
    assert told.order() == ["a", "b", "c"] * 2


def test_a_verb_that_fails_leaves_no_task_excluded(told: _Told) -> None:
    def fail() -> None:
        with told.exclusion.tasks("a", "b"):
            raise ValueError("the verb")

    with pytest.raises(ValueError, match="the verb"):
        fail()
    assert not any(lock.held for lock in told.locks.values())
    assert ended(beside(lambda: told.exclusion.tasks("b", "a").__enter__()))


def test_one_wait_for_several_tasks_holds_those_before_it(told: _Told) -> None:
    """The tasks that come first are excluded while the verb waits for the others: nothing is taken in between."""
    with told.exclusion.tasks("b"):
        thread = beside(lambda: told.exclusion.tasks("a", "b").__enter__())
        assert told.locks["b"].waited_for.wait(LONG)
        assert told.locks["a"].held
    assert ended(thread)
