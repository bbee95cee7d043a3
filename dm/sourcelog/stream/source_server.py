"""The source as a run sees it: its identity, where its events come from, what its statements mean.

A source with a standby is two servers. At its start a run chooses one that is reachable and has everything that was
applied, and keeps it. To read the other server, the run ends and the next one begins there. With a relay the events may
come from either server, as the relay decides; questions go to the server whose events are read.

A source that was reset has new files with the old names. Files that a relay has kept must not be mistaken for them: a
position from the source would point into a lost history. So a run compares the file that it begins in.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from dm.changes.computing import SourceSettings
from dm.clock import Clock
from dm.config.references import StartPoint
from dm.config.subtask import SubtaskConfig
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.ident import TableName
from dm.mysql.binlog.event import EventSource
from dm.mysql.binlog.reader import Query
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import TableSchema
from dm.mysql.schema.tracker import SchemaTracker
from dm.mysql.sql.context import SourceContext
from dm.position import MAGIC_SIZE, Position
from dm.session.answers import reads_answers
from dm.sourcelog.relaylog.layout import RelayDirectory
from dm.sourcelog.relaylog.relay_source import RelayEventSource
from dm.sourcelog.stream.prepared_again import SourceAt
from dm.sourcelog.stream.statement_context import query_context
from dm.sourcelog.upstream.connection import Connection, fetch, identity_for, read_source_settings
from dm.sourcelog.upstream.facts import (
    ServerFacts,
    binlog_end,
    binlog_files,
    collation_names,
    created_at,
    has_table,
    has_view,
    list_tables,
    purged_gtids,
    read_structure,
)
from dm.sourcelog.upstream.lineage import SourceAddresses, creation_time, expect_all, open_at
from dm.sourcelog.upstream.locate import place_after
from dm.sourcelog.upstream.remote_source import RemoteEventSource

_NO_SUCH_TABLE = (1146, 1049)


@dataclass(frozen=True, slots=True)
class PresentTable:
    """A table of the source as it is now."""

    text: str  # of SHOW CREATE TABLE
    structure: TableSchema
    created: int | None  # seconds since 1970


class SourceServer:
    """One source, with the facts of the server that answered at the start of the run."""

    def __init__(
        self,
        subtask: SubtaskConfig,
        facts: ServerFacts,
        collations: Mapping[int, str],
        source: EventSource,
        addresses: SourceAddresses,
        settings: SourceSettings,
    ) -> None:
        self._subtask = subtask
        self.settings = settings
        self.collations = collations
        self.facts = facts
        self.addresses = addresses
        self._source = source

    def event_source(self) -> EventSource:
        """Relay files if there are any, else the server itself."""
        return self._source

    def sources_of_files(self) -> tuple[SourceAt, ...]:
        """How to read a file from its start once more: from the relay, if it has that, else from the server itself."""

        def relayed(start: Position) -> EventSource | None:
            source = self._source
            place = source.place(start) if isinstance(source, RelayEventSource) else None
            return None if place is None or place.file != start.file else source

        def remote(start: Position) -> EventSource | None:
            if start.server_uuid != self.facts.server_uuid:
                return None
            identity = identity_for(self._subtask.task, self._subtask.source_id)
            return RemoteEventSource(self._subtask.source.endpoint, identity, addresses=self.addresses)

        return relayed, remote

    @property
    def relayed(self) -> bool:
        """Whether events come from relay files."""
        return isinstance(self._source, RelayEventSource)

    def start_of(self, meta: StartPoint) -> Position:
        """The position that `meta` means; raises DMError."""
        start = Position("", "", MAGIC_SIZE, GtidSet.empty(self.facts.flavor))
        if meta.binlog_gtid and (self._subtask.source.enable_gtid or not meta.binlog_name):
            wanted = GtidSet.parse(meta.binlog_gtid, self.facts.flavor)
            start = self._placed(replace(start, gtid_set=wanted)) if wanted else self._beginning()
        else:
            offset = max(meta.binlog_pos, MAGIC_SIZE)
            start = replace(start, server_uuid=self.facts.server_uuid, file=meta.binlog_name, offset=offset)
        self.demand_same_file(start)
        complete = self._source.complete(start)
        return complete if complete.server_uuid else replace(complete, server_uuid=self.facts.server_uuid)

    def _beginning(self) -> Position:
        """Where the source's binlog begins, if that is its very first one; raises DMError."""
        connection, facts = self.addresses.open()
        with closing(connection):
            lost = purged_gtids(connection, facts)
            files = [name for name, _ in binlog_files(connection)]
        if lost:
            there = f"{files[0]} to {files[-1]}"
            raise DMError("source-binlog-purged", wanted="its beginning", available=there, missing=lost, ours="")
        return Position(facts.server_uuid, files[0], MAGIC_SIZE, GtidSet.empty(facts.flavor))

    def demand_same_file(self, start: Position) -> None:
        """Check that the relay file where a run begins is the source's file of that name; raises DMError."""
        ours = self._source.beginning(start) if isinstance(self._source, RelayEventSource) else None
        if ours is None or ours.server_uuid != self.facts.server_uuid:
            return
        connection, facts = self.addresses.open()
        with closing(connection):
            names = [name for name, _ in binlog_files(connection)]
        if facts.server_uuid != ours.server_uuid or ours.file not in names:
            return  # another server answers by now, or the source has purged the file
        identity = identity_for(self._subtask.task, self._subtask.source_id)
        theirs = creation_time(self.addresses.current, identity, ours.file)
        if theirs != ours.created:
            raise DMError("relay-of-other-history", file=ours.file, theirs=theirs, ours=ours.created, position=start)

    def present(
        self, wanted: Callable[[TableName], bool], stop: threading.Event
    ) -> tuple[Position, dict[TableName, TableSchema]] | None:
        """The present end, and the exact structures of the wanted tables there; None when stopped.

        Structures are read before and after the end; if both readings agree, no DDL is between them.
        """
        connection, facts = self.addresses.open()
        with closing(connection):
            before = self._texts(connection, wanted, stop)
            while True:
                end = binlog_end(connection, facts)
                after = self._texts(connection, wanted, stop)
                if stop.is_set():
                    return None
                if before == after:
                    break
                before = after
        return end, {
            table: parse_create_table(text, self.structure_context(table.schema)) for table, text in after.items()
        }

    def end(self) -> Position:
        """Where the source's log ends now."""
        connection, facts = self.addresses.open()
        with closing(connection):
            return binlog_end(connection, facts)

    def tables(self, wanted: Callable[[TableName], bool]) -> list[TableName]:
        """The wanted tables that the source has now."""
        connection, _ = self.addresses.open()
        with closing(connection):
            return [table for table in list_tables(connection) if wanted(table)]

    @staticmethod
    def _texts(
        connection: Connection, wanted: Callable[[TableName], bool], stop: threading.Event
    ) -> dict[TableName, str]:
        texts: dict[TableName, str] = {}
        for table in list_tables(connection):
            if stop.is_set():
                break
            if wanted(table):
                try:
                    texts[table] = read_structure(connection, table)
                except DMError as error:
                    if not _absent(error):  # dropped since the listing
                        raise
        return texts

    def here(self, position: Position) -> Position:
        """The same place on this server where GTIDs would not tell; raises DMError."""
        return position if position.server_uuid == self.facts.server_uuid else self._placed(position)

    def _placed(self, start: Position) -> Position:
        """Without strict mode MariaDB's numbers may be out of order, so the server is asked for the position."""
        if self.facts.gtid_ordered or not start.gtid_set:
            return start
        if "," in str(start.gtid_set):  # each domain has its own position
            before = start.server_uuid or "unknown"
            raise DMError("gtid-order-loose", now=self.facts.server_uuid, before=before, ours=start.gtid_set)
        identity = identity_for(self._subtask.task, self._subtask.source_id)
        return place_after(self.facts, self.addresses.current, identity, start.gtid_set)

    def switch_bound(self, start: Position, *applied: Position | None) -> Position | None:
        """Check that the server has all that may be at the target: `start`, and beyond it `applied`; raises DMError.

        After a switch to another server, its end bounds what may be applied already; None without a switch. A run that
        returns to the server of `start` also counts as a switch: the last run applied what it read elsewhere.
        """
        ours = start.gtid_set
        servers = {start.server_uuid}
        for position in applied:
            if position is not None:
                ours |= position.gtid_set
                servers.add(position.server_uuid)
        end = self._settle(ours, start.server_uuid)
        if servers == {self.facts.server_uuid}:
            return None
        if not start.gtid_set:
            raise DMError("source-replaced", ours=start.server_uuid, theirs=self.facts.server_uuid, position=start)
        return end

    def _settle(self, ours: GtidSet, read_from: str) -> Position:
        """Keep the server found at first, or switch if only the other has everything; returns its end."""
        addresses = self.addresses
        other = addresses.other
        try:
            connection, self.facts = addresses.open(any_server=True)
            with closing(connection):
                address, may_wait = addresses.current.address, other is not None
                expect_all(connection, self.facts, ours, address, read_from=read_from, may_wait=may_wait)
                return binlog_end(connection, self.facts)
        except DMError as error:
            if other is None or error.name != "source-behind":
                raise
            try:
                connection, facts = open_at(other)
                with closing(connection):
                    expect_all(connection, facts, ours, other.address, read_from=read_from, may_wait=True)
                    end = binlog_end(connection, facts)
            except DMError as second:
                raise error from second
            addresses.use(other)
            self.facts = facts
            return end

    def context_of(self, query: Query) -> SourceContext:
        """What the meaning of a query event's text depends on."""
        return query_context(self.facts, query, self.collations)

    @property
    def plain_context(self) -> SourceContext:
        """How to read statements that a person writes with the source's names."""
        return self.structure_context("")

    def structure_context(self, schema: str) -> SourceContext:
        """How to read SHOW CREATE TABLE of this server."""
        return SourceContext(
            self.facts.flavor, self.facts.version, schema, lower_case_names=self.facts.lower_case_table_names == 1
        )

    def read_structure(self, table: TableName) -> TableSchema | None:
        """The table's structure at the source now; None if there is no such table."""
        try:
            connection, _ = self.addresses.open()
            with closing(connection):
                text = read_structure(connection, table)
        except DMError as error:
            if _absent(error):
                return None
            raise
        return parse_create_table(text, self.structure_context(table.schema))

    def present_table(self, table: TableName) -> PresentTable | None:
        """The table as the source has it now; None if there is no such table."""
        try:
            connection, _ = self.addresses.open()
            with closing(connection):
                text, created = read_structure(connection, table), created_at(connection, table)
        except DMError as error:
            if _absent(error):
                return None
            raise
        return PresentTable(text, parse_create_table(text, self.structure_context(table.schema)), created)

    def has_table(self, table: TableName) -> bool:
        """Whether the source has a table of this name, not a view, now."""
        connection, _ = self.addresses.open()
        with closing(connection):
            return has_table(connection, table)

    def has_view(self, name: TableName) -> bool:
        """Whether the source has a view of this name now."""
        connection, _ = self.addresses.open()
        with closing(connection):
            return has_view(connection, name)

    @reads_answers
    def views(self) -> frozenset[TableName]:
        """All views that the source has now."""
        connection, _ = self.addresses.open()
        with closing(connection):
            found = fetch(connection, "SELECT table_schema, table_name FROM information_schema.views")
        return frozenset(TableName(str(schema), str(table)) for schema, table in found)

    def tracker(self, structures: Iterable[TableSchema]) -> SchemaTracker:
        """A tracker with these structures, and the defaults of the source's schemas."""
        tracker = SchemaTracker(self.facts.flavor)
        for schema, charset, collation in self._databases():
            tracker.set_database(schema, charset, collation)
        for structure in structures:
            tracker.set(structure)
        return tracker

    @reads_answers
    def _databases(self) -> list[tuple[str, str, str]]:
        connection, _ = self.addresses.open()
        with closing(connection):
            found = fetch(
                connection,
                "SELECT schema_name, default_character_set_name, default_collation_name"
                " FROM information_schema.schemata",
            )
        return [(str(schema), str(charset), str(collation)) for schema, charset, collation in found]


def _absent(error: DMError) -> bool:
    return error.server_errno in _NO_SUCH_TABLE


def open_source_server(subtask: SubtaskConfig, relay_directory: Path | None, clock: Clock) -> SourceServer:
    """Ask the source who it is and decide where its events come from; raises DMError."""

    def stored() -> str:
        """The server whose events the relay stores now."""
        last = None if relay_directory is None else RelayDirectory(relay_directory).last()
        return "" if last is None else last.server_uuid

    described = subtask.source
    addresses = SourceAddresses(described.endpoint, described.standby, reading_from=stored)
    connection, facts = addresses.open(any_server=True)
    with closing(connection):
        collations = collation_names(connection, facts)
        settings = read_source_settings(connection)
    if not facts.log_bin:
        raise DMError("source-without-binlog", source=subtask.source_id)
    identity = identity_for(subtask.task, subtask.source_id)
    source: EventSource
    if relay_directory is not None:
        source = RelayEventSource(relay_directory, facts.flavor)
    else:
        source = RemoteEventSource(described.endpoint, identity, clock=clock, addresses=addresses)
    return SourceServer(subtask, facts, collations, source, addresses, settings)
