"""What the next run must know of changes that lanes got and did not commit (`dm.progress.undone`)."""

from __future__ import annotations

from collections.abc import Iterable

from dm.changes.keys import keys_of
from dm.progress.undone import TransactionKey, UndoneKeys, digests, transaction_key
from dm.syncer.apply.completion import Ticket
from dm.syncer.apply.lane import LaneJob


def undone_changes(jobs: Iterable[LaneJob]) -> dict[TransactionKey, UndoneKeys]:
    """The changes of these jobs by transaction, in the source's order.

    A change for safe mode is left out: an earlier run may have done it.
    """
    held: dict[int, tuple[Ticket, set[str]]] = {}
    replayed: set[int] = set()
    for job in sorted(jobs, key=lambda job: job.ticket.number):
        ticket = job.ticket
        _, keys = held.setdefault(ticket.number, (ticket, set()))
        for change in job.changes:
            if change.safe:
                replayed.add(ticket.number)
            else:
                keys |= digests(keys_of(change))
    found = {}
    for number, (ticket, keys) in held.items():
        if not ticket.begun and number not in replayed:
            found[transaction_key(ticket.end)] = UndoneKeys(None)
        elif keys and not ticket.divided:
            found[transaction_key(ticket.end)] = UndoneKeys(frozenset(keys))
    return found
