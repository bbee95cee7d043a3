"""The source as a run sees it: who it is, where its events come from, what its statements mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from dm.binlog.event_source import EventSource
from dm.binlog.reader import Query
from dm.clock import Clock
from dm.config.subtask import SubtaskConfig
from dm.config.task import StartPoint
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.ident import TableName
from dm.position import MAGIC_SIZE, Position
from dm.relaylog.relay_source import RelayEventSource
from dm.schema.parse import parse_create_table
from dm.schema.table import TableSchema
from dm.schema.tracker import SchemaTracker
from dm.sql.context import SourceContext
from dm.upstream.connection import Connection, connect, fetch
from dm.upstream.facts import ServerFacts, binlog_end, list_tables, read_facts, read_structure
from dm.upstream.remote_source import RemoteEventSource
from dm.upstream.replica_identity import identity_for

_NO_SUCH_TABLE = ("1146:", "1049:")


class Origin:
    """One source, with the facts of the server that answered at the start of the run."""

    def __init__(self, subtask: SubtaskConfig, facts: ServerFacts, source: EventSource) -> None:
        self._subtask = subtask
        self.facts = facts
        self._source = source

    def event_source(self) -> EventSource:
        """Relay files where there are any, else the server itself."""
        return self._source

    def start_of(self, meta: StartPoint) -> Position:
        """The position that `meta` means; raises DMError."""
        start = Position("", "", MAGIC_SIZE, GtidSet.empty(self.facts.flavor))
        if meta.binlog_gtid and (self._subtask.source.enable_gtid or not meta.binlog_name):
            start = replace(start, gtid_set=GtidSet.parse(meta.binlog_gtid, self.facts.flavor))
        else:
            offset = max(meta.binlog_pos, MAGIC_SIZE)
            start = replace(start, server_uuid=self.facts.server_uuid, file=meta.binlog_name, offset=offset)
        complete = self._source.complete(start)
        return complete if complete.server_uuid else replace(complete, server_uuid=self.facts.server_uuid)

    def end(self) -> Position:
        """The present end of the source's binlog."""
        connection = connect(self._subtask.source.endpoint)
        try:
            return binlog_end(connection, self.facts)
        finally:
            connection.close()

    def present(self, wanted: Callable[[TableName], bool]) -> tuple[Position, dict[TableName, TableSchema]]:
        """The present end, and the structures that the wanted tables have exactly there.

        Structures are read before and after the end; when both readings agree no DDL lies between them.
        """
        connection = connect(self._subtask.source.endpoint)
        try:
            before = self._texts(connection, wanted)
            while True:
                end = binlog_end(connection, self.facts)
                after = self._texts(connection, wanted)
                if before == after:
                    break
                before = after
        finally:
            connection.close()
        return end, {
            table: parse_create_table(text, self.structure_context(table.schema)) for table, text in after.items()
        }

    @staticmethod
    def _texts(connection: Connection, wanted: Callable[[TableName], bool]) -> dict[TableName, str]:
        texts: dict[TableName, str] = {}
        for table in list_tables(connection):
            if wanted(table):
                try:
                    texts[table] = read_structure(connection, table)
                except DMError as error:
                    if not _absent(error):  # dropped since it was listed
                        raise
        return texts

    def switch_bound(self, start: Position) -> Position | None:
        """After a switch to another server: its end now bounds what may be applied already; None without a switch."""
        if start.server_uuid == self.facts.server_uuid:
            return None
        if not start.gtid_set:
            raise DMError("source-replaced", ours=start.server_uuid, theirs=self.facts.server_uuid, position=start)
        return self.end()

    def context_of(self, query: Query) -> SourceContext:
        """What the text of a query event depends on."""
        context = SourceContext.of_sql_mode(self.facts.flavor, self.facts.version, query.schema, query.sql_mode or 0)
        explicit = query.session.explicit_defaults_for_timestamp
        return replace(
            context,
            lower_case_names=self.facts.lower_case_table_names == 1,
            explicit_defaults_for_timestamp=context.explicit_defaults_for_timestamp if explicit is None else explicit,
        )

    def structure_context(self, schema: str) -> SourceContext:
        """How SHOW CREATE TABLE of this server is to be read."""
        return SourceContext(
            self.facts.flavor, self.facts.version, schema, lower_case_names=self.facts.lower_case_table_names == 1
        )

    def read_structure(self, table: TableName) -> TableSchema | None:
        """The table's structure at the source now; None when there is no such table."""
        connection = connect(self._subtask.source.endpoint)
        try:
            text = read_structure(connection, table)
        except DMError as error:
            if _absent(error):
                return None
            raise
        finally:
            connection.close()
        return parse_create_table(text, self.structure_context(table.schema))

    def tracker(self, structures: Iterable[TableSchema]) -> SchemaTracker:
        """A tracker that knows these structures, and the defaults of the source's schemas."""
        tracker = SchemaTracker(self.facts.flavor)
        for schema, charset, collation in self._databases():
            tracker.set_database(schema, charset, collation)
        for structure in structures:
            tracker.set(structure)
        return tracker

    def _databases(self) -> list[tuple[str, str, str]]:
        connection = connect(self._subtask.source.endpoint)
        try:
            found = fetch(
                connection,
                "SELECT schema_name, default_character_set_name, default_collation_name"
                " FROM information_schema.schemata",
            )
        finally:
            connection.close()
        return [(str(schema), str(charset), str(collation)) for schema, charset, collation in found]


def _absent(error: DMError) -> bool:
    return error.cause.startswith(_NO_SUCH_TABLE)


def open_origin(subtask: SubtaskConfig, relay_directory: Path | None, clock: Clock) -> Origin:
    """Ask the source who it is and decide where its events come from; raises DMError."""
    connection = connect(subtask.source.endpoint)
    try:
        facts = read_facts(connection)
    finally:
        connection.close()
    if not facts.log_bin:
        raise DMError("source-without-binlog", source=subtask.source_id)
    identity = identity_for(subtask.task, subtask.source_id)
    source: EventSource
    if relay_directory is not None:
        source = RelayEventSource(relay_directory, facts.flavor)
    else:
        source = RemoteEventSource(subtask.source.endpoint, identity, clock=clock)
    return Origin(subtask, facts, source)
