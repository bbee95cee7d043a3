"""A task's pace by its work directory: who keeps it, and how a person changes it while the task runs.

Each source has a file of its own for the one limit that depends on it, the threads that run there. All other limits are
in the task's file (`dm.pace.shared`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dm.clock import Clock, SystemClock
from dm.config.pace import PaceConfig
from dm.config.subtask import SubtaskConfig
from dm.pace.gauges import source_gauges, target_gauges
from dm.pace.governor import Governor
from dm.pace.handle import BulkPace
from dm.pace.shared import PaceState, SharedPace

_DIRECTORY: Final = ".pace"
_TASK: Final = "task"
_SOURCE: Final = "source-"


def _of_source(limits: PaceConfig) -> PaceConfig:
    return PaceConfig(source_threads_running=limits.source_threads_running)


def task_governor(config: SubtaskConfig, work_directory: Path) -> Governor:
    """The governor of a unit that asks for itself."""
    clock = SystemClock()
    shared = SharedPace.begun(work_directory / _DIRECTORY / _TASK, config.pace, clock)
    return Governor(shared, target_gauges(config.target, clock), clock)


def bulk_pace(configs: Sequence[SubtaskConfig], work_directory: Path, *, reads: bool) -> BulkPace:
    """The pace of a unit whose work Spark's workers do; `reads`: they read these subtasks' sources."""
    task, clock = task_governor(configs[0], work_directory), SystemClock()
    own, sources = _of_source(task.shared.config), list[Governor]()
    for config in configs if reads else ():
        shared = SharedPace(work_directory / _DIRECTORY / f"{_SOURCE}{config.source_id}", clock)
        if shared.config != own:
            shared.change(own, run_time=False)
        sources.append(Governor(shared, source_gauges(config.source.endpoint, clock), clock))
    return BulkPace(task, sources)


def pace_state(work_directory: Path, written: PaceConfig, clock: Clock) -> PaceState:
    """How the pace is; `written` is what the task file says, for a task that has not run yet."""
    shared = SharedPace.begun(work_directory / _DIRECTORY / _TASK, written, clock)
    try:
        return shared.state()
    finally:
        shared.close()


def change_pace(work_directory: Path, limits: PaceConfig, clock: Clock, *, run_time: bool) -> None:
    """Set other limits for all that runs, and for what comes; raises DMError."""
    directory = work_directory / _DIRECTORY
    files = [(directory / _TASK, limits)]
    files += [(path, _of_source(limits)) for path in directory.glob(f"{_SOURCE}*")]
    for path, config in files:
        shared = SharedPace(path, clock)
        try:
            shared.change(config, run_time=run_time)
        finally:
            shared.close()
