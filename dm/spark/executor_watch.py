"""Tells that a Spark job has nobody to work on it.

Problem: a cluster without workers, or whose cores are all given to others, lets a job wait for ever, and neither Spark
nor the driver says a word of it: the task shows 0 % and no error.

Between two tasks there is always a moment at which none runs, and a job that has just begun has not been given to
anybody yet. So nothing is said of a job's first second without a task, and an item that is done counts as a task that
ran. What runs is known to Spark's status tracker, which answers from the driver's memory. A master on this machine
(`local[2]`) is its own executor and always there: a machine that is slow because it does other things is not said to
lack one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from dm.clock import Clock, SystemClock

if TYPE_CHECKING:
    from pyspark import SparkContext

_USUAL_SECONDS = 1.0


class ExecutorWatch:
    """Looks at one job while it runs; `waits` hears what it waits for, or nothing when it goes on."""

    def __init__(self, context: SparkContext, waits: Callable[[str], None], clock: Clock | None = None) -> None:
        self._context = context
        self._waits = waits
        self._clock = clock or SystemClock()
        self._local = str(context.master).startswith("local")
        self._waiting = False
        self.runs()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.runs()

    def runs(self) -> None:
        """A task runs, or has just ended."""
        self._alive, self._moment = self._clock.monotonic(), self._clock.time()
        if self._waiting:
            self._waiting = False
            self._waits("")

    def look(self) -> None:
        """Ask whether a task runs; to be called again and again."""
        if self._local or self._clock.monotonic() - self._alive < _USUAL_SECONDS:
            return
        if self._task_runs():
            self.runs()
        elif not self._waiting:
            self._waiting = True
            since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(self._moment))
            self._waits(f"{self._context.master} has no free executor: no task has run since {since} (UTC)")

    def _task_runs(self) -> bool:
        from py4j.protocol import Py4JError

        try:
            tracker = self._context.statusTracker()
            stages = map(tracker.getStageInfo, tracker.getActiveStageIds())
            return any(stage is not None and stage.numActiveTasks > 0 for stage in stages)
        except (Py4JError, OSError):
            return True  # the driver's JVM is gone; the job itself says so
