"""Changes are put together lane by lane: a batch first, and little is ever held back."""

from __future__ import annotations

from collections.abc import Container

from dm.changes.row_change import RowChange
from dm.position import Position
from dm.syncer.apply.completion import Ticket
from dm.syncer.apply.lane import Placement

END = Position("a", "bin.000001", 4)
CHANGE: RowChange = RowChange.__new__(RowChange)
MOST_COST = 1 << 20


def placed(
    *,
    lanes: int,
    batch: int,
    largest: int,
    share: int = MOST_COST,
    idle: Container[int] = (),
) -> Placement:
    """Lanes that are all at work but for the idle ones."""
    return Placement(lanes, batch, largest=largest, share=share, most=MOST_COST, idle=lambda lane: lane in idle)


def place(placement: Placement, lane: int, ticket: Ticket, cost: int = 1) -> bool:
    return placement.add(lane, [CHANGE], cost, ticket)


def test_one_lane_is_filled_after_the_other() -> None:
    placement = placed(lanes=3, batch=2, largest=2)
    filled = []
    for number in range(6):
        full = place(placement, placement.filling, Ticket(END, 0, number=number))
        assert full == (number % 2 == 1)
        if full:
            (lane,) = placement.ready
            filled.append((lane, [job.last.number for job in placement.take(lane)]))
    assert filled == [(0, [0, 1]), (1, [2, 3]), (2, [4, 5])]
    assert (placement.filling, placement.held, placement.cost) == (0, 0, 0)


def test_a_lane_that_is_done_is_filled_before_one_that_was_not_needed_yet() -> None:
    idle = {1, 3}
    placement = placed(lanes=4, batch=1, largest=1, idle=idle)
    filled = []
    for number in range(5):
        if number == 2:
            idle.clear()  # then they take turns
        assert place(placement, placement.filling, Ticket(END, 0, number=number))
        filled.append(placement.filling)
        placement.take(placement.filling)
    assert filled == [0, 1, 3, 0, 1]


def test_what_followed_a_key_to_another_lane_does_not_wait_for_ever() -> None:
    placement = placed(lanes=4, batch=2, largest=2, idle=range(4))
    place(placement, 2, Ticket(END, 0))
    place(placement, 3, Ticket(END, 0))
    gone = []
    for number in range(8):
        if place(placement, placement.filling, Ticket(END, 0, number=number)):
            gone.append(placement.ready[0])
            placement.take(gone[-1])
    assert gone == [0, 2, 3, 0, 1]


def test_changes_of_one_transaction_are_one_job_of_a_lane() -> None:
    placement = placed(lanes=2, batch=10, largest=10)
    one, other = Ticket(END, 0), Ticket(END, 0)
    for ticket in (one, one, other):
        place(placement, 0, ticket, cost=5)
    place(placement, 1, other)
    assert placement.waiting == [0, 1]
    assert [(job.ticket is one, job.count, job.cost) for job in placement.take(0)] == [(True, 2, 10), (False, 1, 5)]
    assert (placement.waiting, placement.held, placement.cost) == ([1], 1, 1)


def test_a_lane_that_others_are_filled_beside_keeps_its_turn() -> None:
    placement = placed(lanes=3, batch=1, largest=1)
    assert place(placement, 2, Ticket(END, 0))  # its key is held by that lane
    placement.take(2)
    assert placement.filling == 0


def sizes(placement: Placement, changes: int) -> list[int]:
    """How large the batches are that leave while so many changes come."""
    left = []
    for _ in range(changes):
        if place(placement, placement.filling, Ticket(END, 0)):
            left += [sum(job.count for job in placement.take(lane)) for lane in placement.ready]
    return left


def test_batches_grow_with_what_comes_without_a_rest() -> None:
    placement = placed(lanes=4, batch=10, largest=40)
    found = sizes(placement, 1000)
    assert found[:9] == [10] * 9, "an eighth of less than 80 is no more than a batch"
    assert found == sorted(found)
    assert found[-1] == 40
    assert max(size / max(80, sum(found[:number])) for number, size in enumerate(found)) <= 1 / 8


def test_batches_are_small_again_when_the_source_rests() -> None:
    placement = placed(lanes=4, batch=10, largest=40)
    sizes(placement, 1000)
    for lane in placement.waiting:
        placement.take(lane)
    found = []
    for _ in range(6):
        placement.rested()
        found += sizes(placement, 40)[:1]
        for lane in placement.waiting:
            placement.take(lane)
    assert found == sorted(found, reverse=True)
    assert found[-1] == 10


def test_a_batch_grows_no_further_than_its_share_of_memory() -> None:
    placement = placed(lanes=2, batch=2, largest=100, share=50)
    sizes(placement, 100)
    for lane in placement.waiting:
        placement.take(lane)
    held = [place(placement, 0, Ticket(END, 0), cost=10) for _ in range(5)]
    assert held == [False] * 4 + [True]
    assert placement.ready == [0]
    placement.take(0)
    assert not place(placement, 0, Ticket(END, 0), cost=1000), "but no batch is smaller than it would be at rest"


def test_what_is_held_for_all_lanes_together_is_little() -> None:
    placement = placed(lanes=4, batch=3, largest=9)
    ticket = Ticket(END, 0)
    held = [place(placement, number % 4, ticket) for number in range(8)]
    assert not any(held)
    assert place(placement, 2, ticket, cost=MOST_COST)
    assert placement.ready == [2], "what has the most leaves, and that is enough"
    placement.take(2)
    assert placement.cost < MOST_COST
