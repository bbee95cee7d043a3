"""Which target tables are changed in the source's order, and since when: so that a replay takes the same way.

A table's changes go either to any lane, by their keys, and are replayed in safe mode, or to the ordered lane, whose row
says exactly which are done. Which way it is depends on what the target's table is like, and on what is merged into it.
That may be otherwise in the next run: somebody drops a key at the target; of two tables that are merged the one without
a key comes later in the stream. What went by its key must not come in order then, where nothing tells that it was done,
and what came in order must not be replayed by its key.

So before the first change of a table goes in order, it is stored since when, and before it goes by its key again, that
it does so from there on. A run takes the stored way from L on. Where it can't, because the table has no key now and an
earlier run may have gone by one, it stops.

How far earlier runs may have come is stored as well (`reached`). The bound B does not tell: behind a full load, or a
change of servers, it lies where no run has been. There is no such row as long as only versions ran that did not keep
this record: then nothing is known, and nothing is demanded. What lies at or before `done`, a checkpoint that was moved
back since (`restart.py`), is there whichever way it went, as long as no run behind the move has put any of it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dm.downstream.connection import TargetConnection
from dm.ident import TableName
from dm.position import Position
from dm.progress.lane_rows import LaneClaim, claimed, position_columns, read_position
from dm.progress.tables import SubtaskKey

# The rows that are of no table.
_REACHED = TableName("", "reached")
_DONE = TableName("", "done")
# Instead of the number of a row event: the table goes by its key since that position.
_BY_KEY = -1


@dataclass(frozen=True, slots=True)
class OrderedSince:
    """From which row event of which transaction on; what came before is done."""

    begin: Position  # of the transaction
    gtid: str  # empty where it has none
    number: int  # of its row events

    @classmethod
    def never(cls, begin: Position) -> OrderedSince:
        """It goes by its key, from this transaction on at least."""
        return cls(begin, "", _BY_KEY)

    @property
    def ordered(self) -> bool:
        """Whether it goes in order."""
        return self.number != _BY_KEY


@dataclass(frozen=True, slots=True)
class OrderedRecord:
    """What the runs before have stored."""

    kept: bool = False
    reached: Position | None = None
    done: Position | None = None
    taken_again: bool = False  # a run may have put again what lies before `done`
    tables: Mapping[TableName, OrderedSince] = field(default_factory=dict)  # those that go in order
    left: Mapping[TableName, Position] = field(default_factory=dict)  # those that did, up to there


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
    """Store that a run begins: how far earlier ones came, and that the record is kept; raises DMError."""
    with claimed(connection, claim):
        _put(connection, claim.key, _REACHED, record.reached)
        if record.done is not None:
            _put(connection, claim.key, _DONE, record.done, number=1)


def put_done(connection: TargetConnection, key: SubtaskKey, before: OrderedRecord, checkpoint: Position) -> Position:
    """Inside the open transaction: store that everything up to a checkpoint is there, although it moves back.

    Gives how far that is: an earlier move may have been from farther on, and runs behind it not back there yet.
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
