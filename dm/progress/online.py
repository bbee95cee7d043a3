"""An online DDL tool's statements on a ghost table so far, which the real table must still get.

A record is created with the ghost table, grows with each statement on it, and is deleted when the ghost gets the real
table's name. Each change is part of the transaction that stores L after its statement, so nothing is stored twice and
nothing is lost. A ghost without a record was created before the task began to read: its statements are unknown.

The table is DM's, with DM's columns. `ddls` is JSON: DM's `schema`, `table` and `ddls`. We add the session that each
statement ran in and, for a trash table, the real table that was renamed to it while nothing replaced that table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from dm.downstream.connection import TargetConnection
from dm.ident import TableName
from dm.mysql.binlog.query import QuerySession
from dm.mysql.binlog.reader import Query
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.piece import Piece
from dm.progress.tables import SubtaskKey, reads

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
