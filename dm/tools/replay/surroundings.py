"""What the tasks of a replay need besides their items; Spark pickles it with them, passwords included."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dm.changes.computing import SourceSettings
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.downstream.row_event_session import Variables, take_row_events
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.query import Query
from dm.mysql.sql.context import SourceContext
from dm.progress.replayed import RelayRange
from dm.rules.table_rules import TableRules
from dm.sourcelog.stream.transaction import query_context
from dm.sourcelog.upstream.facts import ServerFacts
from dm.syncer.apply.learned_tables import plan_options
from dm.tools.replay.tables import KnownTables, ReplayTables


@dataclass(frozen=True)
class ReplayContext:
    """The subtask, its source and its tables, and the places on disk."""

    subtask: SubtaskConfig
    facts: ServerFacts
    settings: SourceSettings
    collations: Mapping[int, str]  # the source's, by number
    views: frozenset[TableName]  # the source's now
    known: KnownTables
    relay: Path
    directory: Path  # of this replay
    server_uuid: str  # whose files are read
    again: bool  # earlier runs may have done any of the stretch

    def spill(self, piece: RelayRange) -> Path:
        """The file of a piece's net effects."""
        return self.directory / f"{piece.file}.{piece.begin}-{piece.end}"

    def context_of(self, query: Query) -> SourceContext:
        """What the meaning of a query event's text depends on."""
        return query_context(self.facts, query, self.collations)

    def take_events(self, connection: TargetConnection) -> str:
        """Have a session take row events; why it does not."""
        if self.subtask.syncer.row_format != "auto":
            return "row-format is sql"
        return take_row_events(connection, Variables())

    @contextmanager
    def tables(self, no_events: str = "") -> Iterator[ReplayTables]:
        """The tables, with a session at the target to ask; `no_events`: why rows can't go as events."""
        control = TargetConnection(self.subtask.target)
        schemas = TargetSchemas(lambda: TargetConnection(self.subtask.target))
        try:
            if not no_events:
                no_events = self.take_events(control)
            options = plan_options(
                self.subtask,
                self.facts,
                control,
                None,
                foreign_key_checks=False,
                no_events=no_events,
                source=self.settings,
            )
            rules = TableRules(self.subtask)
            yield ReplayTables(rules, self.known, self.facts.flavor, schemas.get, options, self.again)
        finally:
            closing: tuple[Callable[[], None], ...] = (control.close, schemas.close)
            for close in closing:
                with suppress(DMError):
                    close()
