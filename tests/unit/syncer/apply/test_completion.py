"""The mark stands behind the last transaction before which everything is committed, whatever the order of commits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dm.position import Position
from dm.syncer.apply.completion import CommittedPoint, CompletionTracker


def end(number: int) -> Position:
    return Position("a", "bin.000001", 4 + number)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.data())
def test_the_mark_follows_every_order_of_commits(sizes: list[int], data: st.DataObject) -> None:
    tracker = CompletionTracker(end(0))
    open_changes: list[int] = []
    tickets = []
    committed = [0] * len(sizes)
    closed = [False] * len(sizes)
    steps = [("open", number) for number in range(len(sizes))]
    while steps or open_changes:
        may_open = bool(steps)
        opens = may_open and (not open_changes or data.draw(st.booleans()))
        if opens:
            _, number = steps.pop(0)
            ticket = tracker.open(end(number + 1), number)
            tickets.append(ticket)
            open_changes += [number] * sizes[number]
            # A lane may commit changes before the dispatcher has closed the transaction.
            if sizes[number] and data.draw(st.booleans()):
                open_changes.remove(number)
                committed[number] += 1
                tracker.committed([(ticket, 1)])
            tracker.close(ticket, sizes[number])
            closed[number] = True
        else:
            number = data.draw(st.sampled_from(sorted(set(open_changes))))
            open_changes.remove(number)
            committed[number] += 1
            tracker.committed([(tickets[number], 1)])
        finished = 0
        while finished < len(sizes) and closed[finished] and committed[finished] == sizes[finished]:
            finished += 1
        assert tracker.mark.position == end(finished)
    assert tracker.under_way == 0
    assert tracker.transactions == len(sizes)


def test_the_mark_has_the_moment_of_the_last_transaction_that_has_one() -> None:
    tracker = CompletionTracker(end(0))
    for number, moment in ((1, 50), (2, 0), (3, 60)):
        tracker.close(tracker.open(end(number), 7, None, moment), 0 if number < 3 else 1)
    assert tracker.mark == CommittedPoint(end(2), 7, 50)
