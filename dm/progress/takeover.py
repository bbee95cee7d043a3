"""The start of a run: end the older run, take its lanes, read what it left and what it left undone (`protocol.py`).

The sessions of an older run are ended before this run reads anything. Every session that may write for a subtask holds
a named lock of its lane (GET_LOCK). The server releases it when the session ends, and not before its transaction is
rolled back or committed. A starting run finds the holder of each lock and ends it. It kills an idle or applying
session. It waits for a session inside a DDL statement: a long ALTER completes even without a client, and aborting it
would waste hours. Once this run holds all locks, nothing of the older run can change the target. Raising the epoch
(`lane_rows.py`) then never waits. It also stops a transaction whose session has lost its lock.

**Undone changes** are what a run was given and certainly did not do. Lanes run independently. When one of them fails,
others have committed later changes of the source, so the next run replays everything from L to B in safe mode, as if
each change had been applied already. For a refused change (a row of another shard has its key) that would be wrong: a
REPLACE would silently do what a person was told to decide.

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
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Final

from dm import faults
from dm.changes.keys import WILD, Key
from dm.clock import Clock
from dm.config.subtask import NOBODY, RunBy
from dm.downstream import session_lock
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.position import Position
from dm.progress.checkpoint import Checkpoint, CheckpointWriter, read_checkpoint
from dm.progress.intent import Intent, read_intent
from dm.progress.lane_rows import ATOMIC, CONTROL, DDL, KEYLESS, LaneClaim, LaneRow, claimed, raise_epoch, read_lanes
from dm.progress.owner import create_owner_table, note_owner
from dm.progress.tables import SubtaskKey, reads


@dataclass(frozen=True, slots=True)
class Takeover:
    """What a run starts with."""

    claims: Mapping[str, LaneClaim]
    checkpoint: Checkpoint | None  # None: there never was one
    intent: Intent | None
    rows: Sequence[LaneRow]

    def bound(self) -> Position | None:
        """B: the stored bound joined with everything that any worker committed; None if L covers it."""
        if self.checkpoint is None:
            return None
        # The ordered lane's row is exact.
        return self._joined(self.checkpoint, self.checkpoint.bound, [row for row in self.rows if row.lane != KEYLESS])

    def reached(self, before: Position | None) -> Position | None:
        """How far runs have got: `before` joined with what any lane committed; None if L covers it."""
        return None if self.checkpoint is None else self._joined(self.checkpoint, before, self.rows)

    @staticmethod
    def _joined(checkpoint: Checkpoint, bound: Position | None, rows: Sequence[LaneRow]) -> Position | None:
        start = checkpoint.position
        for row in rows:
            if row.position is None:
                continue
            if row.position.server_uuid != start.server_uuid and (
                not start.gtid_set or start.gtid_set >= row.position.gtid_set
            ):
                continue  # left by a server before a switch that L is past
            bound = row.position if bound is None else bound.join(row.position)
        if bound is None or start.covers(bound):
            return None
        return replace(bound, gtid_set=bound.gtid_set | start.gtid_set)

    def keyless_done(self) -> Position | None:
        """Up to where changes of keyless tables are done, exactly; None if that is not beyond L."""
        return self._exact(KEYLESS, ATOMIC)

    def atomic_done(self) -> Position | None:
        """Up to where everything is done, by a run that kept transactions whole; None if that is not beyond L."""
        return self._exact(ATOMIC)

    def _exact(self, *lanes: str) -> Position | None:
        found: Position | None = None
        for row in self.rows:
            done = self._beyond(row) if row.lane in lanes else None
            if done is not None:
                found = done if found is None else found.join(done)
        return found

    def _beyond(self, row: LaneRow) -> Position | None:
        if self.checkpoint is None or row.position is None:
            return None
        start = self.checkpoint.position
        done = replace(row.position, gtid_set=row.position.gtid_set | start.gtid_set)
        return None if start.covers(done) else done

    def with_exact_lanes(self, here: Callable[[Position], Position]) -> Takeover:
        """The same with another form of the exact positions."""
        rows = []
        for row in self.rows:
            done = self._beyond(row) if row.lane in (KEYLESS, ATOMIC) else None
            rows.append(row if done is None else replace(row, position=here(done)))
        return replace(self, rows=rows)


def take_over(connections: Mapping[str, TargetConnection], fence: Fence) -> Takeover:
    """Make the given session the holder of each lane, raise the epoch, read what is stored; raises DMError."""
    control = connections[CONTROL]
    # Before any lock by name is held: two sources that both make the table are a deadlock of metadata locks, and MySQL
    # solves it by itself only in a session without other locks (Open_table_context::request_backoff_action).
    create_owner_table(control, fence.key)
    # The older run's workers first: its DDL may wait for a lock that one of them holds.
    for lane in sorted(connections, key=lambda lane: lane == DDL):
        fence.take(connections[lane], lane)
    for row in read_lanes(control, fence.key):
        if row.lane not in connections:
            fence.take(control, row.lane)  # an older run with more workers

    def owned(epoch: int) -> None:
        note_owner(control, fence.key, "Sync", epoch, fence.run_by)

    epoch, rows = raise_epoch(control, fence.key, list(connections), owned)
    batches = {row.lane: row.batch for row in rows}
    claims = {lane: LaneClaim(fence.key, lane, epoch, batches.get(lane, 0)) for lane in connections}
    return Takeover(claims, read_checkpoint(control, fence.key), read_intent(control, fence.key), rows)


def store_bound(writer: CheckpointWriter, checkpoint: Checkpoint, bound: Position | None) -> None:
    """Store B before the first dispatch of the run; raises DMError."""
    if bound != checkpoint.bound:
        writer.write(checkpoint.position, bound, birth=checkpoint.birth)
    faults.hit("syncer.bound_persisted")


POLL_SECONDS = 0.05

# What the holder of a lock is doing, for the status of the waiting run.
Waiting = Callable[[str], None]


def lock_holders(connection: TargetConnection, key: SubtaskKey, lane: str) -> frozenset[int]:
    """The target's numbers of the sessions that hold a lane's lock."""
    return session_lock.holders(connection, [key.lock_name(lane)])


@dataclass(frozen=True, slots=True)
class Fence:
    """Takes the lane locks of one subtask."""

    key: SubtaskKey
    clock: Clock
    stop: threading.Event
    waiting: Waiting
    run_by: RunBy = NOBODY

    def take(self, connection: TargetConnection, lane: str) -> None:
        """Make `connection` the holder of the lane's lock, ending its present holder; raises DMError `stopped`."""
        name = self.key.lock_name(lane)
        killed = 0
        if what := session_lock.words_while_asking(connection):
            self.waiting(what)
        while not session_lock.take(connection, name):
            for holder in lock_holders(connection, self.key, lane):
                killed = self._end(connection, lane, holder, killed)
            if self.clock.wait(self.stop, POLL_SECONDS):
                raise DMError("stopped-while-waiting", what=f"the session of lane {lane} of an earlier run")

    def _end(self, connection: TargetConnection, lane: str, holder: int, killed: int) -> int:
        """Kill the holder once, unless it is inside a DDL statement; returns the number of the killed session."""
        if lane == DDL and session_lock.runs_statement(connection, holder):
            self.waiting(f"waiting for the DDL statement of an earlier run (target connection {holder}) to end")
            return killed
        if killed != holder:
            self.waiting(f"ending target connection {holder} of an earlier run (lane {lane})")
            connection.kill(holder)
        return holder


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


@reads(lambda key: key.undone)
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
