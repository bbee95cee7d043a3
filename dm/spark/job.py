"""Runs one function over many items as a Spark job, and hears of each item as it is done.

Spark decides when and where an item is worked on; the function moves the data itself. What must hold:

- The driver hears of every finished item while the job runs (an accumulator carries the outcomes), so progress is live
  and a job cut short loses only the items that were under way.
- A DMError of a task reaches the driver as that error and not as a page of Java: it travels as an outcome. The first
  one cancels the rest of the job.
- `stop` cancels the job group; Spark kills the Python workers that are inside an item, their connections break, the
  servers roll back. Items are written so that this is just a crash.
- Secrets are only in the function, never in an item. On this machine the function reaches the workers in a file of our
  user, in the session's directory, so Spark's own blocks hold no secret; and neither does the file, which a killed
  driver leaves behind: it needs the random bytes in the closure. Executors elsewhere see no file of ours: there the
  function is in the closure, which Spark keeps in memory. The items go through a temporary file.

Fault points: the environment of the driver reaches the workers through the JVM, but a worker that strikes is replaced
by a fresh one, which would strike again for ever. So the armed points travel with the job, and only until one of this
process's jobs has lost a worker.

Tells that a Spark job has nobody to work on it.

Problem: a cluster without workers, or whose cores are all given to others, lets a job wait for ever, and neither Spark
nor the driver says a word of it: the task shows 0 % and no error.

Between two tasks there is always a moment at which none runs, and a job that has just begun has not been given to
anybody yet. So nothing is said of a job's first second without a task, and an item that is done counts as a task that
ran. What runs is known to Spark's status tracker, which answers from the driver's memory. A master on this machine
(`local[2]`) is its own executor and always there: a machine that is slow because it does other things is not said to
lack one.

Small things together: many chunks, walks or parts in one Spark item.

Problem: a Spark task and a session of a server cost some tens of milliseconds each, a table of ten rows costs one. Ten
thousand such tables would spend their dump and their load on beginnings.

So neighbours are put together until they weigh as much as a quarter of one that is full, or until there are enough of
them that a lost item matters. What is large stays alone, unless the caller lets more be together (`most`). Each member
still is a whole of its own (a file, or a transaction with its record); an item that Spark tries again passes over what
its first attempt has left.
"""

from __future__ import annotations

import gc
import os
import pickle
import secrets
import tempfile
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Generic, Self, TypeVar, cast

from dm import faults
from dm.clock import Clock, SystemClock
from dm.errors import DMError, said

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

_FIRST_POLL_SECONDS = 0.005
_POLL_SECONDS = 0.1
_CANCEL_SECONDS = 8.0
_LARGEST_JOB = 2000  # items of one Spark job: its task list is held in memory on both sides


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """A DMError on its way from a worker to the driver."""

    name: str
    details: dict[str, object]
    position: str | None
    cause: str
    server_errno: int

    @classmethod
    def of(cls, error: DMError) -> TaskFailure:
        """What is left of the error when its traceback stays behind."""
        details = {key: value if isinstance(value, int | float) else str(value) for key, value in error.details.items()}
        return cls(error.name, cast("dict[str, object]", details), error.position, error.cause, error.server_errno)

    def error(self) -> DMError:
        """The error again."""
        failed = DMError(self.name, position=self.position, cause=self.cause, **self.details)
        return failed.numbered(self.server_errno)


_armed_by: str | None = None
_workers_lost = False


def _arm(run: str, armed: str) -> None:
    """Take over the driver's fault points, once per worker process and run."""
    global _armed_by
    if _armed_by != run:
        _armed_by = run
        faults.arm(armed)
        # Spark's daemon has the collector look through everything after each task; what imports left stays anyway.
        gc.freeze()


@dataclass(frozen=True, slots=True)
class Stored(Generic[ItemT, ResultT]):
    """A function in a file, each byte of it hidden by one of the pad: each task reads it for itself, as a closure."""

    path: str
    pad: bytes

    def __call__(self, item: ItemT) -> ResultT:
        written = _hidden(Path(self.path).read_bytes(), self.pad)
        function: Callable[[ItemT], ResultT] = pickle.loads(written)  # noqa: S301 - written below
        return function(item)


def _hidden(data: bytes, pad: bytes) -> bytes:
    """The data with a pad of its length, which a second call takes off again."""
    return (int.from_bytes(data) ^ int.from_bytes(pad)).to_bytes(len(data))


@contextmanager
def reaching_workers(
    context: SparkContext, function: Callable[[ItemT], ResultT]
) -> Iterator[Callable[[ItemT], ResultT]]:
    """The function in the form in which a job's closure may hold it, as long as the job runs."""
    if not _local(context):
        yield function
        return
    from pyspark import cloudpickle

    written: bytes = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
    pad = secrets.token_bytes(len(written))
    directory = context.getConf().get("spark.local.dir", "").partition(",")[0] or None
    descriptor, path = tempfile.mkstemp(prefix="job-", dir=directory)  # a new file that our user alone can open
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(_hidden(written, pad))
        stored: Stored[ItemT, ResultT] = Stored(path, pad)
        yield stored
    finally:
        Path(path).unlink(missing_ok=True)  # the session may have ended, and its directory with it


def _local(context: SparkContext) -> bool:
    return str(context.master).startswith("local")


@dataclass(frozen=True, slots=True)
class ItemOutcome(Generic[ResultT]):
    """What one item came to: a result, or the error that stopped it."""

    result: ResultT | None
    failure: TaskFailure | None = None


class _Worker(Generic[ItemT, ResultT]):
    """The function that Spark calls, with everything it needs inside."""

    def __init__(self, function: Callable[[ItemT], ResultT], run: str, armed: str) -> None:
        self.function = function
        self.run = run
        self.armed = armed

    def __call__(self, item: ItemT) -> ItemOutcome[ResultT]:
        _arm(self.run, self.armed)
        try:
            return ItemOutcome(self.function(item))
        except DMError as error:
            return ItemOutcome(None, TaskFailure.of(error))
        except Exception as error:
            trace = "".join(traceback.format_exception(error))
            return ItemOutcome(
                None, TaskFailure("internal-error", {"what": f"a Spark task failed: {error!r}"}, None, trace, 0)
            )


class _Submission(Generic[ItemT, ResultT]):
    """The threads that submit the jobs of one run, each job after the other, and what was heard of them."""

    def __init__(
        self,
        context: SparkContext,
        worker: _Worker[ItemT, ResultT],
        items: Sequence[ItemT],
        description: str,
        at_once: int | None,
    ) -> None:
        from pyspark import InheritableThread

        self._context = context
        self._worker = worker
        self._description = description
        self._outcomes: Accumulator[list[ItemOutcome[ResultT]]] = _accumulator(context)
        lanes, per_job = _lanes(context, len(items), at_once)
        self._jobs = iter([items[at : at + per_job] for at in range(0, len(items), per_job)])
        self._taking, self._over = threading.Lock(), threading.Event()
        self.broken: list[BaseException] = []
        self._threads = [
            InheritableThread(target=self._submit, name=f"spark-{description}", daemon=True) for _ in range(lanes)
        ]
        for thread in self._threads:
            thread.start()

    def _submit(self) -> None:
        context, outcomes, worker = self._context, self._outcomes, self._worker  # the closure must not hold more
        while not self._over.is_set():
            with self._taking:
                job = next(self._jobs, None)
            if job is None:
                return
            try:
                context.setJobGroup(worker.run, self._description, interruptOnCancel=True)
                context.parallelize(job, len(job)).foreach(lambda item: outcomes.add([worker(item)]))
            except BaseException as error:  # carried to the caller's thread
                self.broken.append(error)
                return

    @property
    def outcomes(self) -> list[ItemOutcome[ResultT]]:
        """Of the items that are done, in the order in which they were heard of."""
        return self._outcomes.value

    @property
    def running(self) -> list[threading.Thread]:
        """The threads that are not at their end."""
        return [thread for thread in self._threads if thread.is_alive()]

    @property
    def over(self) -> bool:
        """Whether it was cancelled."""
        return self._over.is_set()

    def cancel(self) -> None:
        """End what runs and submit nothing more; again and again, a thread may be about to submit its next job."""
        from py4j.protocol import Py4JError

        self._over.set()
        try:
            self._context.cancelJobGroup(self._worker.run)
        except (Py4JError, OSError) as error:
            self.broken.append(error)


def run_tasks(
    context: SparkContext,
    function: Callable[[ItemT], ResultT],
    items: Sequence[ItemT],
    stop: threading.Event,
    done: Callable[[ResultT], None],
    description: str,
    meanwhile: Callable[[], None] = lambda: None,
    *,
    waits: Callable[[str], None] = lambda _: None,
    at_once: int | None = None,
) -> bool:
    """Work through all items; False when `stop` cut it short, DMError when an item failed.

    `meanwhile` is called again and again while the job runs; what it raises ends the job. `waits` hears what the job
    waits for, where no executor takes a task of it, and nothing ("") when one does. With `at_once` never more items
    than that are worked on at the same time, however many cores the master has.
    """
    global _workers_lost
    failure: TaskFailure | None = None
    seen = 0
    cancels_left = int(_CANCEL_SECONDS / _POLL_SECONDS)
    pause = _FIRST_POLL_SECONDS  # short jobs are many, and `meanwhile` may have something to answer at their beginning
    with reaching_workers(context, function) as reaching, ExecutorWatch(context, waits) as watch:
        worker = _Worker(reaching, uuid.uuid4().hex, "" if _workers_lost else os.environ.get("DM_FAULTS", ""))
        submission = _Submission(context, worker, items, description, at_once)
        while True:
            running = submission.running
            arrived = submission.outcomes
            while seen < len(arrived):
                outcome, arrived[seen] = arrived[seen], ItemOutcome(None)  # what was heard need not be kept
                seen += 1
                watch.runs()
                if outcome.failure is not None:
                    failure = failure or outcome.failure
                else:
                    done(cast("ResultT", outcome.result))
            if not running or cancels_left == 0:
                break
            if not submission.over:
                watch.look()
                try:
                    meanwhile()
                except DMError as error:
                    failure = failure or TaskFailure.of(error)
            if failure is not None or submission.broken or stop.is_set():
                cancels_left -= 1
                pause = _POLL_SECONDS
                submission.cancel()
            running[0].join(pause)
            pause = min(_POLL_SECONDS, pause * 1.1)
    if failure is not None:
        raise failure.error()
    if stop.is_set():
        return False
    if seen < len(items):
        _workers_lost = True
        broken = submission.broken
        raise DMError("spark-job-failed", what=description, cause=_first_lines(broken)) from next(iter(broken), None)
    return True


def _accumulator(context: SparkContext) -> Accumulator[list[ItemOutcome[ResultT]]]:
    """What carries the outcomes to the driver while the job runs."""
    from pyspark.accumulators import AccumulatorParam

    class Outcomes(AccumulatorParam[list[ItemOutcome[ResultT]]]):
        def zero(self, value: list[ItemOutcome[ResultT]]) -> list[ItemOutcome[ResultT]]:
            return []

        def addInPlace(  # noqa: N802 - pyspark's name
            self, value1: list[ItemOutcome[ResultT]], value2: list[ItemOutcome[ResultT]]
        ) -> list[ItemOutcome[ResultT]]:
            value1.extend(value2)
            return value1

    return context.accumulator([], Outcomes())


def _lanes(context: SparkContext, items: int, at_once: int | None) -> tuple[int, int]:
    """How many threads submit Spark jobs one after the other, and how many items each of the jobs has.

    One job for everything is the cheapest, but Spark then gives every core it has an item. Where that would be too
    many, each lane submits one item at a time; the cores that stay idle then make up for the cost of a job per item. A
    cluster may get more cores while a job runs, so only a local master is taken at its word.
    """
    cores = context.defaultParallelism if _local(context) else items
    if at_once is None or items <= at_once or cores <= at_once:
        return 1, _LARGEST_JOB
    return at_once, 1


def _first_lines(broken: Sequence[BaseException]) -> str:
    text = "\n".join(map(said, broken))
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    return "\n".join(lines[:12])


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


MOST_MEMBERS: Final = 128
MOST_WEIGHT: Final = 0.25

T = TypeVar("T")


def grouped(weighed: Iterable[tuple[T, float]], *, most: float = MOST_WEIGHT) -> list[tuple[T, ...]]:
    """Neighbours put together, in order; weights are shares of a full chunk or part, as is `most`, for a group."""
    groups: list[tuple[T, ...]] = []
    open_group: list[T] = []
    total = 0.0
    for item, weight in weighed:
        if open_group and (total + weight > most or len(open_group) == MOST_MEMBERS):
            groups.append(tuple(open_group))
            open_group, total = [], 0.0
        open_group.append(item)
        total += weight
    if open_group:
        groups.append(tuple(open_group))
    return groups
