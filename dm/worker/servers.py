"""What the verbs ask of database servers; tests bring answers of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from dm.config import SourceConfig, SubtaskConfig, TaskConfig
from dm.position import TimePlace
from dm.sourcelog.stream.until import Until
from dm.syncer.operators import EventPlace, Request
from dm.task.join_requests import JoinRequests
from dm.task.precheck.result import CheckResult
from dm.task.progress import FinalPlace, StoredProgress
from dm.task.shard_locks import ShardLocks
from dm.task.start_time import StartTime
from dm.task.tracked_structure import StructureRequest
from dm.task.until import AskedEnd
from dm.task.validation import Validations
from dm.unit import JSON


class Check(Protocol):
    """The prechecks."""

    def __call__(
        self,
        config: TaskConfig,
        sources: Sequence[str],
        /,
        *,
        anew: bool = False,
        at_time: bool = False,
        work: Path | None = None,
        relays: Mapping[str, Path] | None = None,
    ) -> list[CheckResult]:
        """Everything found about a task on these sources, to go on, to begin anew, or at a time."""
        ...


@dataclass(frozen=True, slots=True)
class ProgressAtTarget:
    """What is asked of a resting subtask's progress, and done to it."""

    demand_sole_run: Callable[[SubtaskConfig], None]  # raises where another daemon runs the subtask

    operate_binlog: Callable[[SubtaskConfig, Request, EventPlace | None], JSON]
    operate_structure: Callable[[SubtaskConfig, StructureRequest], str]


@dataclass(frozen=True, slots=True)
class Servers:
    """What the verbs ask of database servers."""

    verify_source: Callable[[SourceConfig], list[str]]  # gives warnings; raises when the file can't be right
    check: Check
    forget_progress: Callable[[SubtaskConfig, Path], None]  # in the target, and in the work directory
    place_of: Callable[[SubtaskConfig, StartTime, Path], TimePlace]  # in the relay's files or at the source
    begin_at: Callable[[SubtaskConfig, TimePlace], list[str]]  # makes it the checkpoint; gives warnings
    until_of: Callable[[SubtaskConfig, AskedEnd, Path], Until]  # where it is to end; raises when it has come further
    final_place: Callable[[SubtaskConfig], FinalPlace]  # where a subtask that was stopped is
    progress: ProgressAtTarget
    demand_readable: Callable[[SubtaskConfig], None]  # raises when the source lacks what the task has yet to apply
    hold_place: Callable[[SubtaskConfig, Path, Path], None]  # of relay files; before the relay may leave them behind
    locks: ShardLocks = field(default_factory=ShardLocks)
    validations: Validations = field(default_factory=Validations)
    joins: JoinRequests = field(default_factory=JoinRequests)
    stored: StoredProgress = field(default_factory=StoredProgress)
