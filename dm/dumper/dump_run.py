"""What the parts of a running dump share, and how far it is."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dm.clock import Clock
from dm.config.endpoint import Endpoint
from dm.config.subtask import SubtaskConfig
from dm.dumper.chunk_file import Stream
from dm.dumper.structures import TargetKeys, read_schemas
from dm.dumpfiles.dump_files import DumpedTable, DumpPlan
from dm.dumpfiles.storage import DumpStorage
from dm.errors import DMError
from dm.ident import TableName
from dm.pace.handle import BulkPace
from dm.position import Position
from dm.rules import TableRules
from dm.rules.block_allow import SYSTEM_SCHEMAS
from dm.sourcelog.relaylog.hold import Hold
from dm.sourcelog.stream.file_births import FileBirth
from dm.sourcelog.upstream.connection import Connection, identity_for, read_source_settings
from dm.sourcelog.upstream.facts import ServerFacts, binlog_files, list_tables
from dm.sourcelog.upstream.lineage import creation_time
from dm.spark.progress_rate import ProgressRate
from dm.spark.session import SparkProvider
from dm.unit import JSON


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
    pace: BulkPace | None = None
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


# How far a dump is, in all and per table: DM's fields, and rate and remaining time.

_MOST_TABLES = 20  # in a status: those that are being read


@dataclass
class _DumpedTable:
    """What is known of one table."""

    missing: int  # chunks that are still to be read
    estimate: int
    rows_pace: ProgressRate
    size_pace: ProgressRate
    rows: int = 0
    size: int = 0
    under_way: tuple[int, int] = (0, 0)  # rows and bytes of chunks that are being read

    @property
    def seen(self) -> tuple[int, int]:
        """Rows and bytes read so far."""
        if self.missing <= 0:  # a task that Spark began twice may still be reading
            return self.rows, self.size
        return self.rows + self.under_way[0], self.size + self.under_way[1]

    @property
    def total(self) -> int:
        """Rows that it will have; where more came than was estimated, the estimate was wrong."""
        return self.rows if self.missing <= 0 else max(self.estimate, self.seen[0])

    @property
    def active(self) -> bool:
        """Whether it is neither untouched nor done."""
        return self.missing > 0 and self.rows_pace.begun

    def begin(self) -> None:
        """Rows of it begin to flow."""
        rows, size = self.seen
        self.rows_pace.begin(rows)
        self.size_pace.begin(size)

    def came(self) -> None:
        """More of it was read."""
        rows, size = self.seen
        self.rows_pace.came(rows)
        self.size_pace.came(size)


@dataclass
class DumpProgress:
    """Counters of one run; any thread may read."""

    clock: Clock
    phase: str = "starting"
    finished: bool = False
    streamed: bool = False  # rows go into the target without files: no load follows that takes time
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _tables: dict[TableName, _DumpedTable] = field(default_factory=dict)
    _reading: bool = False
    _waiting: str = ""

    def __post_init__(self) -> None:
        self._rows_pace, self._size_pace = ProgressRate(self.clock), ProgressRate(self.clock)

    def plan(self, table: TableName, chunks: int, estimated_rows: int) -> None:
        """A table enters, or starts anew."""
        with self._lock:
            self._tables[table] = _DumpedTable(
                chunks, estimated_rows, ProgressRate(self.clock), ProgressRate(self.clock)
            )

    def forget(self, table: TableName) -> None:
        """A table is gone."""
        with self._lock:
            self._tables.pop(table, None)

    def chunk(self, table: TableName, rows: int, size: int) -> None:
        """A chunk is done."""
        with self._lock:
            known = self._tables[table]
            known.missing -= 1
            known.rows += rows
            known.size += size
            if self._reading:
                known.begin()
            self._came()

    def under_way(self, read: Mapping[TableName, tuple[int, int]]) -> None:
        """How many rows and bytes of unfinished chunks have been read, by table."""
        with self._lock:
            for name, table in self._tables.items():
                table.under_way = read.get(name, (0, 0))
                if name in read and self._reading:
                    table.begin()
            self._came()

    def _came(self) -> None:
        for table in self._tables.values():
            table.came()
        self._rows_pace.came(sum(table.seen[0] for table in self._tables.values()))

    def reading(self) -> None:
        """Rows begin to flow: the rate counts from here."""
        with self._lock:
            self._reading = True
            self._rows_pace.begin(sum(table.seen[0] for table in self._tables.values()))
            self._size_pace.begin(sum(table.seen[1] for table in self._tables.values()))

    def waits(self, what: str) -> None:
        """The dump waits for something that is not its own; nothing when it goes on."""
        with self._lock:
            self._waiting = what

    def status(self) -> Mapping[str, JSON]:
        """DM's dump status; DM counts these in doubles, which its JSON writes as numbers, not as text."""
        with self._lock:
            tables = self._tables.values()
            rows, size = sum(table.seen[0] for table in tables), sum(table.seen[1] for table in tables)
            estimate = sum(table.total for table in tables)
            eta = None if self.finished else self._rows_pace.eta(rows, estimate)
            active = [(name, table) for name, table in self._tables.items() if table.active]
            active.sort(key=lambda entry: -entry[1].total)
            return {
                "totalTables": str(len(tables)),
                "completedTables": sum(1 for table in tables if table.missing <= 0),
                "finishedBytes": size,
                "finishedRows": rows,
                "estimateTotalRows": estimate,
                "bps": str(int(self._size_pace.rate(size))),
                "rps": str(int(self._rows_pace.rate(rows))),
                "etaSeconds": None if eta is None else str(eta),
                "starting": not tables and not self.finished,
                "streamed": self.streamed,
                "phase": self.phase,
                "waiting": self._waiting,
                "progress": self._rows_pace.share(rows, estimate, finished=self.finished),
                "tables": [_table_status(name, table) for name, table in active[:_MOST_TABLES]],
            }


def _table_status(name: TableName, table: _DumpedTable) -> JSON:
    rows, size = table.seen
    eta = table.rows_pace.eta(rows, table.total)
    return {
        "table": str(name),
        "finishedRows": str(rows),
        "estimateTotalRows": str(table.total),
        "finishedBytes": str(size),
        "rps": str(int(table.rows_pace.rate(rows))),
        "bps": str(int(table.size_pace.rate(size))),
        "etaSeconds": None if eta is None else str(eta),
        "progress": table.rows_pace.share(rows, table.total, finished=False),
    }
