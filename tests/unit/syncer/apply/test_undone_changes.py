"""Which changes a run may say it did not do: those that nobody can have done, and no other."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import cast

import pytest

from dm.changes.keys import keys_of
from dm.changes.native_changes import RunPart
from dm.changes.row_change import RowChange
from dm.position import Position
from dm.progress.takeover import Undone, UndoneKeys, digests
from dm.sourcelog.stream.transaction import TransactionRun
from dm.syncer.apply.completion import CompletionTracker, RunTickets, Ticket
from dm.syncer.apply.lane import ChangeQueue, LaneJob, Placement, apart
from dm.syncer.apply.lanes import undone_changes
from tests.unit.changes.plans import insert, key, number, plan

END = Position("a", "bin.000001", 100)
TABLE = plan([number("a")], [key("PRIMARY", "a")])


def change(value: int, *, safe: bool = False) -> RowChange:
    made = insert(TABLE, value)
    made.safe = safe
    return made


def job(ticket: Ticket, *changes: RowChange) -> LaneJob:
    return LaneJob(list(changes), ticket)


def test_a_transaction_of_which_nothing_is_committed_was_not_done() -> None:
    ticket = Ticket(END, 0, number=1, divided=True)
    assert undone_changes([job(ticket, change(1)), job(ticket, change(2))]) == {
        ("a", "bin.000001", 100): UndoneKeys(None)
    }


def test_of_one_that_is_committed_in_part_the_keys_are_kept() -> None:
    tracker = CompletionTracker(Position("a", "bin.000001", 4))
    ticket = tracker.open(END, 0)
    tracker.committed([(ticket, 1)])
    (keys,) = undone_changes([job(ticket, change(7))]).values()
    assert keys.hold(keys_of(change(7)))
    assert not keys.hold(keys_of(change(8)))


@pytest.mark.parametrize("ticket", [Ticket(END, 0, number=1, begun=True, divided=True)])
def test_nothing_is_said_where_rows_came_at_different_times(ticket: Ticket) -> None:
    assert undone_changes([job(ticket, change(1))]) == {}


@pytest.mark.parametrize("begun", [False, True])
def test_nothing_is_said_of_changes_that_an_earlier_run_may_have_done(begun: bool) -> None:
    ticket = Ticket(END, 0, number=1, begun=begun)
    assert undone_changes([job(ticket, change(1, safe=True))]) == {}
    (keys,) = undone_changes([job(ticket, change(1, safe=True), change(2))]).values()
    assert keys == UndoneKeys(digests(keys_of(change(2))))


def test_a_lane_that_gets_a_transaction_twice_has_divided_it() -> None:
    placement = Placement(2, 10, largest=10, share=1 << 20, most=1 << 20, idle=lambda _: True)
    one, other = Ticket(END, 0, number=1), Ticket(END, 0, number=2)
    for ticket in (one, one, other):
        placement.add(0, [change(1)], 1, ticket)
    placement.take(0)
    assert not one.divided
    placement.add(1, [change(2)], 1, other)
    assert not other.divided
    placement.add(0, [change(3)], 1, other)
    assert other.divided


class Run:
    """A run of transactions, of which only the places are asked."""

    def place(self, at: int) -> Position:
        return replace(END, offset=100 * (at + 1))


def of_run(*ends: int) -> RunTickets:
    return CompletionTracker(replace(END, offset=4)).open_run(cast(TransactionRun, Run()), list(ends))


def run_part(lane: int, *transactions: int) -> RunPart:
    return lane, [change(10 * at + lane) for at in transactions], array("I", transactions).tobytes()


def test_of_a_run_each_transaction_is_undone_by_itself() -> None:
    tickets = of_run(2, 3, 5, 6)
    placement = Placement(2, 10, largest=10, share=1 << 20, most=1 << 20, idle=lambda _: True)
    placement.add_part(run_part(0, 0, 1, 2), tickets, 8)
    placement.add_part(run_part(1, 0, 2, 3), tickets, 8)
    one, other = placement.take(0), placement.take(1)
    assert [(each.count, each.cost) for each in (*one, *other)] == [(3, 24), (3, 24)]
    other[0].ticket.committed(3)
    left = apart(one)
    assert [(each.ticket.number, each.count, each.cost) for each in left] == [(1, 1, 8), (2, 1, 8), (3, 1, 8)]
    assert undone_changes(left) == {
        ("a", "bin.000001", 100): UndoneKeys(digests(keys_of(change(0)))),
        ("a", "bin.000001", 200): UndoneKeys(None),
        ("a", "bin.000001", 300): UndoneKeys(digests(keys_of(change(20)))),
    }


def test_a_queue_that_closes_within_a_run_keeps_its_later_transactions() -> None:
    tickets, queue = of_run(1, 2, 3), ChangeQueue(10)
    placement = Placement(1, 10, largest=10, share=1 << 20, most=1 << 20, idle=lambda _: True)
    placement.add_part(run_part(0, 0, 1, 2), tickets, 8)
    queue.put(*placement.take(0))
    queue.close(3)
    assert [each.last.number for each in queue.take(10, whole_jobs=False)] == [1, 2]
    queue.end()
    assert queue.take(10, whole_jobs=False) == []
    assert [(each.ticket.number, each.count, each.cost) for each in queue.left] == [(3, 1, 8)]
    closed = ChangeQueue(10)
    closed.close(3)
    placement.add_part(run_part(0, 1, 2, 2), tickets, 8)
    assert not closed.put(*placement.take(0))
    closed.end()
    assert [each.last.number for each in closed.take(10, whole_jobs=False)] == [2]
    assert [(each.ticket.number, each.count) for each in closed.left] == [(3, 2)]


def test_a_lane_that_gets_a_transaction_of_a_run_again_has_divided_it() -> None:
    tickets = of_run(2, 4, 6)
    placement = Placement(1, 10, largest=10, share=1 << 20, most=1 << 20, idle=lambda _: True)
    placement.add_part(run_part(0, 0, 1), tickets, 8)
    placement.add_part(run_part(0, 1), tickets, 8)
    (job,) = placement.take(0)
    assert job.count == 3
    assert not any(tickets.ticket(at).divided for at in range(3))
    placement.add_part(run_part(0, 1, 2), tickets, 8)
    assert [tickets.ticket(at).divided for at in range(3)] == [False, True, False]
    placement.add(0, [change(1)], 8, tickets.ticket(2))  # which another one may part from it
    assert [tickets.ticket(at).divided for at in range(3)] == [False, True, True]


def test_a_closed_queue_keeps_what_it_did_not_give_out() -> None:
    queue = ChangeQueue(10)
    first, second, third = (Ticket(END, 0, number=number) for number in (1, 2, 3))
    queue.put(job(first, change(1)), job(second, change(2)))
    queue.close(2)
    assert not queue.put(job(third, change(3)))
    queue.end()
    assert [each.last.number for each in queue.take(10, whole_jobs=False)] == [1]
    assert queue.take(10, whole_jobs=False) == []
    assert [each.last.number for each in queue.left] == [2, 3]


def test_what_a_run_has_not_come_to_is_left_for_the_next() -> None:
    keys = UndoneKeys(None)
    ends = [replace(END, offset=offset) for offset in (100, 200, 300)]
    undone = Undone({("a", "bin.000001", end.offset): keys for end in ends})
    assert undone.of(ends[1]) is keys
    assert undone.of(replace(END, offset=150)) is None
    assert list(undone.left(Position("a", "bin.000001", 100))) == [("a", "bin.000001", 300)]
    assert list(undone.left(Position("a", "bin.000001", 99))) == [("a", "bin.000001", 100), ("a", "bin.000001", 300)]
    assert len(undone.left(Position("other", "bin.000007", 4))) == 2
