"""The dispatcher's side of the queue: what it may do when the source rests, and who wakes it."""

from __future__ import annotations

import threading
from dataclasses import replace

from dm.position import Position
from dm.syncer.stream.memory_quota import MemoryQuota
from dm.syncer.stream.reader import TransactionQueue
from dm.syncer.stream.transaction import SourceTransaction

END = Position("a", "bin.000001", 4)
TRANSACTION = SourceTransaction(END, END, None, 0)


def test_nothing_is_done_while_the_source_has_more() -> None:
    queue = TransactionQueue(MemoryQuota(1 << 20))
    first, second = TRANSACTION, replace(TRANSACTION)
    queue.put(first)
    queue.put(second)
    assert queue.take(never) is first
    assert queue.take(never) is second


def test_who_rests_is_asked_again_after_a_nudge_until_all_is_done() -> None:
    queue = TransactionQueue(MemoryQuota(1 << 20))
    asked = threading.Semaphore(0)
    answers = iter([False, False, True])

    def rest() -> bool:
        asked.release()
        return next(answers)

    thread = threading.Thread(target=lambda: queue.take(rest), daemon=True)
    thread.start()
    for _ in range(3):
        assert asked.acquire(timeout=10)
        queue.nudge()  # the last one asks for nothing: `next` would raise
    queue.close()
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert not asked.acquire(blocking=False)


def test_what_was_added_quietly_comes_with_the_next_wake_or_when_the_reader_has_to_wait() -> None:
    quota = MemoryQuota(100)
    queue = TransactionQueue(quota)
    taken: list[object] = []
    resting = threading.Semaphore(0)

    def rest() -> bool:
        resting.release()
        return True

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


def never() -> bool:
    raise AssertionError("the source has more")
