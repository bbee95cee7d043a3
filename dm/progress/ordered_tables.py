"""Which target tables are changed in the source's order, and since when, so that a replay routes them the same way.

A table's changes have one of two routes. Any lane applies them by their keys, and a replay uses safe mode. Or the
ordered lane applies them, and its row says exactly which are done. The route depends on the target's table and on the
tables merged into it. It may differ in the next run: somebody drops a key at the target, or of two merged tables, the
table without a key comes later in the stream. Changes applied by key must not be replayed in order, since nothing says
that they are done. Changes applied in order must not be replayed by key.

So before the first change of a table is applied in order, the switch point is stored. Before the table returns to its
key, that point is stored as well. From L on, a run follows the stored route. If it can't, because the table has no key
now and an earlier run may have used one, it stops.

How far earlier runs may have got is stored as well (`reached`). The bound B does not tell: after a full load, or a
change of servers, B is beyond any run. If only versions without this record have run, there is no such row: then
nothing is known, and nothing is required. A checkpoint that was moved back leaves `done`: everything up to there is at
the target, whatever its route, as long as no run after the move has applied any of it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dm.downstream.connection import TargetConnection
from dm.ident import TableName
from dm.position import Position
from dm.progress.lane_rows import LaneClaim, claimed, position_columns, read_position
from dm.progress.tables import SubtaskKey, reads

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
    number: int  # of its row events

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
