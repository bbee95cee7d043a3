"""The quota: three ways to ask, none of which lets two wait for each other."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pytest

from dm.sourcelog.stream.memory_quota import MemoryQuota
from tests.testbed.peak_quota import PeakQuota

Ask = Callable[[MemoryQuota, int], bool]


def forced(quota: MemoryQuota, size: int) -> bool:
    quota.force_acquire(size)
    return True


@pytest.mark.parametrize(
    ("ask", "room", "had"),
    [
        (MemoryQuota.block_acquire, True, True),
        (MemoryQuota.block_acquire, False, None),
        (forced, True, True),
        (forced, False, True),
    ],
)
def test_two_ways_to_ask_with_and_without_room(ask: Ask, room: bool, had: bool | None) -> None:
    quota = PeakQuota(100)
    quota.force_acquire(40 if room else 80)
    found: list[bool] = []
    asking = threading.Thread(target=lambda: found.append(ask(quota, 60)), daemon=True)
    asking.start()
    if had is None:  # it waits, and has it once there is room
        assert not found
        quota.release(80)
    asking.join(10)
    assert found == [True if had is None else had]
    expected = {None: 60, True: 100 if room else 140}[had]
    assert quota.used == expected
    assert quota.peak == max(80, expected) if not room else quota.peak == 100


def test_what_unfinished_transactions_hold_is_not_waited_for() -> None:
    quota = MemoryQuota(100)
    assert quota.block_acquire(60, unfinished=True)
    assert quota.block_acquire(30, unfinished=True)
    assert not quota.block_acquire(20, unfinished=True)
    assert not quota.block_acquire(20)
    assert quota.used == 90


def test_what_a_finished_transaction_holds_is_waited_for_as_soon_as_it_is_finished() -> None:
    quota = MemoryQuota(100)
    assert quota.block_acquire(60, unfinished=True)
    quota.finish(60)
    found: list[bool] = []
    asking = threading.Thread(target=lambda: found.append(quota.block_acquire(50, unfinished=True)), daemon=True)
    asking.start()
    quota.release(60)
    asking.join(10)
    assert found == [True]


def test_whoever_waits_is_told_when_nothing_comes_back_any_more() -> None:
    quota = MemoryQuota(100)
    quota.force_acquire(10)
    assert quota.block_acquire(60, unfinished=True)
    found: list[bool] = []
    asking = threading.Thread(target=lambda: found.append(quota.block_acquire(50, unfinished=True)), daemon=True)
    asking.start()
    quota.release(10)  # now all that is out belongs to transactions that nobody can apply yet
    asking.join(10)
    assert found == [False]


def test_closing_frees_everybody() -> None:
    quota = MemoryQuota(10)
    quota.force_acquire(10)
    found: list[bool] = []
    asking = [threading.Thread(target=lambda: found.append(quota.block_acquire(5)), daemon=True) for _ in range(3)]
    for thread in asking:
        thread.start()
    quota.close()
    for thread in asking:
        thread.join(10)
    assert found == [False] * 3


class _Source:
    """A reader with transactions larger than the quota, and the applier that gives their memory back.

    With `splits` what does not fit goes elsewhere (a file); without, it is taken all the same.
    """

    def __init__(self, quota: MemoryQuota, sizes: list[int], step: int, *, splits: bool) -> None:
        self._quota = quota
        self._sizes = sizes
        self._step = step
        self._splits = splits
        self._finished: list[int] = []
        self._changed = threading.Condition()
        self.applied = 0
        self.threads = [threading.Thread(target=self._read, daemon=True), threading.Thread(target=self._apply)]

    def _read(self) -> None:
        for size in self._sizes:
            held = spilled = 0
            while held + spilled < size:
                if spilled or not self._quota.block_acquire(self._step, unfinished=True):
                    if self._splits:
                        spilled += self._step
                        continue
                    self._quota.force_acquire(self._step, unfinished=True)
                held += self._step
            self._quota.finish(held)
            with self._changed:
                self._finished.append(held)
                self._changed.notify_all()

    def _apply(self) -> None:
        for _ in self._sizes:
            with self._changed:
                while not self._finished:
                    self._changed.wait()
                held = self._finished.pop(0)
            self._quota.release(held)
            self.applied += 1


@pytest.mark.parametrize("splits", [True, False])
def test_two_sources_with_transactions_larger_than_the_quota_never_wait_for_each_other(splits: bool) -> None:
    total, step = 640, 10
    for seed in range(100):
        chance = random.Random(seed)
        sizes = [[chance.choice([30, 300, 700, 1500]) for _ in range(4)] for _ in range(2)]
        quota = PeakQuota(total)
        sources = [_Source(quota, each, step, splits=splits) for each in sizes]
        for source in sources:
            for thread in source.threads:
                thread.start()
        for source in sources:
            for thread in source.threads:
                thread.join(20)
                assert not thread.is_alive(), f"seed {seed}: they wait for each other"
        assert [source.applied for source in sources] == [4, 4]
        assert quota.used == 0
        # Without splitting each source may go over by one transaction, and by no more.
        assert quota.peak <= (total if splits else total + sum(max(each) for each in sizes)), f"seed {seed}"
