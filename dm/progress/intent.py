"""DDL under way, as stored: intents of pieces (invariant I6), and what online DDL tools have done to ghost tables.

An intent is stored before its piece, so that a restart can tell whether it was executed. If a piece was not executed,
the target has the structure from before; otherwise it has another one. The source's text does not always say exactly
which: a server rounds a default to the column's digits, or drops an index prefix that a new type makes needless. So if
the structure matches neither *after* nor *before*, outlines without such details are compared, if before and after
differ in them. MariaDB turns a JSON column into a LONGTEXT.

The statements of an online DDL tool on a ghost table so far are what the real table must still get. A record is created
with the ghost table, grows with each statement on it, and is deleted when the ghost gets the real table's name. Each
change is part of the transaction that stores L after its statement, so nothing is stored twice and nothing is lost. A
ghost without a record was created before the task began to read: its statements are unknown.

The table is DM's, with DM's columns. `ddls` is JSON: DM's `schema`, `table` and `ddls`. We add the session that each
statement ran in and, for a trash table, the real table that was renamed to it while nothing replaced that table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import Enum
from typing import Any

from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.query import QuerySession
from dm.mysql.binlog.reader import Query
from dm.mysql.schema.effect import same_structure
from dm.mysql.schema.table import TableSchema, schema_from_json, schema_to_json
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.piece import Piece
from dm.mysql.types.strings import LONGTEXT
from dm.position import Position
from dm.progress.lane_rows import LaneClaim, claimed, position_columns, read_position
from dm.progress.tables import SubtaskKey, reads

Structures = Mapping[TableName, TableSchema | None]  # None: the table does not exist


class PieceOutcome(Enum):
    """What a restart finds out about an announced piece."""

    DONE = "done"
    NOT_DONE = "not done"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class Intent:
    """One piece of one DDL event, about to be executed by one target session."""

    position: Position  # the end of the DDL's event
    piece: int  # its number; the one after the last is the whole statement, when a single piece was refused
    statement: str
    connection_id: int
    before: Structures
    after: Structures
    refused: bool = False  # the target refused: the piece was not executed, earlier pieces were

    @property
    def changed(self) -> tuple[TableName, ...]:
        """The tables whose structure the piece changes; if there are none, all that it names."""
        named = [table for table in self.before if table.table]
        different = [table for table in named if self.before[table] != self.after.get(table)]
        return tuple(different or named)

    def outcome(self, now: Structures) -> PieceOutcome:
        """Compare what the target has now with *before* and *after*."""
        if _same(self.before, self.after):
            return PieceOutcome.UNCLEAR if not _same(now, self.before) else PieceOutcome.NOT_DONE
        if _same(now, self.after):
            return PieceOutcome.DONE
        if _same(now, self.before):
            return PieceOutcome.NOT_DONE
        for json_as_text in (False, True):
            before, after, found = (_outlines(each, json_as_text) for each in (self.before, self.after, now))
            if before != after and found in (before, after):
                return PieceOutcome.DONE if found == after else PieceOutcome.NOT_DONE
        return PieceOutcome.UNCLEAR


def _same(left: Structures, right: Structures) -> bool:
    if set(left) != set(right):
        return False
    for table, schema in left.items():
        other = right[table]
        if schema is None or other is None:
            if schema is not other:
                return False
        elif not same_structure(schema, other):
            return False
    return True


def _outlines(structures: Structures, json_as_text: bool) -> dict[TableName, object]:
    return {table: None if schema is None else _outline(schema, json_as_text) for table, schema in structures.items()}


def _outline(schema: TableSchema, json_as_text: bool) -> object:
    """Columns with their kinds, and what is indexed; a schema's defaults for a schema."""
    columns = [
        (
            column.name.lower(),
            LONGTEXT.name if json_as_text and column.type.is_document else column.base,
            column.decimals or 0,
            column.unsigned,
            column.nullable,
            column.generated,
        )
        for column in schema.columns
    ]
    indexes = sorted((index.kind, tuple(name.lower() for name in index.columns)) for index in schema.indexes)
    return columns, indexes, None if schema.name.table else (schema.charset, schema.collation)


def dump_structures(structures: Structures) -> str:
    """As text, for a progress table."""
    return json.dumps(
        [[*table, None if schema is None else schema_to_json(schema)] for table, schema in structures.items()]
    )


def load_structures(text: str) -> Structures:
    """The inverse of `dump_structures`."""
    return {
        TableName(schema, table): None if structure is None else schema_from_json(structure)
        for schema, table, structure in json.loads(text)
    }


@reads(lambda key: key.intent)
def read_intent(connection: TargetConnection, key: SubtaskKey) -> Intent | None:
    """The intent that an earlier run left, if any."""
    rows = connection.query(
        "SELECT server_uuid, binlog_name, binlog_pos, binlog_gtid, piece, statement, connection_id, structure_before,"
        f" structure_after, refused FROM {key.intent.sql} WHERE id = %s",
        (key.source_id,),
    )
    if not rows:
        return None
    row = rows[0]
    position = read_position(*row[0:4])
    if position is None:
        raise DMError("checkpoint-damaged", table=str(key.intent), source=key.source_id)
    structures = load_structures(str(row[7])), load_structures(str(row[8]))
    return Intent(position, int(row[4]), str(row[5]), int(row[6]), *structures, bool(row[9]))


def write_intent(connection: TargetConnection, claim: LaneClaim, intent: Intent) -> None:
    """Store the intent under the control lane's claim; it replaces the one before it, whose piece is thereby done."""
    with claimed(connection, claim, [storing_intent(connection, claim.key, intent)]):
        pass


def storing_intent(connection: TargetConnection, key: SubtaskKey, intent: Intent) -> bytes:
    """The statement that stores the intent inside a transaction."""
    name, offset, gtid, uuid = position_columns(intent.position)
    return connection.rendered(
        f"REPLACE INTO {key.intent.sql} (id, server_uuid, binlog_name, binlog_pos, binlog_gtid, piece, statement,"
        " connection_id, structure_before, structure_after) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        (
            key.source_id,
            uuid,
            name,
            offset,
            gtid,
            intent.piece,
            intent.statement,
            intent.connection_id,
            dump_structures(intent.before),
            dump_structures(intent.after),
        ),
    )


def write_refusal(connection: TargetConnection, claim: LaneClaim) -> None:
    """Store that the target refused the announced piece, so that it was not executed."""
    key = claim.key
    with claimed(connection, claim):
        connection.execute(f"UPDATE {key.intent.sql} SET refused = 1 WHERE id = %s", (key.source_id,))


_CONTEXT = frozenset(field.name for field in fields(SourceContext))


@dataclass(frozen=True, slots=True)
class StoredStatement:
    """A statement on a ghost table, every name qualified, and the session of its event."""

    text: str
    context: SourceContext
    timestamp: int
    session: QuerySession

    @classmethod
    def of(cls, piece: Piece, query: Query) -> StoredStatement:
        """The statement of an event; raises DMError when its names can't be written out."""
        whole = piece.route(lambda name: name)
        return cls(whole.text, whole.context, query.timestamp, query.session)

    def on(self, ghost: TableName, real: TableName) -> Piece:
        """The statement with the real table's name in place of the ghost's; raises DMError."""
        return Piece.of(self.text, self.context).route(lambda name: real if name == ghost else name)

    @property
    def query(self) -> Query:
        """The event's session; the statement runs in it."""
        return Query("", self.text.encode(), self.session, self.timestamp, 0, 0, 0)

    @classmethod
    def from_json(cls, text: str, stored: Mapping[str, Any]) -> StoredStatement:
        """The inverse of what `OnlineRecord.to_json` stores; a context had a field more once."""
        known = {name: stored["context"][name] for name in _CONTEXT & stored["context"].keys()}
        return cls(text, SourceContext(**known), stored["timestamp"], _session(stored["session"]))


@dataclass(frozen=True, slots=True)
class OnlineRecord:
    """A ghost table's statements, or the real table under a trash name."""

    statements: tuple[StoredStatement, ...] = ()
    moved: TableName | None = None  # the real table that was renamed to this trash name and not replaced yet

    def to_json(self, name: TableName) -> str:
        """As stored at the target."""
        sessions = [
            {"context": asdict(one.context), "timestamp": one.timestamp, "session": asdict(one.session)}
            for one in self.statements
        ]
        return json.dumps(
            {
                "schema": name.schema,
                "table": name.table,
                "ddls": [one.text for one in self.statements],
                "sessions": sessions,
                "moved": None if self.moved is None else list(self.moved),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> OnlineRecord:
        """The inverse of `to_json`."""
        found = json.loads(text)
        statements = tuple(
            StoredStatement.from_json(statement, session)
            for statement, session in zip(found["ddls"], found["sessions"], strict=True)
        )
        return cls(statements, None if found["moved"] is None else TableName(*found["moved"]))


def _session(stored: Mapping[str, Any]) -> QuerySession:
    return QuerySession(**{name: _tuples(value) for name, value in stored.items()})


def _tuples(value: Any) -> Any:
    return tuple(_tuples(one) for one in value) if isinstance(value, list) else value


@reads(lambda key: key.online)
def read_online(connection: TargetConnection, key: SubtaskKey) -> dict[TableName, OnlineRecord]:
    """All that is stored; the table exists (`create_tables`)."""
    rows = connection.query(
        f"SELECT ghost_schema, ghost_table, ddls FROM {key.online.sql} WHERE id = %s", (key.source_id,)
    )
    return {TableName(str(row[0]), str(row[1])): OnlineRecord.from_json(str(row[2])) for row in rows}


def write_online(
    connection: TargetConnection, key: SubtaskKey, changes: Mapping[TableName, OnlineRecord | None]
) -> None:
    """Store changed records inside the open transaction; None removes one."""
    for name, record in changes.items():
        if record is None:
            connection.execute(
                f"DELETE FROM {key.online.sql} WHERE id = %s AND ghost_schema = %s AND ghost_table = %s",
                (key.source_id, name.schema, name.table),
            )
        else:
            connection.execute(
                f"REPLACE INTO {key.online.sql} (id, ghost_schema, ghost_table, ddls) VALUES (%s, %s, %s, %s)",
                (key.source_id, name.schema, name.table, record.to_json(name)),
            )
