"""The dispatcher's side of the queue: what it may do when the source rests, and who wakes it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from dm.position import Position
from dm.sourcelog.stream.memory_quota import MemoryQuota
from dm.sourcelog.stream.reader import TransactionQueue
from dm.sourcelog.stream.transaction import SourceTransaction

END = Position("a", "bin.000001", 4)
TRANSACTION = SourceTransaction(END, END, None, 0)


def test_nothing_is_done_while_the_source_has_more() -> None:
    queue = TransactionQueue(MemoryQuota(1 << 20))
    first, second = TRANSACTION, replace(TRANSACTION)
    queue.put(first)
    queue.put(second)
    assert queue.take(never) is first
    assert queue.take(never) is second


def test_who_rests_is_asked_again_when_a_lane_ends_its_batch_until_nothing_is_held_back() -> None:
    queue = TransactionQueue(MemoryQuota(1 << 20))
    asked = threading.Semaphore(0)
    held_back = iter([True, True, False])

    def at_rest() -> None:
        if next(held_back):
            queue.rest.starve()
        else:
            queue.rest.feed()
        asked.release()

    thread = threading.Thread(target=lambda: queue.take(at_rest), daemon=True)
    thread.start()
    for _ in range(3):
        assert asked.acquire(timeout=10)
        queue.rest.batch_ended()  # the last one asks for nothing: `next` would raise
    queue.close()
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert not asked.acquire(blocking=False)


def test_what_was_added_quietly_comes_with_the_next_wake_or_when_the_reader_has_to_wait() -> None:
    quota = MemoryQuota(100)
    queue = TransactionQueue(quota)
    taken: list[object] = []
    resting = threading.Semaphore(0)

    def rest() -> None:
        resting.release()

    def take_two() -> None:
        for _ in range(2):
            taken.append(queue.take(rest))

    thread = threading.Thread(target=take_two, daemon=True)
    thread.start()
    assert resting.acquire(timeout=10)
    queue.put(TRANSACTION, more=True)
    queue.wake()
    assert resting.acquire(timeout=10)  # for the second one
    queue.put(TRANSACTION, more=True)
    quota.force_acquire(100)
    waits = threading.Thread(target=lambda: quota.block_acquire(50), daemon=True)
    waits.start()  # for memory that the transaction holds
    thread.join(timeout=10)
    assert taken == [TRANSACTION, TRANSACTION]
    quota.release(100)
    waits.join(timeout=10)
    assert quota.used == 50


def never() -> None:
    raise AssertionError("the source has more")


def test_what_is_there_when_it_is_finished_is_taken_and_nothing_comes_after_it() -> None:
    queue = TransactionQueue(MemoryQuota(1000))
    assert queue.put(TRANSACTION)
    queue.finish()
    assert not queue.put(TRANSACTION)
    assert queue.take(lambda: None) is TRANSACTION
    assert queue.take(lambda: None) is None
    assert (queue.finished, queue.closed) == (True, False)


def test_a_run_that_is_stopped_before_the_end_is_not_at_it() -> None:
    queue = TransactionQueue(MemoryQuota(1000))
    queue.put(TRANSACTION)
    queue.finish()
    queue.close()
    assert queue.take(never) is None
    assert queue.finished
    assert not queue.exhausted


def test_what_is_there_when_it_is_broken_off_is_for_another_run() -> None:
    queue = TransactionQueue(MemoryQuota(1000))
    queue.put(TRANSACTION)
    queue.break_off()
    assert not queue.put(TRANSACTION)
    assert queue.take(never) is None
    assert (queue.broken_off, queue.closed, queue.exhausted) == (True, False, False)


@pytest.mark.parametrize("end", [TransactionQueue.finish, TransactionQueue.break_off, TransactionQueue.close])
def test_a_taker_that_waits_is_woken_by_the_end(end: Callable[[TransactionQueue], None]) -> None:
    queue = TransactionQueue(MemoryQuota(1000))
    taken: list[object] = []
    taker = threading.Thread(target=lambda: taken.append(queue.take(lambda: None)))
    taker.start()
    while not queue.empty_handed:
        time.sleep(0.001)
    end(queue)
    taker.join(10)
    assert taken == [None]
