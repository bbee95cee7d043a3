"""Progress of the lanes: a row per lane, committed with the data of every batch (I1 of `protocol.py`).

The first statement of every target transaction updates the lane's row. It matches the row only while the epoch is ours.
If it does not match, a newer run has taken over, and this one must end at once.

**Ordered tables.** A table's changes have one of two routes. Any lane applies them by their keys, and a replay uses
safe mode. Or the ordered lane applies them in the source's order, and its row says exactly which are done. Changes
applied by key must not be replayed in order, since nothing says that they are done. Changes applied in order must not
be replayed by key. But the route depends on the target's table and on the tables merged into it, so it may differ in
the next run: somebody drops a key at the target, or of two merged tables, the table without a key comes later in the
stream.

So before the first change of a table is applied in order, the switch point is stored. Before the table returns to its
key, that point is stored as well. From L on, a run follows the stored route. If it can't, because the table has no key
now and an earlier run may have used one, it stops.

How far earlier runs may have got is stored as well (`reached`). The bound B does not tell: after a full load, or a
change of servers, B is beyond any run. If only versions without this record have run, there is no such row: then
nothing is known, and nothing is required. A checkpoint that was moved back leaves `done`: everything up to there is at
the target, whatever its route, as long as no run after the move has applied any of it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from dm.downstream.connection import BEGIN, TargetConnection
from dm.downstream.statements import StatementResult
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.ident import TableName
from dm.position import Position
from dm.progress.tables import SubtaskKey, reads, reads_own

CONTROL = "control"
DDL = "ddl"
KEYLESS = "keyless"
ATOMIC = "atomic"


def worker_lane(number: int) -> str:
    """The lane of apply worker `number`."""
    return f"worker-{number:02d}"


@dataclass(frozen=True, slots=True)
class LaneRow:
    """What one lane has committed."""

    lane: str
    epoch: int
    batch: int
    position: Position | None  # None before its first batch


def read_position(uuid: object, name: object, offset: object, gtid: object) -> Position | None:
    """A position from its four columns; None if they are empty.

    A task that starts at a GTID set has no file before its first event; a run may end before that.
    """
    if not name and not gtid:
        return None
    return Position(str(uuid), str(name), int(str(offset)), GtidSet.parse(str(gtid or "")))


def position_columns(position: Position | None) -> tuple[str, int, str, str]:
    """File, offset, GTID set and server uuid, as the tables store them."""
    if position is None:
        return ("", 0, "", "")
    return (position.file, position.offset, str(position.gtid_set), position.server_uuid)


@reads(lambda key: key.worker)
def read_lanes(connection: TargetConnection, key: SubtaskKey, *, lock: bool = False) -> list[LaneRow]:
    """All lanes of the subtask; with `lock`, waits for the transactions that hold any of them."""
    rows = connection.query(
        "SELECT lane, epoch, batch, server_uuid, binlog_name, binlog_pos, binlog_gtid"
        f" FROM {key.worker.sql} WHERE id = %s ORDER BY lane{' FOR UPDATE' if lock else ''}",
        (key.source_id,),
    )
    return [LaneRow(str(row[0]), int(row[1]), int(row[2]), read_position(*row[3:7])) for row in rows]


def raise_epoch(
    connection: TargetConnection,
    key: SubtaskKey,
    lanes: Sequence[str],
    beside: Callable[[int], None] = lambda _: None,
) -> tuple[int, list[LaneRow]]:
    """Take over: raise the epoch of all lanes in one transaction; returns the new epoch and the rows before.

    `beside` stores more in that transaction; it is given the epoch.

    Reading the rows FOR UPDATE waits for every open transaction of an older run, because each of them holds its lane's
    row. What is read afterwards is final.
    """
    with transaction(connection):
        # The control row is the latch for the very first run, when no other row exists to lock.
        insert_lanes(connection, key, [CONTROL], epoch=0)
        found = read_lanes(connection, key, lock=True)
        epoch = max(row.epoch for row in found) + 1
        connection.execute(f"UPDATE {key.worker.sql} SET epoch = %s WHERE id = %s", (epoch, key.source_id))
        present = {row.lane for row in found}
        insert_lanes(connection, key, [lane for lane in lanes if lane not in present], epoch=epoch)
        beside(epoch)
    return epoch, found


def insert_lanes(connection: TargetConnection, key: SubtaskKey, lanes: Sequence[str], epoch: int) -> None:
    """Insert the missing rows of these lanes, inside the open transaction."""
    if lanes:
        connection.execute(
            f"INSERT IGNORE INTO {key.worker.sql} (id, lane, epoch, binlog_gtid)"
            " VALUES " + ", ".join(["(%s, %s, %s, '')"] * len(lanes)),
            tuple(value for lane in lanes for value in (key.source_id, lane, epoch)),
        )


@dataclass(slots=True)
class LaneClaim:
    """A lane held under one epoch; a session needs it to write."""

    key: SubtaskKey
    lane: str
    epoch: int
    batch: int = 0

    def advance(self, connection: TargetConnection, position: Position | None) -> None:
        """Update the lane's row inside the open transaction; raises DMError `fenced` if the epoch is not ours."""
        self.advanced(connection.execute(self.advancing(connection, position)))

    def advancing(self, connection: TargetConnection, position: Position | None) -> bytes:
        """The statement of the next `advance`; `advanced` checks its answer."""
        self.batch += 1
        names, values = ["batch"], list[object]([self.batch])
        if position is not None:
            names += ["binlog_name", "binlog_pos", "binlog_gtid", "server_uuid"]
            values += position_columns(position)
        assignments = ", ".join(f"{name} = %s" for name in names)
        return connection.rendered(
            f"UPDATE {self.key.worker.sql} SET {assignments} WHERE id = %s AND lane = %s AND epoch = %s",
            (*values, self.key.source_id, self.lane, self.epoch),
        )

    def advanced(self, affected: int) -> None:
        """Check how many rows it matched; raises DMError `fenced` if the epoch is not ours."""
        if affected != 1:
            raise self.fenced()

    def verify(self, connection: TargetConnection) -> None:
        """Outside any transaction: raise DMError `fenced` if a newer run holds the lane."""
        if self.stored_epoch(connection) != self.epoch:
            raise self.fenced()

    @reads_own(lambda key: key.worker)
    def stored_epoch(self, connection: TargetConnection) -> int | None:
        """The lane's present epoch at the target; None if its row is gone."""
        found = connection.query(
            f"SELECT epoch FROM {self.key.worker.sql} WHERE id = %s AND lane = %s", (self.key.source_id, self.lane)
        )
        return int(found[0][0]) if found else None

    def fenced(self, owner: str = "it has not said where it runs") -> DMError:
        """The error of a run whose lane was taken; `owner`: who has the task now, as a clause (`owner.py`)."""
        key = self.key
        return DMError("fenced", task=key.task, source=key.source_id, lane=self.lane, epoch=self.epoch, owner=owner)


@contextmanager
def transaction(connection: TargetConnection) -> Iterator[None]:
    """A transaction, rolled back if anything fails; raises DMError."""
    try:
        connection.begin()
        yield
        connection.commit()
    except BaseException:
        connection.rollback()
        raise


@contextmanager
def claimed(connection: TargetConnection, claim: LaneClaim, statements: Sequence[bytes] = ()) -> Iterator[None]:
    """A transaction under the claim that begins with these statements, rolled back if anything fails; raises DMError.

    Claim and statements are one round trip if the session allows it. So the statements have run by the time that the
    claim's answer is read, and an error in one may be the newer run's doing: then `fenced` is raised instead.
    """
    outcomes: list[StatementResult] = []
    try:
        try:
            connection.run_all([BEGIN, claim.advancing(connection, None), *statements], outcomes)
        except DMError:
            if len(outcomes) > 1:
                claim.advanced(outcomes[1].affected)
            raise
        claim.advanced(outcomes[1].affected)
        yield
        connection.commit()
    except BaseException:
        connection.rollback()
        raise


# The rows that belong to no table.
_REACHED = TableName("", "reached")
_DONE = TableName("", "done")
# Instead of the number of a row event: the table is changed by its key since that position.
_BY_KEY = -1


@dataclass(frozen=True, slots=True)
class OrderedSince:
    """The transaction and row event from which a table is changed in order; everything before is done."""

    begin: Position  # of the transaction
    gtid: str  # empty if it has none
    number: int  # of its row events of tables with this target

    @classmethod
    def never(cls, begin: Position) -> OrderedSince:
        """The table is changed by its key, from this transaction on at least."""
        return cls(begin, "", _BY_KEY)

    @property
    def ordered(self) -> bool:
        """Whether the table is changed in order."""
        return self.number != _BY_KEY


@dataclass(frozen=True, slots=True)
class OrderedRecord:
    """What earlier runs have stored."""

    kept: bool = False
    reached: Position | None = None
    done: Position | None = None
    taken_again: bool = False  # a run may have repeated changes before `done`
    tables: Mapping[TableName, OrderedSince] = field(default_factory=dict)  # tables changed in order
    left: Mapping[TableName, Position] = field(default_factory=dict)  # tables changed in order up to there


@reads(lambda key: key.ordered)
def read_ordered(connection: TargetConnection, key: SubtaskKey) -> OrderedRecord:
    """Read the record; raises DMError."""
    rows = connection.query(
        "SELECT cp_schema, cp_table, server_uuid, binlog_name, binlog_pos, binlog_gtid, gtid, number"
        f" FROM {key.ordered.sql} WHERE id = %s",
        (key.source_id,),
    )
    record = OrderedRecord()
    tables: dict[TableName, OrderedSince] = {}
    left: dict[TableName, Position] = {}
    for schema, table, uuid, name, offset, gtid_set, gtid, number in rows:
        position = read_position(uuid, name, offset, gtid_set)
        name = TableName(str(schema), str(table))
        if name == _REACHED:
            record = replace(record, kept=True, reached=position)
        elif name == _DONE:
            record = replace(record, done=position, taken_again=bool(number))
        elif position is not None:
            since = OrderedSince(position, str(gtid), int(number))
            if since.ordered:
                tables[name] = since
            else:
                left[name] = position
    return replace(record, tables=tables, left=left)


def store_begun(connection: TargetConnection, claim: LaneClaim, record: OrderedRecord) -> None:
    """Store that a run begins: how far earlier runs got, and that the record is kept; raises DMError."""
    with claimed(connection, claim):
        _put(connection, claim.key, _REACHED, record.reached)
        if record.done is not None:
            _put(connection, claim.key, _DONE, record.done, number=1)


def put_done(connection: TargetConnection, key: SubtaskKey, before: OrderedRecord, checkpoint: Position) -> Position:
    """Inside the open transaction: store that everything up to a checkpoint is done, although it moves back.

    Returns how far that is: an earlier move may have been from farther on, without a run back there since.
    """
    open_again = before.done is not None and not checkpoint.covers(before.done)
    done = checkpoint if before.done is None else before.done.join(checkpoint)
    _put(connection, key, _DONE, done, number=int(open_again and before.taken_again))
    return done


def store_ordered(connection: TargetConnection, claim: LaneClaim, table: TableName, since: OrderedSince) -> None:
    """Store since when a table is changed in order, or by its key again. Raises DMError."""
    with claimed(connection, claim):
        _put(connection, claim.key, table, since.begin, since.gtid, since.number)


def _put(
    connection: TargetConnection,
    key: SubtaskKey,
    table: TableName,
    position: Position | None,
    gtid: str = "",
    number: int = 0,
) -> None:
    connection.execute(
        f"REPLACE INTO {key.ordered.sql} (id, cp_schema, cp_table, binlog_name, binlog_pos, binlog_gtid, server_uuid,"
        " gtid, number) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
        (key.source_id, table.schema, table.table, *position_columns(position), gtid, number),
    )
