"""Moving the checkpoint to another place: what `start-task --start-time` does before the task runs.

After the new L there may be changes that earlier runs have done, and a run from there would repeat them. So everything
that says how far they got is kept:

- B becomes the old L joined with the old B (each start joins the lanes' rows with it), so keyed tables are in safe mode
  until they are past it.
- The row of the ordered lane, which is exact, becomes the old L if that is further. So does the record of ordered
  tables.
- What a run with whole transactions has done beyond the old L is added to both, and its lane's row is emptied: keyed
  tables are replayed.
- Structures belong to the old L and are deleted. The syncer finds those of the new place as it does for a new task (DM
  deletes its table points too). Notes of online DDL are deleted as well.

Tables that were changed in the source's order keep their rows, so their DDL must not be repeated: a TRUNCATE would
remove rows that no run applies again. So each such table gets a point of its own, up to which it is done, as a table
has that a dump read after P0. The point is the old L, or the place where the table returned to its key: later changes
can be repeated, earlier ones can't, since the source's rows had no key then.

No run may write progress meanwhile: this takes the control lane's lock and refuses if a run holds it.
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

_LOCK_SECONDS = 3  # a run that has just ended gets time to leave


@contextmanager
def no_other_run(connection: TargetConnection, key: SubtaskKey) -> Iterator[None]:
    """Acquire the right to change the subtask's progress; raises DMError while a run holds it."""
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
    """Make `start` the checkpoint; returns the old one. Raises DMError.

    `route` maps a source's table to the target's.
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
    """How far a lane is: its row holds what is above the checkpoint, so the two together are exact."""
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
