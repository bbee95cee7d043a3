"""The parts of a wired run (`dm.syncer.wiring`): for the loop, and for questions about the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dm.downstream.filter_session import FilterSession
from dm.downstream.target_schema import TargetSchemas
from dm.downstream.weights import ServerWeights
from dm.mysql.binlog.event_source import EventSource
from dm.progress.undone import Undone
from dm.sourcelog.stream.list_watch import ListWatch
from dm.sourcelog.stream.memory_quota import MemoryQuota
from dm.sourcelog.stream.prepared_watch import PreparedWatch
from dm.sourcelog.stream.reader import Reader
from dm.sourcelog.stream.source_monitor import SourceMonitor
from dm.sourcelog.stream.spool import Spool
from dm.syncer.apply.apply_lane import MissingRows
from dm.syncer.apply.completion import CompletionTracker
from dm.syncer.apply.key_writers import KeyWriters
from dm.syncer.apply.lanes import Lanes
from dm.syncer.apply.progress_writer import ProgressWriter
from dm.syncer.apply.safe_mode_window import SafeModeWindow
from dm.syncer.apply.table_counters import RowForms
from dm.syncer.ddl.barrier import DdlBarrier
from dm.syncer.ddl.reading_ahead import ReadingAhead
from dm.syncer.dispatcher import Dispatcher
from dm.syncer.operators import Change, Request
from dm.syncer.order.merge_turn import MergeTurn


@dataclass(frozen=True, slots=True)
class RunParts:
    """The parts of one run."""

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
    schemas: TargetSchemas
    weights: ServerWeights
    filters: FilterSession
    memory_quota: int
    reading: MemoryQuota  # of what was read
    spool: Spool
    missing: MissingRows
    writers: KeyWriters | None
    forms: RowForms
    turn: MergeTurn | None  # among the sources of the task
    ahead: ReadingAhead
    change_operators: Callable[[Request], Change]
