"""What a sync unit owns before its run knows source and target, and the parts of a wired run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from dm.atomic_file import write_atomically
from dm.clock import Clock
from dm.config.references import StartPoint
from dm.config.subtask import SubtaskConfig
from dm.downstream.filter_session import FilterSession, ServerWeights
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.mysql.binlog.event import EventSource
from dm.pace.governor import Governor
from dm.position import Position
from dm.progress.takeover import Undone
from dm.sourcelog.relaylog.hold import Hold
from dm.sourcelog.stream.marks import Marks
from dm.sourcelog.stream.memory_quota import MemoryQuota
from dm.sourcelog.stream.prepared import PreparedTransactions
from dm.sourcelog.stream.prepared_watch import PreparedWatch
from dm.sourcelog.stream.reader import Reader, TransactionQueue
from dm.sourcelog.stream.source_monitor import ListWatch, RetentionWatch, SourceMonitor
from dm.sourcelog.stream.spool import Spool
from dm.syncer.apply.apply_lane import MissingRows
from dm.syncer.apply.completion import CompletionTracker
from dm.syncer.apply.conflict_detector import KeyWriters
from dm.syncer.apply.lanes import Lanes
from dm.syncer.apply.progress_writer import ProgressWriter
from dm.syncer.apply.safe_mode_window import SafeModeWindow
from dm.syncer.apply.table_counters import RowForms
from dm.syncer.apply.target_sessions import TargetSessions
from dm.syncer.ddl.barrier import DdlBarrier
from dm.syncer.dispatcher import Dispatcher, ReadingAhead
from dm.syncer.merge_order import MergeTurn, OrderHint
from dm.syncer.operators import Change, Request
from dm.syncer.resolving import Resolving


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources of one unit, shared by the parts of its run."""

    clock: Clock
    # Half for the reader, a quarter for the changes in the lanes, a quarter for their keys. The waits must be
    # independent: the lanes need memory to free the reader's.
    reading: MemoryQuota
    changes: MemoryQuota
    key_bytes: int
    queue: TransactionQueue
    sessions: TargetSessions
    spool: Spool  # scratch
    prepared: PreparedTransactions  # outlives a run
    record: StartRecord  # outlives a run
    hold: Hold | None  # on the relay's files
    floor: Callable[[Position], Position]  # from where the binlog is still needed, with this L
    directory: Path  # of the subtask on this host
    writers: KeyWriters | None = None  # if several sources have no order
    hint: OrderHint | None = None  # if they have one
    pace: Governor | None = None
    missing: MissingRows = field(default_factory=MissingRows)

    @classmethod
    def of(
        cls,
        subtask: SubtaskConfig,
        work_directory: Path,
        hold: Hold | None,
        clock: Clock,
        floor: Callable[[Position], Position],
    ) -> Resources:
        """The resources that the task file allows."""
        quota = subtask.syncer.memory_quota
        reading = MemoryQuota(subtask.syncer.reading_quota)
        return cls(
            clock,
            reading,
            MemoryQuota(quota // 4),
            quota // 4,
            TransactionQueue(reading),
            TargetSessions(subtask.target, row_events=subtask.syncer.row_format == "auto"),
            Spool(work_directory / "spool", clock),
            PreparedTransactions(work_directory / "prepared"),
            StartRecord(work_directory / "begun"),
            hold,
            floor,
            work_directory,
            _writers(subtask, work_directory, clock),
            OrderHint(work_directory.parent, subtask.source_id, subtask.neighbours) if subtask.order else None,
        )

    def stored(self, position: Position) -> None:
        """Release what the checkpoint has passed: rows of decided XA transactions, relay files."""
        self.prepared.delete_decided(position)
        if self.hold is not None:
            self.hold.keep_from(self.floor(position))


def _writers(subtask: SubtaskConfig, work_directory: Path, clock: Clock) -> KeyWriters | None:
    """Shared by all subtasks of the task on this host; no source's directory has this name."""
    if not subtask.neighbours or subtask.order is not None or subtask.share is not None:
        return None
    return KeyWriters(work_directory.parent / ".key-writers", subtask.source_id, subtask.neighbours, clock)


class StartRecord:
    """A note on the host's disk that a subtask has had a checkpoint.

    Progress is at the target. If it is gone (a dropped `meta-schema`, another target, a restored one), a task looks as
    if it had never run. In mode `incremental` it would begin at the source's end and quietly lose everything before.
    With an outdated `meta` it would apply changes twice. So before a run applies anything, it notes that there is a
    checkpoint, and its file's `meta`. A later run without a checkpoint begins only at a new `meta`.

    The note is no progress: nothing is applied because of it. `stop-task` keeps it, `start-task --remove-meta` removes
    it. Another host has no note: there, a task whose progress is gone looks new.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def demand_new(self, meta: StartPoint | None, task: str, source: str) -> None:
        """Raise DMError `checkpoint-gone` if the task has had a checkpoint, and `meta` is none or the same as then."""
        found = self._read()
        if found is not None and (meta is None or found == _text(meta)):
            raise DMError("checkpoint-gone", task=task, source=source)

    def put(self, meta: StartPoint | None) -> None:
        """Note that there is a checkpoint, durably; raises DMError."""
        text = _text(meta)
        if self._read() == text:
            return
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(self._path, text.encode(), durable=True)
        except OSError as error:
            raise DMError("spool-not-written", file=self._path) from error

    def _read(self) -> str | None:
        try:
            return self._path.read_text(errors="replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DMError("spool-not-written", file=self._path) from error


def _text(meta: StartPoint | None) -> str:
    return json.dumps(None if meta is None else meta.model_dump(mode="json"))


@dataclass(frozen=True, slots=True)
class RunParts:
    """The parts of one wired run (`dm.syncer.wiring`): for its loop, and for questions about it."""

    source: EventSource
    reader: Reader
    dispatcher: Dispatcher
    ddl: DdlBarrier
    lanes: Lanes
    completions: CompletionTracker
    safe_mode: SafeModeWindow
    progress: ProgressWriter
    undone: Undone  # by earlier runs
    monitor: SourceMonitor
    prepared: PreparedWatch
    lists: ListWatch
    retention: RetentionWatch
    schemas: TargetSchemas
    weights: ServerWeights
    filters: FilterSession
    memory_quota: int
    reading: MemoryQuota  # of what was read
    spool: Spool
    missing: MissingRows
    writers: KeyWriters | None
    marks: Marks | None  # where the task has an opposite
    resolving: Resolving | None  # where one side wins conflicts
    forms: RowForms
    turn: MergeTurn | None  # among the sources of the task
    ahead: ReadingAhead
    change_operators: Callable[[Request], Change]
