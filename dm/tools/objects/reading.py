"""The objects of schemas, read from one server.

Statements are read as bytes (`character_set_results = binary`). In any other character set the server converts them, as
if all of them were in the character set of the object's client. But a part is UTF-8 whatever the client had: at MySQL
names and DEFINER, at both an event's comment. Such a part would arrive garbled, and so would a literal whose bytes are
no text. (MySQL sql/sp_head.cc, show_create_routine; MariaDB sql/event_data_objects.cc, get_create_event.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, cast

from dm.config.endpoint import Endpoint
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.connection import Connection, connect, fetch, set_variables
from dm.sourcelog.upstream.facts import ServerFacts, read_facts
from dm.tools.objects.stored import ROUTINES, Account, Kind, ObjectName, ObjectSettings, StoredObject

_LISTS: Final = (
    (
        "SELECT routine_type, routine_schema, routine_name, definer FROM information_schema.routines"
        " WHERE routine_schema IN ({})"
    ),
    "SELECT 'view', table_schema, table_name, definer FROM information_schema.views WHERE table_schema IN ({})",
    (
        "SELECT 'trigger', trigger_schema, trigger_name, definer, event_object_table, action_order,"
        " CONCAT(action_timing, ' ', event_manipulation)"
        " FROM information_schema.triggers WHERE trigger_schema IN ({})"
    ),
    (
        "SELECT 'event', event_schema, event_name, definer, status, event_comment FROM information_schema.events"
        " WHERE event_schema IN ({})"
    ),
)
_BATCH: Final = 50
_GONE: Final = frozenset({1305, 1360, 1539, 1146, 1049})  # between the list and the look


@dataclass(frozen=True, slots=True)
class StoredObjectReader:
    """A session that reads objects."""

    connection: Connection
    role: str
    facts: ServerFacts

    @reads_answers
    def query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """The rows of a statement, texts as bytes; errors come as DMError."""
        return list(fetch(self.connection, sql, parameters or None, role=self.role))

    @reads_answers
    def texts(self, sql: str, *parameters: object) -> list[tuple[str, ...]]:
        """The same with all values as text."""
        return [tuple(text_of(value) for value in row) for row in self.query(sql, *parameters)]

    def listed(self, schemas: Sequence[str]) -> Iterator[StoredObject]:
        """The objects of these schemas without their statements."""
        for sql in _LISTS:
            for batch in _batches(schemas):
                for row in self.texts(sql.format(", ".join(["%s"] * len(batch))), *batch):
                    yield _listed(row)

    @reads_answers
    def read(self, listed: StoredObject) -> StoredObject | None:
        """The object with its statement; None if it has gone since it was listed."""
        kind, schema, name = listed.name
        self.query(f"USE {Ident(schema).sql}")  # in its own schema a view is shown without it
        try:
            rows = fetch(self.connection, f"SHOW CREATE {kind.upper()} {Ident(name).sql}", role=self.role)
        except DMError as error:
            if error.server_errno in _GONE and kind != "view":
                return None
            raise
        return _with_statement(listed, rows[0])

    def tables(self, schemas: Sequence[str]) -> dict[TableName, bool]:
        """The tables and views of these schemas, and whether each is a table."""
        sql = "SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE table_schema IN ({})"
        return {
            TableName(schema, table): kind in ("BASE TABLE", "SYSTEM VERSIONED")
            for batch in _batches(schemas)
            for schema, table, kind in self.texts(sql.format(", ".join(["%s"] * len(batch))), *batch)
        }

    def sequences(self, schemas: Sequence[str]) -> set[TableName]:
        """The sequences of these schemas."""
        sql = (
            "SELECT table_schema, table_name FROM information_schema.tables"
            " WHERE table_type = 'SEQUENCE' AND table_schema IN ({})"
        )
        return {
            TableName(schema, name)
            for batch in _batches(schemas)
            for schema, name in self.texts(sql.format(", ".join(["%s"] * len(batch))), *batch)
        }

    def collations(self, schemas: Sequence[str]) -> dict[str, str]:
        """The default collation of each of these schemas that is there."""
        sql = "SELECT schema_name, default_collation_name FROM information_schema.schemata WHERE schema_name IN ({})"
        return {
            schema: collation
            for batch in _batches(schemas)
            for schema, collation in self.texts(sql.format(", ".join(["%s"] * len(batch))), *batch)
        }


@contextmanager
def reader_at(endpoint: Endpoint, role: str) -> Iterator[StoredObjectReader]:
    """Log in; raises DMError."""
    connection = connect(endpoint, role=role)
    try:
        facts = read_facts(connection)
        set_variables(connection, {"character_set_results": "binary"}, role=role)
        yield StoredObjectReader(connection, role, facts)
    finally:
        connection.close()


def _batches(names: Iterable[str]) -> Iterator[tuple[str, ...]]:
    left = iter(names)
    while batch := tuple(islice(left, _BATCH)):
        yield batch


def text_of(value: object) -> str:
    """A value of an answer as text; the names that servers list are UTF-8."""
    if value is None:
        return ""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _listed(row: tuple[str, ...]) -> StoredObject:
    kind, schema, name, definer, *more = row
    named = ObjectName(cast(Kind, kind.lower()), schema, name)
    if named.kind == "trigger":
        return StoredObject(named, Account.of(definer), table=more[0], place=int(more[1] or 0), moment=more[2])
    if named.kind == "event":
        return StoredObject(named, Account.of(definer), status=more[0].upper(), comment=more[1])
    return StoredObject(named, Account.of(definer))


def _with_statement(listed: StoredObject, row: tuple[Any, ...]) -> StoredObject:
    """What SHOW CREATE tells; its columns are those of the Reference Manual, in their order."""
    kind = listed.name.kind
    texts = [text_of(value) for value in row]
    if kind == "view":
        statement, settings = row[1], ObjectSettings(texts[2], texts[3])
    elif kind == "event":
        statement, settings = row[3], ObjectSettings(texts[4], texts[5], texts[6], texts[1], texts[2])
    else:
        assert kind in ROUTINES or kind == "trigger"
        statement, settings = row[2], ObjectSettings(texts[3], texts[4], texts[5], texts[1])
    raw = statement.encode() if isinstance(statement, str) else statement
    return replace(listed, statement=raw, settings=settings)
