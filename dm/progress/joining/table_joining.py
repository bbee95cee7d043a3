"""Tables that are loaded beside a running stream and join it: their owner at each step, and what a crash leaves.

Problem: a table's rows are to be loaded (again) while the task follows its source. No row of it may be lost or applied
twice, the task's other tables may not wait for the load, and any process may die anywhere.

Two streams of one source read its binlog. *Main* is the task. The *share* is the tables that are loaded: a task inside
the task (`SubtaskKey.share`), in mode `all`, with its own progress tables, lanes and epochs, so `protocol.py` and
`load_parts.py` hold for it as they stand. At every moment each table belongs to one stream, and no target table gets
rows of both. One row per source stores the phase:

    asked      a person asked for it. The tables are main's; tables to be added have no stream.
    out        main has given up the tables at a place P: it applied everything up to P and nothing after. P and the
               tables' structures are stored as the share's checkpoint.
    undo       a person cancelled the reload: the share begins at P with the rows that are there. No load.
    emptying   the target tables are being emptied; the share's progress is removed, so nobody writes them.
    loading    they are empty: dump, load, sync.
    near       the share has come near main, and goes on.
    until      main waits at a place M. The share goes on until it reaches or passes M.
    ready      the share waits at a place C: it applied everything up to C, nothing after. Main goes on to exactly C.
    cancelled  tables are not added after all: the target tables that the load made are dropped.

    (no row)   the tables are main's, with the structures that they had at C.

A *branch* is a share that begins at a stored place instead of a load. It comes back by the same steps, from `undo` on,
and rests in `aside`; `branches.py` says how it leaves. A source has one share at most, and any number of branches.

Invariants.

J1  Only main moves `asked` to `out`, `near` to `until`, `ready` back to `loading`, and takes the tables back, each
    under its control lane's claim (I1) and in one transaction with what that means for its checkpoint.
J2  Only the share moves to `ready`, under its own claim, after an orderly end of its run: its lanes are drained, its
    bound and its tables' own points are passed. It never runs on from `ready` unless the row says so: a run looks at
    the row once it has ended every older one, which may have been ready a moment ago. Nor does it load anything once
    it was near: if its checkpoint is gone by then, its tables are main's.
J3  Main takes the tables back when both streams are at the same place and neither has applied anything after it. So
    main's next change is right for them. The share's progress is deleted in the same transaction. Raising its epoch
    waits for its open transactions, and no session of the share can commit afterwards (I1).
J4  A target table is emptied only in `emptying`, by the session that holds the share's lock of this purpose. A new
    process ends the holder first (`takeover.py`), so no late TRUNCATE meets rows that were loaded. In `emptying` no
    session of the share can write (its progress is gone), so to empty the table twice is harmless. From there a person
    can't take the reload back, but can have it begin again: then the row says `emptying` once more.
J5  Before a step creates a target table for added tables, it stores the table's name in the row. A
    cancellation ends the share's statements and its epoch first, then reads the names and drops these tables.

If a process dies, the next one reads the row and repeats its step. Each step is idempotent until the transaction that
stores the next phase. While main waits in `until`, its other tables wait too. So main calls only a share that runs and
is near, and waits for a moment. If the share does not come in time, main goes on. The share still stops there, at or
after M; if main is further by then, the share is started again, and they meet later. `tests/testbed/joining_model.py`
walks all steps, crashes and late commits of two such streams.

The names of J5 begin with the target tables that were missing when the tables were asked for. Meanwhile the source goes
on: the load or a statement makes what it creates, and a RENAME changes names. So both store beforehand what they are
about to make. A stored name without a table is harmless: there is nothing to drop. Only a table that did not exist
counts. The source may also rename a person's table. After a crash, such a statement's names do not tell whose rows they
have: then all of them are kept.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, cast

from dm import faults
from dm.config.subtask import Share
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.piece import Piece
from dm.position import Position
from dm.progress.checkpoint import Checkpoint, TablePoint, read_checkpoint, remove_table, write_global, write_table
from dm.progress.lane_rows import LaneClaim, claimed, position_columns, read_position, transaction
from dm.progress.tables import SubtaskKey, create_tables, existing_tables, reads

Kind = Literal["reload", "add", "branch"]
Phase = Literal[
    "asked", "out", "undo", "emptying", "loading", "near", "until", "ready", "cancelled", "aside", "dropped"
]  # fmt: skip

EMPTYING: Final = "emptying"  # the lane whose lock the emptying session holds


@dataclass(frozen=True, slots=True)
class Joining:
    """A source's row."""

    number: str  # identifies this join
    kind: Kind
    phase: Phase
    share: Share
    targets: tuple[TableName, ...] = ()  # reload: tables to empty; add: tables that the load makes (J5)
    anew: bool = False  # target tables are dropped, and made again by the load
    place: Position | None = None  # M in `until`, C in `ready`
    error: str = ""  # of a branch: the report of the error by which it left, or rests, as JSON
    since: str = ""  # of a branch: when it left

    @property
    def names(self) -> tuple[TableName, ...]:
        """The tables of a reload."""
        return tuple(TableName(*each) for each in self.share.tables)

    def has(self, table: TableName) -> bool:
        """Whether a table of the source is one of a reload."""
        return (table.schema, table.table) in self.share.tables

    @property
    def rests(self) -> bool:
        """Whether it is a branch that nothing moves but a person."""
        return self.phase in ("aside", "dropped")

    def row_of(self, main: SubtaskKey) -> TableName:
        """Where its row is."""
        return main.branches if self.kind == "branch" else main.joining

    def progress(self, main: SubtaskKey) -> SubtaskKey:
        """Whose progress its stream has."""
        return main.branch(self.number) if self.kind == "branch" else main.share


_COLUMNS: Final = "number, kind, phase, share, targets, anew, server_uuid, binlog_name, binlog_pos, binlog_gtid"


def _joining(row: Sequence[object]) -> Joining:
    number, kind, phase, share, targets, anew, *place = row[:10]
    return Joining(
        str(number),
        cast(Kind, str(kind)),
        cast(Phase, str(phase)),
        Share.model_validate_json(str(share)),
        tuple(TableName(*each) for each in json.loads(str(targets))),
        bool(anew),
        read_position(*place),
        *map(str, row[10:]),
    )


@reads(lambda key: key.joining)
def read_joining(connection: TargetConnection, key: SubtaskKey, *, lock: bool = False) -> Joining | None:
    """The share of a source, if any; `lock` locks it until the transaction ends. The table has to exist."""
    rows = connection.query(
        f"SELECT {_COLUMNS} FROM {key.joining.sql} WHERE id = %s{' FOR UPDATE' if lock else ''}", (key.source_id,)
    )
    return _joining(rows[0]) if rows else None


@reads(lambda key: key.branches)
def read_branches(
    connection: TargetConnection, key: SubtaskKey, number: str = "", *, lock: bool = False
) -> list[Joining]:
    """The branches of a source, the oldest first, or the one of a number. The table has to exist."""
    which, values = (" AND number = %s", (key.source_id, number)) if number else ("", (key.source_id,))
    rows = connection.query(
        f"SELECT {_COLUMNS}, error, create_time FROM {key.branches.sql} WHERE id = %s{which}"
        f" ORDER BY create_time, number{' FOR UPDATE' if lock else ''}",
        values,
    )
    return [_joining(row) for row in rows]


def read_joinings(connection: TargetConnection, key: SubtaskKey) -> list[Joining]:
    """All tables that are not in main's stream: those of the share, and of the branches."""
    share = read_joining(connection, key)
    return [*([] if share is None else [share]), *read_branches(connection, key)]


def read_current(
    connection: TargetConnection, key: SubtaskKey, joining: Joining, *, lock: bool = False
) -> Joining | None:
    """The row as it is now; None if it is gone."""
    if joining.kind == "branch":
        return next(iter(read_branches(connection, key, joining.number, lock=lock)), None)
    found = read_joining(connection, key, lock=lock)
    return found if found is not None and found.number == joining.number else None


def find_joining(connection: TargetConnection, key: SubtaskKey) -> Joining | None:
    """The same, safe before the table exists."""
    return read_joining(connection, key) if key.joining in existing_tables(connection, key) else None


def find_all(connection: TargetConnection, key: SubtaskKey) -> list[Joining]:
    """As `read_joinings`, safe before the tables exist."""
    there = existing_tables(connection, key)
    if key.branches in there:
        return read_joinings(connection, key)
    share = read_joining(connection, key) if key.joining in there else None
    return [] if share is None else [share]


def ask(
    connection: TargetConnection,
    key: SubtaskKey,
    kind: Kind,
    share: Share,
    targets: Sequence[TableName],
    *,
    anew: bool = False,
    instead: Callable[[TargetConnection], None] | None = None,
) -> Joining:
    """Store that tables are to be loaded; raises DMError `joining-exists` while others are.

    `instead` takes them, in the same transaction, from a stream that has them now: no session writes them any more.
    """
    create_tables(connection, key)
    if instead is not None:
        create_tables(connection, key.share)
    phase: Phase = "asked" if instead is None else "emptying"
    asked = Joining(uuid.uuid4().hex, kind, phase, share, tuple(targets), anew)
    with transaction(connection):
        affected = _insert(connection, key, asked)
        if affected == 1 and instead is not None:
            _remove_share(connection, key.share)
            instead(connection)
    if affected != 1:
        raise DMError("joining-exists", task=key.task, source=key.source_id)
    return asked


def _insert(connection: TargetConnection, key: SubtaskKey, asked: Joining) -> int:
    return connection.execute(
        f"INSERT IGNORE INTO {key.joining.sql} (id, number, kind, phase, share, targets, anew, binlog_gtid)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, '')",
        (
            key.source_id, asked.number, asked.kind, asked.phase, asked.share.model_dump_json(),
            json.dumps(asked.targets), int(asked.anew),
        ),
    )  # fmt: skip


def ask_again(connection: TargetConnection, key: SubtaskKey, joining: Joining, *, anew: bool) -> bool:
    """Ask for the same again, with another `anew`; False if main has given the tables up by now."""
    with transaction(connection):
        asked = move(connection, key, joining, ["asked"], "asked")
        if asked:
            _set_anew(connection, key, anew=anew)
    return asked


def move(
    connection: TargetConnection,
    key: SubtaskKey,
    joining: Joining,
    before: Iterable[Phase],
    phase: Phase,
    place: Position | None = None,
) -> bool:
    """Move on from one of these phases, inside the open transaction; False if the row has another phase by now."""
    found = read_current(connection, key, joining, lock=True)
    if found is None or found.phase not in set(before):
        return False
    file, offset, gtids, server = position_columns(place)
    connection.execute(
        f"UPDATE {joining.row_of(key).sql} SET phase = %s, server_uuid = %s, binlog_name = %s, binlog_pos = %s,"
        " binlog_gtid = %s WHERE id = %s AND number = %s",
        (phase, server, file, offset, gtids, key.source_id, joining.number),
    )
    return True


def _set_anew(connection: TargetConnection, key: SubtaskKey, *, anew: bool) -> None:
    connection.execute(f"UPDATE {key.joining.sql} SET anew = %s WHERE id = %s", (int(anew), key.source_id))


def forget_joining(connection: TargetConnection, key: SubtaskKey, joining: Joining) -> None:
    """Inside the open transaction: there is nothing to load, or to follow, any more."""
    table = joining.row_of(key)
    connection.execute(f"DELETE FROM {table.sql} WHERE id = %s AND number = %s", (key.source_id, joining.number))


# -- Main's steps


def give_up(connection: TargetConnection, main: LaneClaim, joining: Joining, checkpoint: Checkpoint) -> bool:
    """Main is at its checkpoint, with nothing done after it: give its tables to the share. Raises DMError."""
    key = main.key
    create_tables(connection, key.share)
    with claimed(connection, main):
        if not move(connection, key, joining, ["asked"], "out"):
            return False
        _remove_share(connection, key.share)
        if joining.kind == "reload":
            write_global(connection, key.share, checkpoint.position, None, checkpoint.birth)
            for table, point in checkpoint.tables.items():
                if joining.has(table):
                    write_table(connection, key.share, table, TablePoint(point.schema))
                    remove_table(connection, key, table)
    faults.hit("join.given_up")
    return True


def call(connection: TargetConnection, main: LaneClaim, joining: Joining, place: Position) -> None:
    """Main rests at this place: call the share, which is near. Raises DMError."""
    with claimed(connection, main):
        move(connection, main.key, joining, ["near"], "until", place)
    faults.hit("join.called")


def let_go(connection: TargetConnection, main: LaneClaim, joining: Joining) -> None:
    """Main is beyond the place where the share rests: they meet later. Raises DMError."""
    with claimed(connection, main):
        move(connection, main.key, joining, ["ready"], "undo" if joining.kind == "branch" else "loading")


def take_back(connection: TargetConnection, main: LaneClaim, joining: Joining, checkpoint: Checkpoint) -> bool:
    """Main and the share rest at the same place: main takes the tables back. Raises DMError.

    False if the share is not ready any more.
    """
    key = main.key
    faults.hit("join.before_return")
    with claimed(connection, main):
        found = read_current(connection, key, joining, lock=True)
        if found is None or found.phase != "ready":
            return False
        progress = joining.progress(key)
        _end_share(connection, progress)
        share = read_checkpoint(connection, progress)
        if share is None or not same_place(share.position, checkpoint.position):
            raise DMError("checkpoint-damaged", table=str(progress.checkpoint), source=key.source_id)
        for table in checkpoint.tables:
            if found.has(table):
                remove_table(connection, key, table)
        for table, point in share.tables.items():
            if point.schema is not None:
                write_table(connection, key, table, TablePoint(point.schema))
        names = "ghost_schema, ghost_table, ddls"
        connection.execute(
            f"REPLACE INTO {key.online.sql} (id, {names}) SELECT %s, {names} FROM {progress.online.sql} WHERE id = %s",
            (key.source_id, progress.source_id),
        )
        remove_stream(connection, key, joining)
        forget_joining(connection, key, joining)
    faults.hit("join.returned")
    return True


def same_place(one: Position, other: Position) -> bool:
    """Whether two streams are past the same transaction of one server."""
    return one.same_files(other) and one.order == other.order


# -- The share's steps


def begin_emptying(
    connection: TargetConnection,
    key: SubtaskKey,
    joining: Joining,
    before: Sequence[Phase],
    *,
    anew: bool | None = None,
) -> bool:
    """From here on nothing writes the target tables; False if a person has decided otherwise. Raises DMError.

    `anew` is stored in the same transaction: the emptying session must not see one without the other.
    """
    with transaction(connection):
        moved = move(connection, key, joining, before, "emptying")
        if moved:
            _remove_share(connection, key.share)
        if moved and anew is not None:
            _set_anew(connection, key, anew=anew)
    return moved


def leave_at_once(connection: TargetConnection, key: SubtaskKey, joining: Joining) -> bool:
    """Inside an open transaction under main's claim, as main's checkpoint is made anew: it never has these tables."""
    if not move(connection, key, joining, ["asked"], "emptying"):
        return False
    _remove_share(connection, key.share)
    return True


def begin_loading(connection: TargetConnection, key: SubtaskKey, joining: Joining) -> bool:
    """The target tables are ready for the load; False if a person has decided otherwise. Raises DMError."""
    with transaction(connection):
        found = read_joining(connection, key, lock=True)
        as_asked = found is not None and found.anew == joining.anew
        moved = as_asked and move(connection, key, joining, ["emptying"], "loading")
    faults.hit("join.loading")
    return moved


def be_near(connection: TargetConnection, main: SubtaskKey, joining: Joining) -> None:
    """The share is near main; inside a transaction under the share's claim. Raises DMError."""
    move(connection, main, joining, ["loading", "undo"], "near")


def be_ready(connection: TargetConnection, share: LaneClaim, main: SubtaskKey, joining: Joining, at: Position) -> bool:
    """The share rests at its checkpoint; False if main, or a person, has decided otherwise. Raises DMError."""
    faults.hit("join.before_ready")
    with claimed(connection, share):
        moved = move(connection, main, joining, ["until"], "ready", at)
    faults.hit("join.ready")
    return moved


def end_share(connection: TargetConnection, key: SubtaskKey) -> None:
    """Remove the share's progress; none of its sessions can commit afterwards. Raises DMError."""
    create_tables(connection, key.share)
    with transaction(connection):
        _remove_share(connection, key.share)


def take_away(connection: TargetConnection, key: SubtaskKey, joining: Joining) -> None:
    """Remove the row in its own transaction: there is nothing to load any more; raises DMError."""
    with transaction(connection):
        forget_joining(connection, key, joining)


def remove_stream(connection: TargetConnection, key: SubtaskKey, joining: Joining) -> None:
    """Inside the open transaction: remove its progress; none of its sessions can commit afterwards.

    A branch's sessions find no row of theirs: no other branch ever has its id.
    """
    progress = joining.progress(key)
    _remove_share(connection, progress)
    if joining.kind == "branch":
        connection.execute(f"DELETE FROM {progress.worker.sql} WHERE id = %s", (progress.source_id,))


def _end_share(connection: TargetConnection, share: SubtaskKey) -> None:
    """Inside the open transaction: wait for what the share's sessions have open; none can commit afterwards.

    The rows stay, because of their epochs: a later share must not reuse them.
    """
    connection.execute(
        f"UPDATE {share.worker.sql} SET epoch = epoch + 1, binlog_name = '', binlog_pos = 0, binlog_gtid = '',"
        " server_uuid = '' WHERE id = %s",
        (share.source_id,),
    )


def _remove_share(connection: TargetConnection, share: SubtaskKey) -> None:
    """Inside the open transaction: remove all its progress; none of its sessions can commit afterwards."""
    _end_share(connection, share)
    for table in existing_tables(connection, share):
        if table not in (share.joining, share.deferral, share.worker):
            connection.execute(f"DELETE FROM {table.sql} WHERE id = %s", (share.source_id,))


def note_loaded(connection: TargetConnection, key: SubtaskKey, tables: Iterable[TableName]) -> None:
    """Store that the load makes these tables, which do not exist; raises DMError if the join was cancelled."""
    with transaction(connection):
        found = read_joining(connection, key, lock=True)
        if found is None or found.phase == "cancelled":
            raise DMError("load-fenced", task=key.task, owner="the join was cancelled")
        _store(connection, key, found, {*found.targets, *tables})


def note_piece(
    connection: TargetConnection, key: SubtaskKey, piece: Piece, now: Mapping[TableName, TableSchema | None]
) -> None:
    """Store what the share's stream makes with a piece, inside a transaction under its claim.

    `now` are the target's tables before the piece.
    """
    found = read_joining(connection, key, lock=True)
    if found is not None and found.kind == "add":
        there = frozenset(table for table, structure in now.items() if structure is not None)
        _store(connection, key, found, made_after(frozenset(found.targets), piece, there))


def made_after(made: frozenset[TableName], piece: Piece, there: Collection[TableName]) -> frozenset[TableName]:
    """The tables that belong to the load alone, whether the piece is executed or not."""
    renamed = {table for pair in piece.renames for table in pair}
    if not renamed:
        return made | {table for table in piece.made if table not in there}
    return made | renamed if made.issuperset(renamed.intersection(there)) else made - renamed


def _store(connection: TargetConnection, key: SubtaskKey, joining: Joining, made: Collection[TableName]) -> None:
    if {*made} != {*joining.targets}:
        connection.execute(
            f"UPDATE {key.joining.sql} SET targets = %s WHERE id = %s", (json.dumps(sorted(made)), key.source_id)
        )
