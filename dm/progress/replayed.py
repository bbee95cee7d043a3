"""The record of a replay: which parts of a backlog's net changes are in the target.

Problem: many sessions bring keyed tables from the checkpoint L to a fixed place E, not in the source's order. Each part
must count once, a session of a dead or frozen process must not disturb another run, and at any moment a person may
resume the task instead.

Two jobs apply it: *removals* delete rows by their keys, *writes* insert and change rows. Both are cut into parts.

R1  Before the first part commits, one transaction under the control lane's claim stores the plan and makes E (joined
    with the old bound) the bound B. So I3 holds: nothing beyond B is committed. Whatever becomes of the replay, a
    syncer that begins at L repeats everything up to E in safe mode. That touches each row that the replay may have
    touched, so it ends with its last image (I4). The same transaction deletes the record of what the last run did not
    do (I10): from now on it may be done.
R2  A session that applies parts holds the lock of a lane (`replay-NN`), and each of its transactions first updates that
    lane's row, as I1 asks. So the next run, a replay or a syncer, ends it like any other session of an older run.
R3  The last act of a part's transaction is to insert the part's row. A second transaction of the part fails at its
    primary key.
R4  Writes begin when all removals have committed.
R5  At the end one transaction under the control lane's claim moves L to E and deletes the record, and the lanes' rows
    with it. Where tables were left to the syncer, L stays, and each replayed table gets the point E instead.

A replay that finds the plan of the last run continues it: the same cuts give the same parts. (If a part is done with
another number of changes, they were not the same.) It may do so only if no other run has had the lanes meanwhile, which
the plan's epoch tells. Otherwise it begins anew at L; then it first deletes each key in the stretch, whether its row
existed at L or not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from dm import faults
from dm.downstream import session_lock
from dm.downstream.connection import TargetConnection
from dm.ident import TableName
from dm.position import Position
from dm.progress.checkpoint import Checkpoint, TablePoint, write_global, write_table
from dm.progress.lane_rows import LaneClaim, LaneRow, claimed, insert_lanes
from dm.progress.prepared_places import create_prepared_table, store_prepared
from dm.progress.tables import CHARSET, SubtaskKey, existing_tables, reads
from dm.progress.takeover import forget_undone
from dm.sourcelog.stream.file_births import FileBirth

MOST_LANES: Final = 64
_PLAN: Final = 0  # the phase of the row that has the plan
REMOVALS: Final = 1
WRITES: Final = 2

_DEFINITION = """CREATE TABLE IF NOT EXISTS {table} (
    id VARCHAR(32) NOT NULL,
    phase TINYINT UNSIGNED NOT NULL,
    bucket INT UNSIGNED NOT NULL DEFAULT 0,
    part INT UNSIGNED NOT NULL DEFAULT 0,
    changes BIGINT UNSIGNED NOT NULL DEFAULT 0,
    plan LONGTEXT NOT NULL,
    PRIMARY KEY (id, phase, bucket, part)
) ENGINE=InnoDB {charset}"""


def lane_of(number: int) -> str:
    """The lane of one of the sessions that apply parts."""
    return f"replay-{number:02d}"


@dataclass(frozen=True, slots=True)
class RelayRange:
    """A part of one relay file, from the end of a transaction to the end of another."""

    file: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class ReplayPart:
    """What one transaction of a replay applies."""

    phase: int
    bucket: int
    number: int


@dataclass(frozen=True, slots=True)
class StoredReplay:
    """The plan of a replay."""

    number: str  # of this one
    epoch: int  # of the run that stored it last
    start: Position  # L
    end: Position  # E
    pieces: tuple[RelayRange, ...]
    buckets: int
    again: bool  # earlier runs may have done any of it
    removals: bool = False  # some tables need those first
    ends_before: str = ""  # what ends it before the end that was asked for
    replayed: Mapping[TableName, TableName] | None = None  # tables of the source with changes, and the target's
    left: Mapping[TableName, str] | None = None  # tables with changes that are left to the syncer, and why

    def to_json(self) -> str:
        """As stored."""
        found: dict[str, object] = {
            "number": self.number, "epoch": self.epoch, "start": self.start.to_json(), "end": self.end.to_json(),
            "pieces": [[piece.file, piece.begin, piece.end] for piece in self.pieces], "buckets": self.buckets,
            "again": self.again, "removals": self.removals, "ends_before": self.ends_before,
            "replayed": [[*source, *target] for source, target in (self.replayed or {}).items()],
            "left": [[*source, why] for source, why in (self.left or {}).items()],
        }  # fmt: skip
        return json.dumps(found)

    @classmethod
    def from_json(cls, text: str) -> StoredReplay:
        """The inverse."""
        found: dict[str, Any] = json.loads(text)
        return cls(
            found["number"],
            found["epoch"],
            Position.from_json(found["start"]),
            Position.from_json(found["end"]),
            tuple(RelayRange(*each) for each in found["pieces"]),
            found["buckets"],
            found["again"],
            found["removals"],
            found["ends_before"],
            {TableName(*each[:2]): TableName(*each[2:]) for each in found["replayed"]},
            {TableName(*each[:2]): each[2] for each in found["left"]},
        )


def create_record(connection: TargetConnection, key: SubtaskKey) -> None:
    """Create the tables that are missing; raises DMError."""
    connection.execute(_DEFINITION.format(table=key.replay.sql, charset=CHARSET))
    create_prepared_table(connection, key)


@reads(lambda key: key.replay)
def read_replay(connection: TargetConnection, key: SubtaskKey) -> StoredReplay | None:
    """The plan that is stored; None where there is none. Safe before the table exists."""
    if key.replay not in existing_tables(connection, key):
        return None
    rows = connection.query(f"SELECT plan FROM {key.replay.sql} WHERE id = %s AND phase = %s", (key.source_id, _PLAN))
    return StoredReplay.from_json(str(rows[0][0])) if rows else None


def begin_replay(
    connection: TargetConnection, claim: LaneClaim, checkpoint: Checkpoint, replay: StoredReplay, lanes: int
) -> None:
    """R1: store the plan, which takes the place of another one; raises DMError."""
    bound = replay.end if checkpoint.bound is None else checkpoint.bound.join(replay.end)
    with claimed(connection, claim):
        _forget(connection, claim.key)
        forget_undone(connection, claim.key)
        _put_plan(connection, claim.key, replay)
        insert_lanes(connection, claim.key, [lane_of(number) for number in range(lanes)], claim.epoch)
        write_global(connection, claim.key, checkpoint.position, bound, checkpoint.birth)
    faults.hit("replay.begun")


@reads(lambda key: key.replay)
def continue_replay(
    connection: TargetConnection, claim: LaneClaim, replay: StoredReplay, lanes: int
) -> tuple[StoredReplay, int]:
    """Make the stored plan that of this run; gives it, and how many changes are done. Raises DMError."""
    ours = replace(replay, epoch=claim.epoch)
    with claimed(connection, claim):
        _put_plan(connection, claim.key, ours)
        insert_lanes(connection, claim.key, [lane_of(number) for number in range(lanes)], claim.epoch)
        done = connection.query(
            f"SELECT SUM(changes) FROM {claim.key.replay.sql} WHERE id = %s", (claim.key.source_id,)
        )
    return ours, int(done[0][0])


def release_lanes(connection: TargetConnection, key: SubtaskKey, rows: Iterable[LaneRow]) -> None:
    """Let go of the lanes whose older sessions the takeover has ended: those of this run take them."""
    names = {lane_of(number) for number in range(MOST_LANES)}
    for row in rows:
        if row.lane in names:
            session_lock.release(connection, key.lock_name(row.lane))


@reads(lambda key: key.replay)
def done_parts(connection: TargetConnection, key: SubtaskKey, phase: int, bucket: int) -> dict[int, int]:
    """The parts of a bucket that are in the target, and how many changes each has."""
    rows = connection.query(
        f"SELECT part, changes FROM {key.replay.sql} WHERE id = %s AND phase = %s AND bucket = %s",
        (key.source_id, phase, bucket),
    )
    return {int(part): int(changes) for part, changes in rows}


def record_part(connection: TargetConnection, key: SubtaskKey, part: ReplayPart, changes: int) -> None:
    """R3: inside the part's transaction, after its changes; raises DMError where another one has it."""
    connection.execute(
        f"INSERT INTO {key.replay.sql} (id, phase, bucket, part, changes, plan) VALUES (%s, %s, %s, %s, %s, '')",
        (key.source_id, part.phase, part.bucket, part.number, changes),
    )


def end_replay(
    connection: TargetConnection,
    claim: LaneClaim,
    checkpoint: Checkpoint,
    replay: StoredReplay,
    ends: tuple[str, FileBirth | None],
) -> None:
    """R5: everything is in the target; raises DMError.

    `ends`: the list of XA transactions that are undecided at the end, and the birth of the file there.
    """
    key, (undecided, birth) = claim.key, ends
    faults.hit("replay.before_end")
    with claimed(connection, claim):
        if not replay.left:
            write_global(connection, key, replay.end, None, birth)
        else:
            # Beyond L there are only tables with points. What an earlier run may have done there counts on.
            bound = checkpoint.bound if replay.again else None
            write_global(connection, key, checkpoint.position, bound, checkpoint.birth)
            for source in replay.replayed or {}:
                point = checkpoint.tables[source]
                write_table(connection, key, source, TablePoint(point.schema, replay.end))
        store_prepared(connection, key, undecided)
        _forget(connection, key)
    faults.hit("replay.ended")


def forget_replay(connection: TargetConnection, claim: LaneClaim) -> None:
    """Delete the record: the syncer repeats the stretch from L on; raises DMError."""
    with claimed(connection, claim):
        _forget(connection, claim.key)


def _forget(connection: TargetConnection, key: SubtaskKey) -> None:
    connection.execute(f"DELETE FROM {key.replay.sql} WHERE id = %s", (key.source_id,))
    lanes: Sequence[str] = [lane_of(number) for number in range(MOST_LANES)]
    places = ", ".join(["%s"] * len(lanes))
    connection.execute(f"DELETE FROM {key.worker.sql} WHERE id = %s AND lane IN ({places})", (key.source_id, *lanes))


def _put_plan(connection: TargetConnection, key: SubtaskKey, replay: StoredReplay) -> None:
    connection.execute(
        f"REPLACE INTO {key.replay.sql} (id, phase, plan) VALUES (%s, %s, %s)",
        (key.source_id, _PLAN, replay.to_json()),
    )
