"""What a run was given and certainly did not do, so that the next run does not treat it as done.

Lanes run independently. When one of them fails, others have committed later changes of the source, so the next run
replays everything from L to B in safe mode, as if each change had been applied already. For a refused change (a row of
another shard has its key) that would be wrong: a REPLACE would silently do what a person was told to decide.

A run that ends in order knows more than the bound B. Changes that lanes had not begun, and the batch that the target
rolled back, are certainly not applied. They are stored here, and the next run applies them strictly, outside safe mode.
This fits the replay around them, because one lane applies all changes with a common key in order: every change of a key
before its first undone change is done. So when the replay reaches such a change, its rows are as they were when it was
refused.

A transaction is identified by its end. If nothing of it was done, the record covers it as a whole. Otherwise the record
keeps digests of its changes' keys, unless changes of one row may have come to the lanes at different times
(`Ticket.divided`).

The next run deletes the record before it dispatches anything. Otherwise it could apply one of these changes and be
killed before L passes it, and the record would be wrong. So a SIGKILL loses this knowledge, but never causes a false
error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from dm.changes.keys import WILD, Key
from dm.downstream.connection import TargetConnection
from dm.position import Position
from dm.progress.lane_rows import LaneClaim, claimed
from dm.progress.tables import SubtaskKey, reads_of_run

TransactionKey = tuple[str, str, int]
"""Server, file and offset of a transaction's end."""

_MOST_CHARACTERS: Final = 400_000  # of the record: it is one statement, at any target
_DIGEST_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class UndoneKeys:
    """The changes of one transaction that were not done: those with one of these keys; all of them when None."""

    digests: frozenset[str] | None

    @property
    def whole(self) -> bool:
        """Whether nothing of the transaction was done."""
        return self.digests is None

    def hold(self, keys: Iterable[Key]) -> bool:
        """Whether a change with these keys was not done."""
        return self.digests is None or any(digest(key) in self.digests for key in keys)


@dataclass(slots=True)
class Undone:
    """What earlier runs did not do, by transaction; `taken` are those that this run has reached."""

    transactions: dict[TransactionKey, UndoneKeys] = field(default_factory=dict)
    taken: set[TransactionKey] = field(default_factory=set)

    def of(self, end: Position) -> UndoneKeys | None:
        """The changes not done of the transaction that ends here; None if nothing is known."""
        if not self.transactions:
            return None
        place = transaction_key(end)
        found = self.transactions.get(place)
        if found is not None:
            self.taken.add(place)
        return found

    def left(self, position: Position) -> dict[TransactionKey, UndoneKeys]:
        """The transactions that this run has not reached, beyond a checkpoint."""

        def beyond(place: TransactionKey) -> bool:
            end = Position(*place)
            return not (end.same_files(position) and end.order <= position.order)

        return {place: keys for place, keys in self.transactions.items() if place not in self.taken and beyond(place)}


def transaction_key(end: Position) -> TransactionKey:
    """The identity of a transaction."""
    return end.server_uuid, end.file, end.offset


def digest(key: Key) -> str:
    """A key in a few characters; the same in every process."""
    return blake2b(repr(key).encode("utf-8", "backslashreplace"), digest_size=_DIGEST_BYTES).hexdigest()


def digests(keys: Iterable[Key]) -> frozenset[str]:
    """The digests of a change's keys, without the one that collides with everything, which tells nothing."""
    return frozenset(digest(key) for key in keys if key is not WILD)


@reads_of_run(lambda key: key.undone)
def take_undone(connection: TargetConnection, claim: LaneClaim) -> Undone:
    """Read the record and remove it; raises DMError."""
    key = claim.key
    rows = connection.query(f"SELECT changes FROM {key.undone.sql} WHERE id = %s", (key.source_id,))
    if not rows:
        return Undone()
    _write(connection, claim, None)
    return Undone(
        {
            (uuid, file, offset): UndoneKeys(None if held is None else frozenset(held))
            for uuid, file, offset, held in json.loads(str(rows[0][0]))
        }
    )


def store_undone(
    connection: TargetConnection, claim: LaneClaim, transactions: Mapping[TransactionKey, UndoneKeys]
) -> None:
    """Store the record; if there are too many transactions, the first ones. Raises DMError."""
    size, kept = 0, []
    for (uuid, file, offset), keys in sorted(transactions.items(), key=lambda item: Position(*item[0]).order):
        entry = [uuid, file, offset, None if keys.digests is None else sorted(keys.digests)]
        size += len(json.dumps(entry)) + 2
        if size > _MOST_CHARACTERS:
            break
        kept.append(entry)
    if kept:
        _write(connection, claim, json.dumps(kept))


def has_undone(connection: TargetConnection, key: SubtaskKey) -> bool:
    """Whether the last run has left changes undone."""
    return bool(connection.query(f"SELECT 1 FROM {key.undone.sql} WHERE id = %s", (key.source_id,)))


def forget_undone(connection: TargetConnection, key: SubtaskKey) -> None:
    """Inside the open transaction: from now on anything may be done."""
    connection.execute(f"DELETE FROM {key.undone.sql} WHERE id = %s", (key.source_id,))


def _write(connection: TargetConnection, claim: LaneClaim, text: str | None) -> None:
    key = claim.key
    with claimed(connection, claim):
        if text is None:
            forget_undone(connection, key)
        else:
            connection.execute(f"REPLACE INTO {key.undone.sql} (id, changes) VALUES (%s, %s)", (key.source_id, text))
