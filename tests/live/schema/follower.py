"""A source, a target and a tracker between them, one statement at a time: what a statement came to at each.

The statement runs at the source. What the source wrote into its binlog for it is read as the syncer reads it, cut,
routed into schemas of other names and executed at the target by the syncer's own session for DDL. Then three things are
compared for every table it named: the target's SHOW CREATE TABLE with the source's, word by word but for the routed
names; the tracker's structure with the source's; and the tracker's columns and keys with information_schema. A TiDB
prints in words of its own, so what information_schema tells is compared there (`dm.mysql.equality.structure`), but for
what TiDB leaves out (docs/tidb.md).

After anything but `exact` target and tracker are made again from the source, so one failure does not cause the next.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import pymysql

from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.mysql.binlog.event import RawEvent
from dm.mysql.binlog.frame import frames
from dm.mysql.binlog.reader import EventParser, Query
from dm.mysql.equality import structure
from dm.mysql.schema import effect
from dm.mysql.schema.charset import default_collation
from dm.mysql.schema.normal import same_structure
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import TableSchema
from dm.mysql.schema.tracker import SchemaTracker
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.split import split
from dm.mysql.sql.statement import classify
from dm.sourcelog.stream.statement_context import query_context
from dm.sourcelog.upstream.connection import connect
from dm.sourcelog.upstream.facts import collation_names, read_facts
from dm.syncer.ddl.session import DdlSession
from tests.live.schema.information import differences
from tests.testbed.sync import endpoint_of

Verdict = Literal["refused", "not logged", "exact", "paused", "silently different"]

ROUTED: Final = "r_"
_SYSTEM: Final = frozenset({"mysql", "sys", "information_schema", "performance_schema", "metrics_schema"})
_HARMLESS: Final = (0, 1051)  # as in the syncer: what was there of a DROP TABLE is gone
_ABSENT: Final = ("1146", "1049")
_UNREADABLE: Final = "unreadable"
_LEFT_OUT: Final = ("index only at the source: FULLTEXT", "foreign key only at the source")  # by a TiDB
_INDEX: Final = re.compile(r"index only at the (source|target): (?:INDEX|UNIQUE) .+? (\(.*\))$")
_LOST: Final = frozenset({2006, 2013, 2055, 0})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a statement; `kind` and `why` say more where it is not exact."""

    verdict: Verdict
    kind: str = ""
    why: str = ""
    detail: str = ""


def routed(name: TableName) -> TableName:
    """Where a table of the source is at the target."""
    return TableName(ROUTED + name.schema, name.table)


def unrouted(name: TableName) -> TableName:
    """Where a table of the target is at the source; one of the source is there already."""
    return TableName(name.schema.removeprefix(ROUTED), name.table)


class Follower:
    """Both servers, and what is between them."""

    def __init__(self, source: ThrowawayServer, target: PrivateServer) -> None:
        self._source = source
        self._reader = target.connect() if target.tidb else None  # of structures, where texts tell nothing
        connection = connect(endpoint_of(source))
        self.facts = read_facts(connection)
        self._collations = collation_names(connection, self.facts)
        connection.close()
        self._asker: Any = source.connect(init_command="SET time_zone = '+00:00'")
        self._client: Any = None
        self._connection = TargetConnection(endpoint_of(target))
        self._looker = TargetConnection(endpoint_of(target))
        self._session = DdlSession(self._connection, self.facts, lambda seconds: True)
        self._targets = TargetSchemas(lambda: TargetConnection(endpoint_of(target)))
        self._parser = EventParser()
        self._file = self._binlog_file()
        self._offset = 4
        self._tracker = SchemaTracker(source.flavor)
        there = (name for name in self._all_schemas(self._connection.query) if name.startswith(ROUTED))
        self._foreign = {*self._all_schemas(self._ask), *there}  # a TiDB has a schema `test` from its beginning
        self._rewritten: set[TableName] = set()  # logged in other words than they were written in
        self.plain_indexes_differ = 0
        for _ in self._events():
            pass

    def close(self) -> None:
        """End all sessions."""
        self._drop_everything()
        self._session.close()
        self._targets.close()
        self._looker.close()
        self._asker.close()
        if self._reader is not None:
            self._reader.close()
        if self._client is not None:
            self._client.close()

    def _ask(self, statement: str) -> list[tuple[Any, ...]]:
        with self._asker.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def _binlog_file(self) -> Path:
        modern = self.facts.flavor == "mysql"
        file = str(self._ask("SHOW BINARY LOG STATUS" if modern else "SHOW MASTER STATUS")[0][0])
        return Path(str(self._ask("SELECT @@log_bin_basename")[0][0])).parent / file

    def _events(self) -> Iterator[Query]:
        """The statements that were logged since the last call."""
        with self._file.open("rb") as file:
            file.seek(self._offset)
            content = file.read()
        for at, header in frames(content, 0, len(content)):
            event = self._parser.parse(RawEvent(header, content[at : at + header.size]))
            self._offset += header.size
            if isinstance(event, Query):
                yield event

    def _all_schemas(self, ask: Callable[[str], list[tuple[Any, ...]]]) -> list[str]:
        return [str(name) for (name,) in ask("SHOW DATABASES") if str(name).lower() not in _SYSTEM]

    def _schemas(self, ask: Callable[[str], list[tuple[Any, ...]]]) -> list[str]:
        """The schemas that were made since the follower began."""
        return [name for name in self._all_schemas(ask) if name not in self._foreign]

    def _drop_everything(self) -> None:
        self._ask("SET SESSION sql_log_bin = 0, foreign_key_checks = 0")
        for name in self._schemas(self._ask):
            with suppress(pymysql.Error):
                self._ask(f"DROP DATABASE {Ident(name).sql}")
        for name in self._schemas(self._connection.query):
            if name.startswith(ROUTED):
                self._connection.execute(f"DROP DATABASE {Ident(name).sql}")

    def begin(self, schema: str = "test") -> None:
        """Start a script: nothing but one empty schema on both sides, and a new session at the source."""
        if self._client is not None:
            self._client.close()
        self._drop_everything()
        self._rewritten.clear()
        self._ask(f"CREATE DATABASE {Ident(schema).sql}")
        self._connection.execute(f"CREATE DATABASE {Ident(ROUTED + schema).sql}")
        self._client = self._source.connect()
        self._send(f"USE {Ident(schema).sql}".encode())
        self._send(b"SET SESSION lock_wait_timeout = 5")
        self._resync()
        for _ in self._events():
            pass

    def _send(self, statement: bytes) -> None:
        self._client.query(statement)

    def run(self, statement: bytes) -> Outcome:
        """Run one statement everywhere."""
        refused = ""
        try:
            self._send(statement)
        except pymysql.Error as error:
            refused = str(error.args[0] if error.args else error)
            if error.args and error.args[0] in _LOST:
                self.begin()
                return Outcome("refused", why=refused)
        pieces: list[Piece] = []
        rewritten = False
        kind = " ".join(re.findall(r"\w+", statement.decode("latin-1"))[:2]).upper()
        try:
            logged = 0
            for query in self._events():
                context = query_context(self.facts, query, self._collations)
                if classify(query.text, context).kind != "ddl":
                    continue
                logged += 1
                rewritten = rewritten or query.sql.strip() != statement.strip()
                _demand_success(query)
                for piece in split(query.text, context, singly=self._connection.dialect.takes_few_operations):
                    pieces.append(piece)
                    kind = f"{piece.verb}: {', '.join(piece.events)}"
                    self._execute(piece, query)
                    self._tracker.apply(piece)
        except DMError as error:
            cause = error.cause.split(" ", 1)[0] if error.cause else ""
            outcome = Outcome("paused", kind, f"{error.name} {cause}".strip(), f"{error} {error.cause}")
            for _ in self._events():
                pass
            self._resync()
            return outcome
        if not logged:
            return Outcome("refused", why=refused) if refused else Outcome("not logged")
        touched = {table for piece in pieces for table in piece.tables if table.table}
        if rewritten:
            self._rewritten |= touched
        for table in touched:
            why = self._difference(table)
            if why is not None:
                self._resync()
                return Outcome("silently different", kind, why[0], why[1])
        return Outcome("exact", kind)

    def _execute(self, piece: Piece, query: Query) -> None:
        there = piece.route(routed)
        tables = there.tables
        now = {TableName(table.schema, ""): self._session.database(table.schema) for table in tables}
        now.update((table, self._targets.read(table)) for table in tables if table.table)
        if not effect.already_effective(now, there, self._tracker.get(piece.table)):
            self._session.execute(there.text, query)

    def finish(self) -> list[str]:
        """What is different when a script is over, in all schemas and tables."""
        here = set(self._schemas(self._ask))
        there = {name.removeprefix(ROUTED) for name in self._schemas(self._connection.query) if name.startswith(ROUTED)}
        if here != there:
            return [f"schemas {sorted(here)} are {sorted(there)} at the target"]
        found = []
        for schema in sorted(here):
            names = set(self._tables(schema, self._ask))
            copies = set(self._tables(ROUTED + schema, self._connection.query))
            if names != copies:
                found.append(f"tables of {schema}: {sorted(names)} are {sorted(copies)} at the target")
            differing = [self._difference(TableName(schema, name)) for name in sorted(names & copies)]
            found += [f"{why[0]}: {why[1]}" for why in differing if why is not None]
        return found

    def _tables(self, schema: str, ask: Callable[[str], list[tuple[Any, ...]]]) -> list[str]:
        rows = ask(f"SHOW FULL TABLES FROM {Ident(schema).sql}")
        return [str(row[0]) for row in rows if row[1] == "BASE TABLE"]

    def _shown(self, table: TableName, ask: Callable[[str], list[tuple[Any, ...]]]) -> str | None:
        """What the server prints; None without the table. A MERGE table over other engines can only be dropped."""
        try:
            return str(ask(f"SHOW CREATE TABLE {table.sql}")[0][1])
        except pymysql.Error as error:
            number = str(error.args[0])
        except DMError as error:
            number = error.cause.split(" ", 1)[0]
        return None if number in _ABSENT else f"{_UNREADABLE}: {number}"

    def _there(self, table: TableName) -> str | None:
        text = self._shown(routed(table), self._looker.query)
        return None if text is None else text.replace(f"`{ROUTED}", "`")

    def _difference(self, table: TableName) -> tuple[str, str] | None:
        """What differs; a table whose statement the source logged in other words may be printed in other words."""
        here, there = self._shown(table, self._ask), self._there(table)
        if not self._same(table, here, there):
            return "target", f"{here}\n---- at the target\n{there}"
        tracked = self._tracker.get(table)
        if here is None:
            return None if tracked is None else ("tracker", f"{table} is tracked and is no more")
        if here.startswith(_UNREADABLE):
            return None
        if tracked is None:
            return "not tracked", f"{table}"
        try:
            real = self._parsed(here, table)
        except DMError as error:
            return "tracked and not readable", f"{here}\n{error}"
        if not same_structure(_without_plain(tracked), _without_plain(real)):
            return "tracker", f"{here}\n---- tracked\n{tracked}\n---- shown\n{real}"
        # Which indexes servers make and drop for foreign keys no statement tells, and no row depends on them.
        self.plain_indexes_differ += not same_structure(tracked, real)
        wrong = differences(tracked, self._ask)
        return ("information_schema", f"{here}\n{wrong}") if wrong else None

    def _same(self, table: TableName, here: str | None, there: str | None) -> bool:
        """Whether the target has what the source has; what was logged in other words may be printed in other words."""
        if here == there:
            return True
        if self._reader is None:
            return table in self._rewritten and self._alike(here, there)
        if here is None or there is None:
            return False
        sides = (
            structure.read(connection, self.facts.flavor if connection is self._asker else "mysql", name, unrouted)
            for connection, name in ((self._asker, table), (self._reader, routed(table)))
        )
        told = structure.differences(*sides, same_flavor=False, respells=True)
        found = [line for line in told if not line.startswith(_LEFT_OUT)]
        indexes = [(match[1], match[2]) for line in found if (match := _INDEX.match(line)) is not None]
        ours, theirs = (sorted(rest for side, rest in indexes if side == where) for where in ("source", "target"))
        return len(indexes) == len(found) and ours == theirs  # a TiDB names those without a name in its own way

    def _alike(self, here: str | None, there: str | None) -> bool:
        plain = SourceContext(self.facts.flavor, self.facts.version, "")
        return here is not None and there is not None and _plain(here, plain) == _plain(there, plain)

    def _parsed(self, text: str, table: TableName) -> TableSchema:
        return parse_create_table(text, SourceContext(self.facts.flavor, self.facts.version, table.schema))

    def _resync(self) -> None:
        """Make target and tracker from what is at the source; what can't be made is dropped on both sides."""
        self._connection.execute("SET SESSION foreign_key_checks = 0, timestamp = DEFAULT, time_zone = '+00:00'")
        for name in self._schemas(self._connection.query):
            if name.startswith(ROUTED):
                self._connection.execute(f"DROP DATABASE {Ident(name).sql}")
        self._tracker = SchemaTracker(self._source.flavor)
        rows = self._ask(
            "SELECT schema_name, default_character_set_name, default_collation_name FROM information_schema.schemata"
        )
        databases = {str(name): (str(charset), str(collation)) for name, charset, collation in rows}
        for schema in self._schemas(self._ask):
            charset, collation = databases[schema]
            self._tracker.set_database(schema, charset, collation)
            try:
                self._connection.execute(
                    f"CREATE DATABASE {Ident(ROUTED + schema).sql} CHARACTER SET {charset} COLLATE {collation}"
                )
            except DMError:  # its name is too long with something before it
                self._ask(f"DROP DATABASE {Ident(schema).sql}")
        for schema in self._schemas(self._ask):
            for name in self._tables(schema, self._ask):
                self._copy(TableName(schema, name))

    def _copy(self, table: TableName) -> None:
        text = self._shown(table, self._ask)
        try:
            assert text is not None
            context = SourceContext(self.facts.flavor, self.facts.version, table.schema)
            self._tracker.set(self._parsed(text, table))
            self._connection.execute(Piece.of(text, context).route(routed).text)
            if self._same(table, text, self._there(table)):
                return
        except (DMError, AssertionError):
            pass
        self._tracker.forget(table)
        with suppress(DMError):
            self._connection.execute(f"DROP TABLE IF EXISTS {routed(table).sql}")
        with suppress(pymysql.Error):
            self._ask(f"DROP TABLE IF EXISTS {table.sql}")


def _demand_success(query: Query) -> None:
    if query.error_code not in _HARMLESS:
        raise DMError("statement-failed-at-source", statement=query.text, code=query.error_code)


def _without_plain(table: TableSchema) -> TableSchema:
    return replace(table, indexes=tuple(index for index in table.indexes if index.kind != "index"))


def _plain(text: str, context: SourceContext) -> str:
    """CREATE TABLE .. SELECT is logged with what its columns have by default: DEFAULT NULL, the default collation."""

    def without_default(found: re.Match[str]) -> str:
        return f" CHARACTER SET {found[1]}" if default_collation(found[1], context) == found[2] else found[0]

    text = re.sub(r" CHARACTER SET (\w+) COLLATE (\w+)", without_default, text)
    return re.sub(r" DEFAULT NULL(?=,|\n|$)", "", text)


@contextmanager
def follower(source: ThrowawayServer, target: PrivateServer) -> Iterator[Follower]:
    """A follower whose sessions end with the block."""
    made = Follower(source, target)
    try:
        yield made
    finally:
        made.close()
