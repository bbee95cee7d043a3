"""Branches: tables that leave main's stream at a stored place, rest there, and follow from it by themselves.

Problem: one table can't go on (a row is refused, a statement fails), or should not (its ALTER takes an hour), and all
the others should. It must go on later exactly where it stopped. But lanes run independently: when one fails, others
have committed later changes, of the same table, too. So the table's place is not a point of the binlog. It is all that
main has stored: L, the bound B, the rows of the lanes, the route of each table, what is undone, an announced statement.

Invariant: *a branch begins as a copy of main's progress, in the transaction in which main forgets the tables.* Main is
then what it would have been without these tables, and the branch what it would have been without the others. Whatever
`protocol.py` says of a run after a crash holds for both: keyed changes up to B are replayed in safe mode, keyless ones
are skipped up to the ordered lane's row, exactly. Main need not come to rest for it.

B1  The copy is made under main's claim, by a run that has ended all older ones and has dispatched nothing. So no
    session of main can commit a change of the tables afterwards, and what is copied is final.
B2  Each branch has an id of its own, so that two of them never share a row, and a late session of an ended branch
    finds none.
B3  A branch that meets an error rests with the progress that it has. It has nothing to hand over: to go on is to begin
    another run. Only a person, or who made it for one statement, moves it from `aside`.
B4  It comes back by the steps of a share (J1 to J3 of `table_joining.py`), from the phase `undo` on.

Phases of a branch:

    asked      a person wants the tables aside; they are main's.
    aside      they rest.
    undo, near, until, ready    as those of a share.
    dropped    a person has given them up: their progress is gone, and main leaves them out as long as there is the row.
    (no row)   they are main's.

The tables' ghost tables, of a tool of online DDL, and what is known of them leave with them. A statement that was
announced leaves with them, if it is about them; main forgets it if it is about nothing else.
`tests/testbed/branch_model.py` walks all steps.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from dm import faults
from dm.config.subtask import Share
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.position import Position
from dm.progress.checkpoint import read_position_of
from dm.progress.joining.table_joining import (
    Joining,
    Phase,
    forget_joining,
    move,
    read_current,
    remove_stream,
)
from dm.progress.lane_rows import LaneClaim, claimed, transaction
from dm.progress.operators import put_operator, read_operators
from dm.progress.tables import SubtaskKey, create_tables
from dm.progress.takeover import Takeover
from dm.session.answers import reads_answers

_COMING: tuple[Phase, ...] = ("undo", "near", "until")


def insert_branch(
    connection: TargetConnection, key: SubtaskKey, tables: Iterable[TableName], phase: Phase, error: str = ""
) -> Joining:
    """Store a new branch inside the open transaction."""
    share = Share(tables=tuple((each.schema, each.table) for each in sorted(tables)))
    made = Joining(uuid.uuid4().hex, "branch", phase, share, error=error)
    connection.execute(
        f"INSERT INTO {key.branches.sql} (id, number, kind, phase, share, targets, binlog_gtid, error)"
        " VALUES (%s, %s, %s, %s, %s, '[]', '', %s)",
        (key.source_id, made.number, made.kind, phase, share.model_dump_json(), error),
    )
    return made


@dataclass(frozen=True, slots=True)
class Leaving:
    """Tables that are to leave, and why; `joining` is the row of a person's request."""

    tables: frozenset[TableName]
    phase: Phase = "aside"
    error: str = ""
    joining: Joining | None = None


@reads_answers
def leave(
    connection: TargetConnection,
    main: LaneClaim,
    taken: Takeover,
    leaving: Leaving,
    real: Callable[[TableName], TableName],
    route: Callable[[TableName], TableName],
) -> Joining | None:
    """Have tables leave main, which has just taken over; None if a person has taken it back. Raises DMError.

    `real` gives the table whose ghost another one is; `route` the target's name of a source table.
    """
    key, checkpoint = main.key, taken.checkpoint
    assert checkpoint is not None
    create_tables(connection, key.share)
    faults.hit("branch.before_leaving")
    with claimed(connection, main):
        if leaving.joining is None:
            branch = insert_branch(connection, key, leaving.tables, leaving.phase, leaving.error)
        elif move(connection, key, leaving.joining, ["asked"], leaving.phase):
            branch = leaving.joining
        else:
            return None
        to = branch.progress(key)
        for table, copy in ((key.worker, to.worker), (key.undone, to.undone), (key.ordered, to.ordered)):
            _copy(connection, key, table, to, copy)
        _copy(connection, key, key.operator, to, to.operator)
        own = [table for table in checkpoint.tables if real(table) in leaving.tables]
        _copy(connection, key, key.checkpoint, to, to.checkpoint, "is_global", ())
        for table in own:
            where, values = "cp_schema = %s AND cp_table = %s", (table.schema, table.table)
            _copy(connection, key, key.checkpoint, to, to.checkpoint, where, values)
            _remove(connection, key, key.checkpoint, where, values)
        for schema, name in connection.query(
            f"SELECT ghost_schema, ghost_table FROM {key.online.sql} WHERE id = %s", (key.source_id,)
        ):
            if real(TableName(str(schema), str(name))) in leaving.tables:
                where, values = "ghost_schema = %s AND ghost_table = %s", (str(schema), str(name))
                _copy(connection, key, key.online, to, to.online, where, values)
                _remove(connection, key, key.online, where, values)
        if taken.intent is not None:
            announced = {table for table in taken.intent.before if table.table}
            ours = announced & {route(table) for table in leaving.tables}
            if ours:
                _copy(connection, key, key.intent, to, to.intent)
            if ours == announced:
                _remove(connection, key, key.intent)
    faults.hit("branch.left")
    return branch


@reads_answers
def _copy(
    connection: TargetConnection,
    key: SubtaskKey,
    table: TableName,
    to: SubtaskKey,
    copy: TableName,
    where: str = "TRUE",
    values: Sequence[object] = (),
) -> None:
    names = [str(row[0]) for row in connection.query(f"SHOW COLUMNS FROM {copy.sql}")]
    columns = ", ".join(Ident(name).sql for name in names if name.lower() != "id")
    connection.execute(
        f"INSERT INTO {copy.sql} (id, {columns}) SELECT %s, {columns} FROM {table.sql} WHERE id = %s AND {where}",
        (to.source_id, key.source_id, *values),
    )


def _remove(
    connection: TargetConnection, key: SubtaskKey, table: TableName, where: str = "TRUE", values: Sequence[object] = ()
) -> None:
    connection.execute(f"DELETE FROM {table.sql} WHERE id = %s AND {where}", (key.source_id, *values))


def place_of(connection: TargetConnection, key: SubtaskKey, branch: Joining) -> Position | None:
    """How far a branch is: from there on its binlog is needed. None where it has no progress."""
    return None if branch.phase in ("asked", "dropped") else read_position_of(connection, branch.progress(key))


def rest(connection: TargetConnection, key: SubtaskKey, branch: Joining, error: DMError) -> bool:
    """A branch on its way back has met an error; False if somebody has decided otherwise. Raises DMError."""
    faults.hit("branch.before_rest")
    with transaction(connection):
        rests = move(connection, key, branch, _COMING, "aside")
        if rests:
            _note_error(connection, key, branch, report_of(error))
    faults.hit("branch.rests")
    return rests


def _note_error(connection: TargetConnection, key: SubtaskKey, branch: Joining, report: str) -> None:
    connection.execute(
        f"UPDATE {key.branches.sql} SET error = %s WHERE id = %s AND number = %s",
        (report, key.source_id, branch.number),
    )


def report_of(error: DMError) -> str:
    """What is stored of an error: DM's object, and its place."""
    return json.dumps({**error.report(), "Position": error.position or ""})


# -- What a person asks


def ask_aside(connection: TargetConnection, key: SubtaskKey, tables: Collection[TableName]) -> Joining:
    """Store that tables are to leave; raises DMError."""
    create_tables(connection, key)
    with transaction(connection):
        return insert_branch(connection, key, tables, "asked")


def release(connection: TargetConnection, key: SubtaskKey, branch: Joining) -> bool:
    """Let a branch go on; one that has not left does not leave. False if it does not rest. Raises DMError.

    What a person wants done with single events is stored for main, and the branch meets them: it gets all that is still
    ahead of it, also what main's checkpoint has not passed. Main leaves out what is about the branch's tables.
    """
    with transaction(connection):
        found = read_current(connection, key, branch, lock=True)
        if found is None or found.phase not in ("asked", "aside"):
            return False
        if found.phase == "asked":
            forget_joining(connection, key, branch)
            return True
        own = branch.progress(key)
        place = read_position_of(connection, own)
        done = [each for each in read_operators(connection, own) if each.done]
        for operator in read_operators(connection, key):
            ahead = place is None or not operator.outdated(place)
            if ahead and not any(operator.same_event(each) for each in done):
                put_operator(connection, own, operator)
        move(connection, key, branch, ["aside"], "undo")
        _note_error(connection, key, branch, "")
    return True


def drop(connection: TargetConnection, key: SubtaskKey, branch: Joining) -> bool:
    """Give the tables of a branch up; False if it does not rest. Raises DMError."""
    with transaction(connection):
        if not move(connection, key, branch, ["aside"], "dropped"):
            return False
        remove_stream(connection, key, branch)
    return True


def forget_branch(connection: TargetConnection, *, key: SubtaskKey, branch: Joining) -> None:
    """Inside the open transaction: its tables are to be loaded again; raises DMError if it does not rest."""
    found = read_current(connection, key, branch, lock=True)
    if found is None or not found.rests:
        raise branch_moves(key, branch, found)
    remove_stream(connection, key, branch)
    forget_joining(connection, key, branch)


def branch_moves(key: SubtaskKey, branch: Joining, found: Joining | None) -> DMError:
    """The error of who wants something of a branch that only one at rest can do."""
    tables = ", ".join(each.sql for each in branch.names)
    return DMError("branch-moves", task=key.task, tables=tables, phase="back" if found is None else found.phase)
