"""What the parts of a running dump share."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dm.config.endpoint import Endpoint
from dm.config.subtask import SubtaskConfig
from dm.dumper.chunk_file import Stream
from dm.dumper.progress import DumpProgress
from dm.dumper.structures import TargetKeys, read_schemas
from dm.dumpfiles.dump_files import DumpedTable, DumpPlan
from dm.dumpfiles.storage import DumpStorage
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.rules import TableRules
from dm.rules.block_allow import SYSTEM_SCHEMAS
from dm.sourcelog.relaylog.hold import Hold
from dm.sourcelog.stream.file_births import FileBirth
from dm.sourcelog.upstream.connection import Connection, identity_for, read_source_settings
from dm.sourcelog.upstream.facts import ServerFacts, binlog_files, list_tables
from dm.sourcelog.upstream.lineage import creation_time
from dm.spark.session import SparkProvider


@dataclass
class DumpRun:
    """One run of the dump of a subtask."""

    subtask: SubtaskConfig
    storage: DumpStorage
    spark: SparkProvider
    rules: TableRules
    keys: TargetKeys
    progress: DumpProgress
    connection: Connection
    facts: ServerFacts
    stop: threading.Event
    hold: Hold | None = None
    stream: Stream | None = None  # where chunks of keyed tables go without files
    changed: set[TableName] = field(default_factory=set)  # tables that a worker found to be not the planned ones
    _words: dict[TableName, str] = field(default_factory=dict)  # of the server about these

    def new_plan(self, point: Position, tables: Sequence[DumpedTable]) -> DumpPlan:
        """A plan that begins at the point."""
        self.keep_from(point)  # a run after a crash takes the stored point, or a later one
        others = (name for name in list_tables(self.connection) if not self.rules.wanted(name))
        return DumpPlan(
            dump_id=uuid.uuid4().hex,
            task=self.subtask.task,
            source_id=self.subtask.source.source_id,
            flavor=self.facts.flavor,
            version=self.facts.version,
            server_uuid=self.facts.server_uuid,
            p0=point,
            tables=tuple(tables),
            schemas=read_schemas(self.connection, {table.name.schema for table in tables}),
            started=self.progress.clock.time(),
            where=self.subtask.dumper.where,
            left_out=tuple(name for name in others if name.schema.lower() not in SYSTEM_SCHEMAS),
            settings=read_source_settings(self.connection),
        )

    def note_changed(self, table: TableName, words: str) -> None:
        """A worker found a table to be not the planned one, perhaps by these words of the server."""
        self.changed.add(table)
        self._words[table] = words

    def words_about(self, tables: Iterable[TableName]) -> str:
        """What the server said last of those of the tables that it refused to read."""
        return "; ".join(f"{table}: {self._words[table]}" for table in sorted(tables) if self._words.get(table))

    def keep_from(self, point: Position) -> None:
        """Tell the relay that the syncer will read from P0 on, and from nowhere before."""
        if self.hold is not None:
            self.hold.keep_from(point)

    def birth(self, point: Position) -> FileBirth | None:
        """When the source made the point's file, where a syncer goes on from there."""
        if not self.syncs:
            return None
        identity = identity_for(self.subtask.task, self.subtask.source.source_id)
        return FileBirth(self.facts.server_uuid, point.file, creation_time(self.endpoint, identity, point.file))

    def reset_since(self, birth: FileBirth | None) -> str:
        """What tells that the source was reset since a file's birth was read; nothing where it was not."""
        if birth is None:
            return ""
        point = Position(birth.server_uuid, birth.file)
        files = [Position(birth.server_uuid, name) for name, _ in binlog_files(self.connection)]
        if point not in files:
            if point.order < files[0].order:
                return ""  # purged; a history that has begun anew did not come so far
            return f"it had file {birth.file} when the dump began, and its last one is {files[-1].file}"
        now = self.birth(point)
        if now is None or now == birth:
            return ""
        return f"file {birth.file} was made at {now.created}, and the one of the dump at {birth.created} (in seconds)"

    def demand_same_history(self, birth: FileBirth | None) -> None:
        """Raise DMError if the source was reset meanwhile: the places that were taken before mean other ones now."""
        what = self.reset_since(birth)
        if what:
            raise DMError("source-reset", what=what)

    @property
    def endpoint(self) -> Endpoint:
        """The source."""
        return self.subtask.source.endpoint

    @property
    def syncs(self) -> bool:
        """Whether a syncer goes on from here."""
        return self.subtask.mode in ("all", "load&sync")
