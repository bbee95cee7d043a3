"""Making another place the checkpoint: what `start-task --start-time` does before the task runs.

Behind the new L may lie what earlier runs have done, and a run that begins there would do it again. So everything that
says how far they came is kept beside it: B becomes the old L joined with the old B (the lanes' rows are joined with it
by each start), so keyed tables are in safe mode until they are past it; and the row of the keyless lane, which is read
exactly, says what the old L said, where that is more, and so does the record of ordered tables. What a run that kept
transactions whole has done beyond the old L goes the same two ways, and its lane's row is emptied: keyed tables are to
be done again. Structures belong to the old L and go; the syncer finds those of the new place as it does for a task that
begins (DM deletes its table points too). So does what was noted of online DDL.

Tables that were changed in the source's order stay as they are, and that means their DDL, too: a TRUNCATE that came to
the target would take rows that nobody puts there again. So each of them gets a point of its own, up to which it is
there, as a table has that a dump read behind P0. It is the old L, or where the table began to go by its key: what lies
behind that can be done again, and what lies before can't, since the source's rows had no key then.

Nobody may write progress meanwhile: the control lane's lock is taken, and whoever holds it lets us refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from dm.downstream import session_lock
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.progress.checkpoint import Checkpoint, TablePoint, read_checkpoint, write_global, write_table
from dm.progress.lane_rows import ATOMIC, CONTROL, KEYLESS, position_columns, raise_epoch
from dm.progress.ordered_tables import put_done, read_ordered
from dm.progress.tables import SubtaskKey, create_tables

_LOCK_SECONDS = 3  # a run that has just ended is given time to be gone


@contextmanager
def no_other_run(connection: TargetConnection, key: SubtaskKey) -> Iterator[None]:
    """Be who may change the subtask's progress; raises DMError while a run holds it."""
    name = key.lock_name(CONTROL)
    if not session_lock.take(connection, name, _LOCK_SECONDS):
        others = session_lock.holders(connection, [name])
        holder = ", ".join(map(str, sorted(others))) or "unknown"
        raise DMError("task-runs-elsewhere", task=key.task, source=key.source_id, connection=holder)
    try:
        yield
    finally:
        session_lock.release(connection, name)


def begin_at(
    connection: TargetConnection, key: SubtaskKey, start: Position, route: Callable[[TableName], TableName]
) -> Position | None:
    """Make `start` the checkpoint; gives the one that was there. Raises DMError.

    `route` gives the target's table of a source's.
    """
    create_tables(connection, key)
    with no_other_run(connection, key):
        _, rows = raise_epoch(connection, key, [CONTROL, KEYLESS])
        before = read_checkpoint(connection, key)
        keyless = next((row.position for row in rows if row.lane == KEYLESS), None)
        atomic = next((row.position for row in rows if row.lane == ATOMIC), None)
        try:
            connection.begin()
            connection.execute(f"DELETE FROM {key.checkpoint.sql} WHERE id = %s AND NOT is_global", (key.source_id,))
            connection.execute(f"DELETE FROM {key.intent.sql} WHERE id = %s", (key.source_id,))
            connection.execute(f"DELETE FROM {key.undone.sql} WHERE id = %s", (key.source_id,))
            connection.execute(f"DELETE FROM {key.online.sql} WHERE id = %s", (key.source_id,))
            if before is None:
                write_global(connection, key, start, None)
            else:
                whole = _done(before.position, atomic)
                write_global(connection, key, start, _bound(start, before, whole))
                if (ordered := read_ordered(connection, key)).kept:
                    done = put_done(connection, key, ordered, whole)
                    for table in before.tables:
                        target = route(table)
                        point = done if target in ordered.tables else ordered.left.get(target)
                        if point is not None and not start.covers(point):
                            write_table(connection, key, table, TablePoint(None, point))
                _write_exact(connection, key, KEYLESS, _done(before.position, keyless).join(whole))
                _write_exact(connection, key, ATOMIC, None)
            connection.commit()
        except DMError:
            connection.rollback()
            raise
    return None if before is None else before.position


def _bound(start: Position, before: Checkpoint, whole: Position) -> Position | None:
    bound = whole if before.bound is None else before.bound.join(whole)
    return None if start.covers(bound) else bound


def _done(checkpoint: Position, lane: Position | None) -> Position:
    """How far a lane is: its row holds what lies above the checkpoint, so the two together are exact."""
    if lane is None:
        return checkpoint
    whole = replace(lane, gtid_set=lane.gtid_set | checkpoint.gtid_set)
    return checkpoint if checkpoint.covers(whole) else whole


def _write_exact(connection: TargetConnection, key: SubtaskKey, lane: str, done: Position | None) -> None:
    name, offset, gtid_set, uuid = position_columns(done)
    connection.execute(
        f"UPDATE {key.worker.sql} SET binlog_name = %s, binlog_pos = %s, binlog_gtid = %s, server_uuid = %s"
        " WHERE id = %s AND lane = %s",
        (name, offset, gtid_set, uuid, key.source_id, lane),
    )
