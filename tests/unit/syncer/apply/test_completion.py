"""The mark stands after the last transaction before which everything is committed, whatever the order of commits."""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from dm.position import Position
from dm.sourcelog.stream.transaction import TransactionRun
from dm.syncer.apply.completion import CommittedPoint, CompletionTracker, RunShare, RunTickets, Ticket


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


class Run:
    """A run of transactions, as far as tickets ask for it."""

    def __init__(self, first: int) -> None:
        self.first = first

    def place(self, number: int) -> Position:
        return end(self.first + number + 1)

    def begin_of(self, number: int) -> Position:
        return end(self.first + number)

    def timestamp(self, number: int) -> int:
        return self.first + number + 1


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=4), min_size=1, max_size=4), st.data())
def test_a_run_is_as_its_transactions_are(runs: list[list[int]], data: st.DataObject) -> None:
    """Whatever is committed first, alone or together, before or after the next run begins, whenever somebody asks."""
    one, all_of_them = CompletionTracker(end(0)), CompletionTracker(end(0))
    waiting: list[tuple[Ticket, RunTickets, int]] = []
    singles: list[tuple[Ticket, Ticket]] = []
    count = 0

    def commit() -> None:
        single, tickets, at = waiting.pop(data.draw(st.integers(0, len(waiting) - 1)))
        if data.draw(st.booleans()):
            one.committed([(single, 1)])
            all_of_them.committed([(tickets.ticket(at), 1)])
        else:
            beside = sorted((each for each in waiting if each[1] is tickets), key=lambda each: each[2])
            some = data.draw(st.lists(st.sampled_from(beside), unique_by=id)) if beside else []
            share = sorted([at, *(each[2] for each in some)])
            for each in some:
                waiting.remove(each)
            one.committed([(single, 1), *((each[0], 1) for each in some)])
            all_of_them.committed([(RunShare(tickets, array("I", share)), len(share))])
        if data.draw(st.booleans()):
            assert one.mark == all_of_them.mark
            assert (one.under_way, one.transactions) == (all_of_them.under_way, all_of_them.transactions)

    for given_each in runs:
        tickets = all_of_them.open_run(cast(TransactionRun, Run(count)), list(accumulate(given_each)))
        for at, given_of_one in enumerate(given_each):
            single, ticket = one.open(end(count + 1), count + 1, end(count)), tickets.ticket(at)
            one.close(single, given_of_one)
            count += 1
            assert (ticket.number, ticket.begin, ticket.end) == (single.number, single.begin, single.end)
            waiting += [(single, tickets, at)] * given_of_one
            singles.append((single, ticket))
        assert one.mark == all_of_them.mark
        for _ in range(data.draw(st.integers(0, len(waiting)))):
            if waiting:
                commit()
    asked = data.draw(st.booleans())
    if asked:
        assert [(each.open, each.begun) for each, _ in singles] == [(each.open, each.begun) for _, each in singles]
    while waiting:
        commit()
    assert one.mark == all_of_them.mark
    assert (all_of_them.under_way, all_of_them.transactions) == (0, count)


def test_a_share_names_its_transactions() -> None:
    tickets = CompletionTracker(end(0)).open_run(cast(TransactionRun, Run(0)), [2, 2, 3, 5])
    share = RunShare(tickets, array("I", [0, 2, 3, 3]))
    assert [(ticket.number, count) for ticket, count in share.apart()] == [(1, 1), (3, 1), (4, 2)]
    assert (share.first.number, share.last.number, share.end) == (1, 4, end(4))
    share.may_be_committed()
    assert [tickets.ticket(at).begun for at in range(4)] == [True, False, True, True]
    tickets.ticket(1).divided = True
    assert [tickets.ticket(at).divided for at in range(4)] == [False, True, False, False]
