"""Objects created at the target, in their schemas or in a scratch schema.

Each is created by one statement, without OR REPLACE and IF NOT EXISTS: it is there as a whole, or refused and not there
at all. The session has what the server has stored with the object, since a server stores with a new object what the
session has. `character_set_client` is the last variable that is set: it says how the next statement is read.

A trial creates an object in a schema of this session alone. What its text names without a schema has to be there:
tables are made like those of the object's own schema, views as views of those.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from dm.config.endpoint import Endpoint
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import of_any_scratch, scratch_schema
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.mysql.sql.context import SourceContext
from dm.session import state
from dm.tools.objects.adapted import AdaptedObject, account_in_sql
from dm.tools.objects.reading import StoredObjectReader
from dm.tools.objects.statement import Edit, ObjectStatement, context_of, encoded
from dm.tools.objects.stored import ROUTINES, ObjectName, StoredObject


class TargetSession:
    """A session that creates objects."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.connection = TargetConnection(endpoint)
        self._mode = self.connection.has("sql_mode")

    @property
    def context(self) -> SourceContext:
        """How the server reads a text under its usual modes."""
        return SourceContext(self.connection.flavor, self.connection.version, "")

    def close(self) -> None:
        """End it."""
        self.connection.close()

    def create(self, wanted: AdaptedObject, schema: str) -> str:
        """Create an object in a schema; gives what the server says against it, empty if it is there."""
        return self.refusal(wanted.statement, session_of(wanted), schema)

    def refusal(self, statement: bytes, session: Mapping[str, str], schema: str) -> str:
        """Run a statement in a session like this; gives the server's words against it. Raises DMError without any."""
        try:
            if schema:
                self.connection.execute(f"USE {Ident(schema).sql}")
            with self._as(session):
                self.connection.execute(statement)
        except DMError as error:
            if not error.server_errno or not self.connection.alive:
                raise
            # The statement itself is not repeated: it may hold the hash of a password.
            if error.name == "privilege-missing":
                return f"{error.message}; {error.workaround}"
            return error.cause or error.message
        return ""

    @contextmanager
    def _as(self, session: Mapping[str, str]) -> Iterator[None]:
        try:
            for name, value in session.items():
                self.connection.execute(state.assignments({name: value}))
            yield
        finally:
            if self.connection.alive and session:
                usual = {"character_set_client": state.CHARSET, "collation_connection": state.COLLATION}
                usual |= {"sql_mode": self._mode, "time_zone": self.connection.has("time_zone")}
                for name in session:
                    self.connection.execute(state.assignments({name: usual[name]}))


def session_of(wanted: AdaptedObject) -> dict[str, str]:
    """The variables under which an object is created, in this order."""
    settings = wanted.settings
    found = {"sql_mode": settings.sql_mode, "collation_connection": settings.collation}
    if settings.time_zone:
        found["time_zone"] = settings.time_zone
    return {**found, "character_set_client": settings.client}


def enabling(wanted: AdaptedObject) -> bytes:
    """The statement that has an event run. Without DEFINER the event would become that of the session's account."""
    clause = "" if wanted.definer is None else f"DEFINER={account_in_sql(wanted.definer)} "
    return encoded(f"ALTER {clause}EVENT {Ident(wanted.name.name).sql} ENABLE", wanted.settings.client)


@dataclass(frozen=True, slots=True)
class Trial:
    """What the target says to an object: its words against it, or what it makes of it."""

    refusal: str
    made: StoredObject | None = None


def trials(
    session: TargetSession, reader: StoredObjectReader, meta_schema: str, wanted: Sequence[AdaptedObject]
) -> dict[ObjectName, Trial]:
    """Try objects in their order; nothing is left of them."""
    found = dict[ObjectName, Trial]()
    for schema in dict.fromkeys(each.name.schema for each in wanted):
        collation = reader.collations([schema]).get(schema)
        if collation is None:
            why = f"the target has no schema {schema}"
            found |= {each.name: Trial(why) for each in wanted if each.name.schema == schema}
            continue
        with scratch_schema(session.connection, meta_schema) as scratch:
            session.connection.execute(f"ALTER DATABASE {Ident(scratch).sql} COLLATE {Ident(collation).sql}")
            own = [each for each in wanted if each.name.schema == schema]
            _furnish(session, reader.tables([schema]), scratch, own)
            routines = {each.name.name.lower() for each in own if each.name.kind in ROUTINES}
            refusals = {each.name: _tried(session, each, scratch, routines) for each in own}
            made = {each.name._replace(schema=schema): each for each in reader.listed([scratch])}
            for name, words in refusals.items():
                listed = None if words else made.get(name)
                told = of_any_scratch(words, scratch, meta_schema)
                found[name] = Trial(told, None if listed is None else reader.read(listed))
    return found


def _furnish(
    session: TargetSession, there: Mapping[TableName, bool], scratch: str, own: Sequence[AdaptedObject]
) -> None:
    """What the objects name: tables first, then views of other names."""
    tried = {each.name.name.lower() for each in own if each.name.kind == "view"}
    named = {name.lower() for each in own for name in (*each.mentioned, each.table)}
    for table, is_table in sorted(there.items(), key=lambda each: not each[1]):
        if table.table.lower() not in named or (not is_table and table.table.lower() in tried):
            continue
        place = TableName(scratch, table.table).sql
        words = f"TABLE {place} LIKE {table.sql}" if is_table else f"VIEW {place} AS SELECT * FROM {table.sql}"
        session.refusal(f"CREATE {words}".encode(), {}, "")  # what needs it will be refused


def _tried(session: TargetSession, wanted: AdaptedObject, scratch: str, routines: Collection[str]) -> str:
    return session.create(replace(wanted, statement=_into(session, wanted, scratch, routines)), scratch)


def _into(session: TargetSession, wanted: AdaptedObject, scratch: str, routines: Collection[str]) -> bytes:
    """The statement as it is to be tried: a view's routines are beside it, a trigger and its table have no schema."""
    if wanted.name.kind not in ("view", "trigger"):
        return wanted.statement
    stored = wanted.as_stored
    statement = ObjectStatement(stored, context_of(stored, session.context))
    edits = [
        Edit(statement.span(at), Ident(scratch).sql.encode())
        for at, other in statement.qualified()
        if wanted.name.kind == "view"
        and wanted.name.schema in statement.names(at)
        and any(name.lower() in routines for name in statement.names(other))
    ]
    if statement.head.table is not None:
        for part, name in ((statement.head.name, wanted.name.name), (statement.head.table, wanted.table)):
            edits.append(Edit(part, encoded(Ident(name).sql, wanted.settings.client)))
    return statement.edited(edits)
