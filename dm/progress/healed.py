"""A heal: the target's rows are brought to the source's by comparison, and the stream goes on from where that began.

Problem: a task has lost its place (the source has purged the binlog that it needs), or the target was restored and has
other rows than the progress says. Nothing tells which rows are wrong. To load everything again takes as long as the
first load. So the rows are compared by chunks, those that differ are written, and the syncer begins at the place where
the comparison began. The source is written to meanwhile, and any process may die anywhere.

P0 is taken before anything is read (`dm.sourcelog.upstream.snapshot`: every read that starts later sees all up to it),
P1 after the last read: no read saw more. No session of the task writes meanwhile but those of the heal.

H1  For each key of a keyed table, the target has in the end the row that the source had at some moment t between P0 and
    P1, or the source has changed this row between P0 and P1.

    Proof. A chunk whose sums agree is, at the moment at which the source was asked, what the source has: t is that
    moment. (The target is asked first, and rests.) Otherwise the sums of its buckets are compared, and the rows of
    those that differ are read and written: t is the moment of the last read that decided about the row. What a bucket
    or a chunk was found to have stays there, but for one case. Where a table has further unique keys, rows are written
    by REPLACE, which removes each row E that holds a unique value of the row B that is written. If E was not decided
    yet, it is compared without being there, or its own statement follows: DELETE, or REPLACE, which don't ask whether
    it is there. If E was decided at t, the source had E with this value at t, and B with it at another moment. It never
    had both at once, so it has changed both between P0 and P1.

H2  So keyed tables are in the state in which a dump without locks leaves them, and I4 applies: L becomes P0, B becomes
    P1, and every row that was touched in between ends with its last image. DDL between P0 and P1 is repeated as well.
    A table whose structure differs at the two ends is not left to that: its chunks were compared by columns that it has
    no more. It is loaded again whole.

H3  Repeating changes of a table without a key would double rows. Its rows are read in one snapshot at an exact place X,
    as a dump does it, and counted. What differs is written in one transaction, so the target has the table as of X, or
    as before. X becomes the table's own point. A heal that is cut short in between compares again, at a later X.

H4  Before its first write the heal's lane (`heal`) gets a row, under the control lane's claim. Each of its transactions
    updates that row first (I1), so a session of an older heal can't commit. As long as the row is there, no syncer and
    no replay begins: target rows are of many moments, and the stored place is not theirs. A further heal takes a new P0
    and compares everything again: what is equal by then costs no write, and H1 holds for the new P0 whatever the rows
    are. So nothing of an earlier heal has to be known.

H5  The end is one transaction under the control lane's claim: checkpoint, bound, structures and points replace the
    stored ones. All that belongs to the old place goes: places of lanes, intent, operators, undone changes, undecided
    XA transactions, the record of ordered tables, online DDL, conclusions of comparisons. The lane `heal` goes. Tables
    that are loaded whole leave the stream at P0 (`joining/table_joining.py`, phase `emptying`), so the syncer never
    applies a change to them.

H6  Several sources are healed together, each with its P0, P1, lane and end. A chunk of a table that has rows of several
    is compared with all of them. If its sums agree, it has the rows of each as of the moment at which that
    source was asked; otherwise H1 holds for each row with the source that has it. Two sources that have one key are
    told, and end the heal. REPLACE may remove a row of another source, of which H1 says nothing: so such a table is
    not healed by rows where it has further unique keys. All lanes have their rows before the first write, and all reads
    are over before the first end. A crash between two ends leaves sources that may go on, and others that are healed
    again, together with those that they share tables with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from dm import faults
from dm.downstream import session_lock
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.progress.checkpoint import Handover, write_whole
from dm.progress.joining.table_joining import Joining, leave_at_once
from dm.progress.lane_rows import LaneClaim, LaneRow, claimed, insert_lanes
from dm.progress.tables import SubtaskKey, existing_tables, reads
from dm.progress.validator import create_validator_tables, remove_validation

HEAL: Final = "heal"


def demand_healed(key: SubtaskKey, rows: Iterable[LaneRow]) -> None:
    """Raise DMError where a heal was begun and has not ended (H4); `rows` are those of all lanes."""
    if any(row.lane == HEAL for row in rows):
        raise DMError("heal-unfinished", task=key.task, source=key.source_id)


def release_lane(connection: TargetConnection, key: SubtaskKey) -> None:
    """Let go of the heal's lane, whose older session the takeover has ended: the session that writes takes it."""
    session_lock.release(connection, key.lock_name(HEAL))


@reads(lambda key: key.worker)
def begin_writing(connection: TargetConnection, control: LaneClaim) -> LaneClaim:
    """H4: from now on rows are written; gives the claim to do so. Raises DMError."""
    key = control.key
    with claimed(connection, control):
        insert_lanes(connection, key, [HEAL], control.epoch)
        # A row with the number of batch that it has already would count as unchanged.
        rows = connection.query(
            f"SELECT batch FROM {key.worker.sql} WHERE id = %s AND lane = %s", (key.source_id, HEAL)
        )
    faults.hit("heal.begun")
    return LaneClaim(key, HEAL, control.epoch, int(rows[0][0]))


def write_rows(connection: TargetConnection, claim: LaneClaim, statements: Sequence[bytes]) -> None:
    """Execute statements in one transaction of the heal's lane; each may be several. Raises DMError."""
    with claimed(connection, claim):
        connection.run_scripts(statements)
        faults.hit("heal.inside")
    faults.hit("heal.written")


def end_heal(
    connection: TargetConnection, control: LaneClaim, handover: Handover, whole: Joining | None, *, validated: bool
) -> None:
    """H5: the syncer may begin at P0; `whole` has been asked for. Raises DMError."""
    key = control.key
    remove_validation(connection, key)
    if validated:
        create_validator_tables(connection, key)
    existing = existing_tables(connection, key)
    faults.hit("heal.before_end")
    with claimed(connection, control):
        old = (key.checkpoint, key.intent, key.operator, key.undone, key.prepared, key.ordered, key.online)
        for table in existing:
            if table in (*old, key.replay, key.compared):
                connection.execute(f"DELETE FROM {table.sql} WHERE id = %s", (key.source_id,))
        connection.execute(
            f"UPDATE {key.worker.sql} SET binlog_name = '', binlog_pos = 0, binlog_gtid = '', server_uuid = ''"
            " WHERE id = %s",
            (key.source_id,),
        )
        connection.execute(f"DELETE FROM {key.worker.sql} WHERE id = %s AND lane = %s", (key.source_id, HEAL))
        write_whole(connection, key, handover.checkpoint, validated=validated)
        if whole is not None and not leave_at_once(connection, key, whole):
            raise DMError("joining-exists", task=key.task, source=key.source_id)
    faults.hit("heal.ended")
