"""Which changes a run may say it did not do: those that nobody can have done, and no other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm.changes.keys import keys_of
from dm.changes.row_change import RowChange
from dm.position import Position
from dm.progress.takeover import Undone, UndoneKeys, digests
from dm.syncer.apply.completion import CompletionTracker, Ticket
from dm.syncer.apply.lane import ChangeQueue, LaneJob, Placement
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


def test_a_closed_queue_keeps_what_it_did_not_give_out() -> None:
    queue = ChangeQueue(10)
    first, second, third = (Ticket(END, 0, number=number) for number in (1, 2, 3))
    queue.put(job(first, change(1)), job(second, change(2)))
    queue.close(2)
    assert not queue.put(job(third, change(3)))
    queue.end()
    assert [each.ticket.number for each in queue.take(10, whole_jobs=False)] == [1]
    assert queue.take(10, whole_jobs=False) == []
    assert [each.ticket.number for each in queue.left] == [2, 3]


def test_what_a_run_has_not_come_to_is_left_for_the_next() -> None:
    keys = UndoneKeys(None)
    ends = [replace(END, offset=offset) for offset in (100, 200, 300)]
    undone = Undone({("a", "bin.000001", end.offset): keys for end in ends})
    assert undone.of(ends[1]) is keys
    assert undone.of(replace(END, offset=150)) is None
    assert list(undone.left(Position("a", "bin.000001", 100))) == [("a", "bin.000001", 300)]
    assert list(undone.left(Position("a", "bin.000001", 99))) == [("a", "bin.000001", 100), ("a", "bin.000001", 300)]
    assert len(undone.left(Position("other", "bin.000007", 4))) == 2
