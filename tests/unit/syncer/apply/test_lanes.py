"""Where changes go, when they are handed over, and that nothing is kept of what is done."""

from __future__ import annotations

import threading
from typing import cast

import pytest

from dm.position import Position
from dm.sourcelog.stream.memory_quota import MemoryQuota
from dm.sourcelog.stream.reader import Rest
from dm.syncer.apply.apply_lane import ApplyLane
from dm.syncer.apply.completion import Ticket
from dm.syncer.apply.lane import ChangeQueue, LaneJob
from dm.syncer.apply.lanes import BatchSizes, Lanes, Stopped
from tests.testbed.peak_quota import PeakQuota
from tests.unit.changes.plans import insert, key, number, plan

pytestmark = pytest.mark.usefixtures("twin")

END = Position("a", "bin.000001", 4)
TABLE = plan([number("a")], [key("PRIMARY", "a")])


class IdleLane:
    """A lane that applies what it has been given when the test says so."""

    def __init__(self) -> None:
        self.queue = ChangeQueue(1000)
        self.ends = False
        self.ended: list[int] = []

    def work(self, memory: MemoryQuota) -> None:
        """Apply everything from now on."""

        def run() -> None:
            while jobs := self.queue.take(1000, whole_jobs=False):
                memory.release(sum(job.cost for job in jobs))
                self.queue.finished()

        threading.Thread(target=run, daemon=True).start()

    def apply(self) -> list[int]:
        """The numbers of the transactions in the batch."""
        jobs = self.queue.take(1000, whole_jobs=False)
        self.queue.finished()
        return [job.last.number for job in jobs]

    def give(self, *jobs: LaneJob) -> bool:
        return self.queue.put(*jobs)

    def end_before(self, ticket: Ticket) -> None:
        self.queue.close(ticket.number)

    def give_up(self) -> None:
        self.queue.close()

    def wait_ended(self, seconds: float) -> None:
        if self.ends:
            self.ends = False
            self.ended = self.apply()

    def cut_off(self) -> None:
        pass

    def close(self) -> None:
        pass


class Bench:
    """Lanes that stand still."""

    def __init__(self, workers: int, *, batch: int = 100, largest: int = 100, key_bytes: int = 1 << 20) -> None:
        self.workers = [IdleLane() for _ in range(workers)]
        self.memory = PeakQuota(1 << 20)
        self.rest = Rest(threading.Condition())
        self.lanes = Lanes(
            [cast(ApplyLane, lane) for lane in self.workers],
            cast(ApplyLane, IdleLane()),
            self.rest,
            sizes=BatchSizes(batch, max(batch, largest), key_bytes),
            memory=self.memory,
        )

    def source_rests(self) -> bool:
        """Whether nothing is held back then."""
        self.lanes.source_rests()
        return not self.starving

    @property
    def starving(self) -> bool:
        """Whether changes are held back until a lane ends its batch."""
        return self.rest._starving

    def place(self, value: int, ticket: int) -> None:
        self.lanes.place(insert(TABLE, value), 10, Ticket(END, 0, number=ticket))

    @property
    def loads(self) -> list[int]:
        return [lane.queue.load for lane in self.workers]


def test_one_change_leaves_when_the_source_rests() -> None:
    bench = Bench(4)
    bench.place(1, ticket=1)
    assert bench.loads == [0, 0, 0, 0]
    assert bench.lanes.queued == 1
    assert bench.source_rests()
    assert bench.loads == [1, 0, 0, 0]
    assert not bench.starving


def test_a_batch_leaves_at_once_and_the_next_lane_is_filled() -> None:
    bench = Bench(4, batch=3, largest=3)
    for value in range(7):
        bench.place(value, ticket=value)
    assert bench.loads == [3, 3, 0, 0]
    assert not bench.source_rests(), "lanes are at work, so the seventh waits for one of them"
    assert bench.starving
    bench.workers[0].apply()
    bench.workers[1].apply()
    assert bench.source_rests()
    assert bench.loads == [0, 0, 1, 0]


def test_a_transaction_that_waits_for_all_lanes_in_its_middle_is_divided() -> None:
    bench = Bench(2, batch=1, largest=1)
    for lane in bench.workers:
        lane.work(bench.memory)
    two_keys = plan([number("a"), number("b")], [key("PRIMARY", "a"), key("b", "b")])
    tickets = [Ticket(END, 0, number=number) for number in (1, 2, 3)]
    for ticket, values in zip(tickets, [(1, 1), (2, 2), (1, 2)], strict=True):
        bench.lanes.place(insert(two_keys, *values), 10, ticket)
    assert bench.lanes.conflicts == 1
    assert [ticket.divided for ticket in tickets] == [False, False, True]


def test_lanes_that_are_not_done_leave_the_next_batch_to_others() -> None:
    bench = Bench(4, batch=3, largest=3)
    for value in range(12):
        bench.place(value, ticket=value)
    assert bench.loads == [3, 3, 3, 3]
    for value in range(12, 15):
        bench.place(value, ticket=value)
    assert bench.loads == [6, 3, 3, 3]


def test_in_a_backlog_batches_grow_and_two_lanes_do_for_a_target_that_is_done_at_once() -> None:
    bench = Bench(4, batch=3, largest=9)
    given = []
    for value in range(400):
        bench.place(value, ticket=value)
        for at, lane in enumerate(bench.workers):
            if lane.queue.load:
                given.append((at, len(lane.apply())))
    assert [at for at, _ in given] == [turn % 2 for turn in range(len(given))]
    assert (given[0][1], given[-1][1]) == (3, 9)
    for value in range(400, 420):
        bench.place(value, ticket=value)
        assert bench.source_rests(), "no single transaction waits, however large a batch may be"
        for lane in bench.workers:
            if lane.queue.load:
                assert lane.apply()[-1] == value
    for value in range(500, 503):
        bench.place(value, ticket=value)
    assert max(bench.loads) == 3, "the source has rested"


@pytest.mark.parametrize("at_work", [True, False])
def test_a_rest_makes_batches_small_again_unless_lanes_are_at_work(at_work: bool) -> None:
    bench = Bench(4, batch=1, largest=3)
    value = 0
    while value < 40 or bench.lanes.queued > sum(bench.loads):  # nothing is held back
        value += 1
        bench.place(value, ticket=value)
    if not at_work:
        for lane in bench.workers:
            while lane.queue.load:
                lane.apply()
    for _ in range(6):
        assert bench.source_rests()
    before = sum(bench.loads)
    for more in range(3):
        bench.place(value + 1 + more, ticket=value + 1 + more)
        assert sum(bench.loads) - before == (0 if at_work and more < 2 else more + 1)


def test_many_lanes_take_more_than_one_small_batch() -> None:
    bench = Bench(16)
    done = []
    for value in range(3):
        bench.place(value, ticket=value)
        done.append(bench.source_rests())
    assert done == [True, True, False]


def test_a_change_follows_its_key() -> None:
    bench = Bench(4, batch=2, largest=2)
    for value in (1, 2, 1, 3):
        bench.place(value, ticket=value)
    assert not bench.source_rests()
    assert bench.workers[0].apply() == [1, 2]
    bench.source_rests()
    assert bench.loads == [1, 1, 0, 0]


def test_the_keys_of_single_transactions_are_forgotten_in_time() -> None:
    bench = Bench(2, key_bytes=4000)
    for lane in bench.workers:
        lane.work(bench.memory)
    most = 0
    for value in range(500):
        bench.place(value, ticket=value)
        bench.source_rests()
        most = max(most, bench.lanes.memory_used - bench.memory.used)
    bench.lanes.drain()
    bench.lanes.give_up()
    assert most < 2 * 4000


def test_what_is_held_back_is_counted_and_leaves_when_nobody_else_could_make_room() -> None:
    bench = Bench(2, batch=1000, largest=1000)
    for value in range(3):
        bench.lanes.place(insert(TABLE, value), 400 << 10, Ticket(END, 0, number=value))
        assert bench.memory.used <= bench.memory.total
        if value == 1:
            assert bench.memory.used == 800 << 10, "nothing was handed over yet"
            assert bench.loads == [0, 0]
            for lane in bench.workers:
                lane.work(bench.memory)
    bench.lanes.drain()
    bench.lanes.give_up()
    assert bench.memory.used == 0
    assert bench.memory.peak <= bench.memory.total


def test_what_was_held_back_before_a_failure_is_still_handed_over() -> None:
    bench = Bench(2)
    for value in (3, 5, 9):
        bench.place(value, ticket=value)
    bench.lanes.end_before(Ticket(END, 0, number=7))
    with pytest.raises(Stopped):
        bench.source_rests()
    bench.workers[0].ends = True
    bench.lanes.close()
    assert bench.workers[0].ended == [3, 5]
