"""What a unit owns before its run knows source and target: memory, queue, spool, sessions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from dm.clock import Clock
from dm.config.subtask import SubtaskConfig
from dm.position import Position
from dm.relaylog.hold import Hold
from dm.syncer.apply.key_writers import KeyWriters
from dm.syncer.apply.missing_rows import MissingRows
from dm.syncer.apply.target_sessions import TargetSessions
from dm.syncer.order.order_hint import OrderHint
from dm.syncer.start_record import StartRecord
from dm.syncer.stream.memory_quota import MemoryQuota
from dm.syncer.stream.prepared import PreparedTransactions
from dm.syncer.stream.spool import Spool
from dm.syncer.stream.transaction_queue import TransactionQueue


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources of one unit, shared by the parts of its run."""

    clock: Clock
    # Half for what was read, a quarter for the changes in the lanes, a quarter for their keys. The waits must be
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
    writers: KeyWriters | None = None  # where several sources have no order
    hint: OrderHint | None = None  # where they have one
    floor: Callable[[Position], Position] | None = None  # from where on the binlog is needed, if not from L on
    missing: MissingRows = field(default_factory=MissingRows)

    @classmethod
    def of(
        cls,
        subtask: SubtaskConfig,
        work_directory: Path,
        hold: Hold | None,
        clock: Clock,
        floor: Callable[[Position], Position] | None = None,
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
            _writers(subtask, work_directory, clock),
            OrderHint(work_directory.parent, subtask.source_id, subtask.neighbours) if subtask.order else None,
            floor,
        )

    def stored(self, position: Position) -> None:
        """Release what the checkpoint has passed: rows of decided XA transactions, relay files."""
        self.prepared.settled(position)
        if self.hold is not None:
            self.hold.keep_from(position if self.floor is None else self.floor(position))


def _writers(subtask: SubtaskConfig, work_directory: Path, clock: Clock) -> KeyWriters | None:
    """What all subtasks of the task on this host share: no source's directory has this name."""
    if not subtask.neighbours or subtask.order is not None or subtask.share is not None:
        return None
    return KeyWriters(work_directory.parent / ".key-writers", subtask.source_id, subtask.neighbours, clock)
