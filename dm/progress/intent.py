"""DDL intents: the stored announcement of a piece, so that a restart can tell whether it was executed (invariant I6).

If a piece was not executed, the target has the structure from before; otherwise it has another one. The source's text
does not always say exactly which: a server rounds a default to the column's digits, or drops an index prefix that a new
type makes needless. So if the structure matches neither *after* nor *before*, outlines without such details are
compared, if before and after differ in them. MariaDB turns a JSON column into a LONGTEXT.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.effect import same_structure
from dm.mysql.schema.table import TableSchema, schema_from_json, schema_to_json
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
