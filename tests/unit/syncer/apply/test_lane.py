"""A lane's queue is bounded, gives batches in order, and lets nobody wait for ever."""

from __future__ import annotations

import threading

from dm.changes.row_change import RowChange
from dm.position import Position
from dm.syncer.apply.completion import Ticket
from dm.syncer.apply.lane import ChangeQueue, LaneJob
from dm.syncer.apply.ordered_lane import ChangeStream

END = Position("a", "bin.000001", 4)


def job(changes: int, number: int = 0) -> LaneJob:
    return LaneJob([_CHANGE] * changes, Ticket(END, 0, number=number))


_CHANGE: RowChange = RowChange.__new__(RowChange)


def test_batches_fill_up_to_the_limit_and_keep_jobs_whole() -> None:
    queue = ChangeQueue(capacity=100)
    for changes in (3, 4, 5, 9):
        assert queue.put(job(changes))
    assert [len(taken.changes) for taken in queue.take(12, whole_jobs=False)] == [3, 4, 5]
    assert [len(taken.changes) for taken in queue.take(5, whole_jobs=False)] == [9]


def test_the_ordered_lane_takes_one_source_transaction_at_a_time() -> None:
    queue = ChangeQueue(capacity=100)
    queue.put(job(2))
    queue.put(job(2))
    assert len(queue.take(100, whole_jobs=True)) == 1


def test_a_stream_comes_alone() -> None:
    queue = ChangeQueue(capacity=100)
    stream: ChangeStream = ChangeStream.__new__(ChangeStream)
    for one in (job(2), LaneJob([], Ticket(END, 0), stream=stream), job(1), job(1)):
        queue.put(one)
    assert [len(queue.take(100, whole_jobs=False)) for _ in range(3)] == [1, 1, 2]


def test_a_full_queue_holds_the_dispatcher_until_there_is_room() -> None:
    queue = ChangeQueue(capacity=2)
    queue.put(job(2))
    done = threading.Event()

    def put() -> None:
        queue.put(job(1))
        done.set()

    thread = threading.Thread(target=put, daemon=True)
    thread.start()
    assert not done.is_set() or queue.load > 2
    queue.take(10, whole_jobs=False)
    thread.join(timeout=10)
    assert done.is_set()


def test_idle_means_committed_not_merely_taken() -> None:
    queue = ChangeQueue(capacity=10)
    queue.put(job(1))
    queue.take(10, whole_jobs=False)
    assert not queue.wait_idle(timeout=0)
    queue.finished()
    assert queue.wait_idle(timeout=0)


def test_closing_frees_everybody_who_waits() -> None:
    queue = ChangeQueue(capacity=1)
    queue.put(job(1))
    results: list[object] = []
    waits = [
        threading.Thread(target=lambda: results.append(queue.put(job(1))), daemon=True),
        threading.Thread(target=lambda: results.append(queue.wait_idle(timeout=60)), daemon=True),
    ]
    for wait in waits:
        wait.start()
    queue.close()
    for wait in waits:
        wait.join(timeout=10)
    assert results == [False, False]
    assert queue.take(1, whole_jobs=False) == []


def test_a_closed_lane_ends_with_what_lies_before_the_transaction_that_failed() -> None:
    queue = ChangeQueue(capacity=100)
    for number in (1, 3, 4, 7, 9):
        queue.put(job(1, number))
    queue.close(before=7)
    assert queue.closed
    assert [one.last.number for one in queue.take(2, whole_jobs=False)] == [1, 3]
    queue.close(before=8)  # another lane fails further on: that changes nothing
    assert [one.last.number for one in queue.take(100, whole_jobs=False)] == [4]
    queue.end()
    assert queue.take(100, whole_jobs=False) == []


def test_what_the_dispatcher_held_of_that_is_still_taken() -> None:
    queue = ChangeQueue(capacity=1)
    queue.close(before=7)
    assert not queue.put(job(1, 3), job(1, 5), job(1, 8))  # the last one is too late
    assert [one.last.number for one in queue.take(100, whole_jobs=False)] == [3, 5]
    ended: list[object] = []
    waits = threading.Thread(target=lambda: ended.append(queue.take(100, whole_jobs=False)), daemon=True)
    waits.start()
    queue.end()
    waits.join(timeout=10)
    assert ended == [[]]
    queue.close(before=6)  # nobody puts anything more
    assert queue.take(100, whole_jobs=False) == []


def test_giving_up_leaves_nothing_of_what_was_to_be_ended() -> None:
    queue = ChangeQueue(capacity=100)
    queue.put(job(1, 1))
    queue.close(before=2)
    queue.close()
    assert queue.take(100, whole_jobs=False) == []
