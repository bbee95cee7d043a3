"""Changes are put together lane by lane: a batch first, and little is ever held back."""

from __future__ import annotations

from dm.changes.row_change import RowChange
from dm.position import Position
from dm.syncer.completion import Ticket
from dm.syncer.placement import MOST_COST, Placement

END = Position("a", "bin.000001", 4)
CHANGE: RowChange = RowChange.__new__(RowChange)


def place(placement: Placement, lane: int, ticket: Ticket, cost: int = 1) -> bool:
    return placement.add(lane, CHANGE, cost, ticket, END)


def test_one_lane_is_filled_after_the_other() -> None:
    placement = Placement(lanes=3, batch=2)
    filled = []
    for number in range(6):
        full = place(placement, placement.filling, Ticket(END, 0, number=number))
        assert full == (number % 2 == 1)
        if full:
            (lane,) = placement.ready
            filled.append((lane, [job.ticket.number for job in placement.take(lane)]))
    assert filled == [(0, [0, 1]), (1, [2, 3]), (2, [4, 5])]
    assert (placement.filling, placement.held, placement.cost) == (0, 0, 0)


def test_changes_of_one_transaction_are_one_job_of_a_lane() -> None:
    placement = Placement(lanes=2, batch=10)
    one, other = Ticket(END, 0), Ticket(END, 0)
    for ticket in (one, one, other):
        place(placement, 0, ticket, cost=5)
    place(placement, 1, other)
    assert placement.waiting == [0, 1]
    assert [(job.ticket is one, job.count, job.cost) for job in placement.take(0)] == [(True, 2, 10), (False, 1, 5)]
    assert (placement.waiting, placement.held, placement.cost) == ([1], 1, 1)


def test_a_lane_that_others_are_filled_beside_keeps_its_turn() -> None:
    placement = Placement(lanes=3, batch=1)
    assert place(placement, 2, Ticket(END, 0))  # its key is held by that lane
    placement.take(2)
    assert placement.filling == 0


def test_what_is_held_for_all_lanes_together_is_little() -> None:
    placement = Placement(lanes=4, batch=3)
    ticket = Ticket(END, 0)
    held = [place(placement, number % 4, ticket) for number in range(8)]
    assert not any(held)
    assert place(placement, 0, ticket, cost=MOST_COST)
    assert placement.ready == [0, 1, 2, 3]
