"""A unit host: the process in which units run, each in a thread of its own (`python -m dm.task.host NAME PARENT_PID`).

One process per relay, syncer and validator, per `diff` and `flashback`, per source whose tables join a running task;
and one per task for all its dumps and loads, so that a task has one Spark session.
It talks only to the daemon, over stdin and stdout (dm/task/message.py).

It must never outlive the daemon, or two processes would write one relay directory. Its stdin ends with the daemon,
which stops every unit in order. If the units are too busy to stop, the kernel kills the host when the thread that
started it ends (PR_SET_PDEATHSIG, prctl(2)): one of the daemon, or the fork server's, which ends with the daemon's
(`host_forks.py`). The child sets this signal itself, so it also compares its parent's process id, to notice a parent
that died earlier.

Only events go to the pipe that was stdout: it is moved to another descriptor at once, and descriptor 1 becomes
stderr, so that a library that prints, or a JVM that inherits the descriptors, can't break the protocol.

Sets how often the garbage collector of a unit host looks for cycles.

Problem: rows and events are tuples and bytes without cycles, which reference counts free. But Python's collector counts
containers, not cycles. It runs after 700 new containers, and objects that survive two runs count towards the next full
run, which visits every object of the process. A backlog has hundreds of thousands of rows on their way, each visited
several times before it was freed: a fifth of the work on a row.

So objects left by the imports are frozen, and the collector rests while there are less than a million new containers.
Garbage that only a cycle holds (an error and its frames, say) is collected by the clock: the young generation every
half minute, the next one every tenth time, everything every hundredth time.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import BinaryIO, Final, Protocol, cast

import structlog

from dm.accelerator import switch
from dm.clock import Clock, SystemClock
from dm.errors import DMError, said
from dm.parent_process import die_with
from dm.private_process import keep_to_itself
from dm.task.factories import LOADED_AHEAD
from dm.task.log import LogSettings, configure, keep
from dm.task.message import (
    AskUnit,
    Event,
    KeepLog,
    PrepareUnit,
    RefreshUnit,
    StartUnit,
    StatusInterval,
    StopUnit,
    UnitAnswered,
    UnitFailed,
    UnitFinished,
    UnitPrepared,
    UnitRefreshed,
    UnitStatus,
    UnitStopped,
    decode_command,
    encode,
)
from dm.unit import JSON, Factory, StopSignal, Unit

STOP_SECONDS = 10.0  # what the Unit protocol promises
REFRESH_SECONDS = 4.0  # DM gives a source-level question 5 s
REST_SECONDS = 1.0  # between two looks at units of which there was nothing new
REPEAT_SECONDS = 5.0  # a status that stays as it is is still told, since it says that the unit goes on


class Answering(Protocol):
    """A unit that can be asked for more than its work."""

    def ask(self, question: str, arguments: Mapping[str, JSON]) -> JSON:
        """Do it and say what came of it; raises DMError."""
        ...


class GettingReady(Protocol):
    """A unit that can do a part of its work before its run."""

    def get_ready(self) -> None:
        """Do it; raises DMError."""
        ...


@dataclass
class _UnitRun:
    number: int
    thread: threading.Thread
    stop: StopSignal = field(default_factory=StopSignal)
    unit: Unit | None = None
    made: threading.Event = field(default_factory=threading.Event)  # the unit is there, or will never be
    told: bytes = b""  # the status that the daemon has
    told_at: float = 0.0


class Host:
    """Runs units as told by the lines of `commands`; returns when they end."""

    def __init__(
        self, commands: BinaryIO, events: BinaryIO, factories: Mapping[str, Factory], clock: Clock | None = None
    ) -> None:
        self._commands = commands
        self._events = events
        self._factories = factories
        self._clock = clock or SystemClock()
        self._runs: dict[int, _UnitRun] = {}
        self._lock = threading.Lock()  # of _runs
        self._writing = threading.Lock()
        self._over = threading.Event()
        self._interval = 1.0
        self._log = structlog.get_logger()

    def serve(self) -> bool:
        """Work until the commands end; True if every unit came to rest in time."""
        self._log.info("ready", accelerator=switch.state())
        threading.Thread(target=self._report_regularly, name="status", daemon=True).start()
        for line in self._commands:
            self._obey(line)
        return self.stop_everything()

    def _obey(self, line: bytes) -> None:
        told = decode_command(line)
        self._log.debug("command", kind=type(told).__name__)
        match told:
            case StartUnit() as command:
                thread = threading.Thread(
                    target=self._run, args=(command,), name=f"{command.unit}-{command.run}", daemon=True
                )
                with self._lock:
                    self._runs[command.run] = _UnitRun(command.run, thread)
                thread.start()
            case PrepareUnit() as wanted:
                threading.Thread(target=self._prepare, args=(wanted,), name="prepare", daemon=True).start()
            case StopUnit(number):
                with self._lock:
                    run = self._runs.get(number)
                if run is not None:
                    run.stop.set()
            case RefreshUnit(number, request):
                threading.Thread(target=self._refresh, args=(number, request), name="refresh", daemon=True).start()
            case AskUnit() as asked:
                threading.Thread(target=self._ask, args=(asked,), name="ask", daemon=True).start()
            case StatusInterval(seconds):
                self._interval = seconds
            case KeepLog(path, level, max_size, max_backups):
                keep(Path(path), LogSettings(level, max_size, max_backups))

    def _prepare(self, wanted: PrepareUnit) -> None:
        import_module(LOADED_AHEAD[wanted.unit])
        if wanted.payload is not None:
            try:
                cast("GettingReady", self._factories[wanted.unit](wanted.payload)).get_ready()
            except DMError as error:  # the run itself meets it again, and tells it
                self._log.info("unit is not ready ahead", unit=wanted.unit, error=error)
            except Exception:
                self._log.exception("unit can't get ready", unit=wanted.unit)
        self._emit(UnitPrepared(wanted.unit))

    def _run(self, command: StartUnit) -> None:
        with self._lock:
            run = self._runs[command.run]
        log = self._log.bind(unit=command.unit, run=command.run)
        outcome: Event
        log.info("unit starts")
        try:
            run.unit = self._factories[command.unit](command.payload)
            run.made.set()
            run.unit.run(run.stop)
            outcome = UnitStopped(run.number) if run.stop.is_set() else UnitFinished(run.number)
            log.info("unit ends", outcome=type(outcome).__name__)
        except DMError as error:
            log.warning("unit failed", error=error, exc_info=error)
            outcome = UnitFailed(run.number, error.report(), error.retryable, error.place)
        except Exception as defect:
            log.exception("unit broke")
            broken = _broken(command.unit, defect)
            outcome = UnitFailed(run.number, broken.report(), broken.retryable)
        run.made.set()
        self._report(run, last=True)
        with self._lock:
            del self._runs[run.number]
        self._emit(outcome)

    def _refresh(self, number: int, request: int) -> None:
        with self._lock:
            run = self._runs.get(number)
        if run is not None:
            # A unit that knows of its source only what it asked a moment ago can be told to ask now.
            refresh = getattr(run.unit, "refresh", None)
            if refresh is not None:
                refresh(REFRESH_SECONDS)
            self._report(run)
        self._emit(UnitRefreshed(number, request))

    def _ask(self, command: AskUnit) -> None:
        with self._lock:
            run = self._runs.get(command.run)
        if run is not None:
            run.made.wait(REFRESH_SECONDS)
        unit = None if run is None else run.unit
        if unit is None:
            missing = DMError("unit-not-there", question=command.question)
            self._emit(UnitAnswered(command.run, command.request, None, missing.report()))
            return
        try:
            answer = cast("Answering", unit).ask(command.question, command.arguments)
            self._emit(UnitAnswered(command.run, command.request, answer))
        except DMError as error:
            self._emit(UnitAnswered(command.run, command.request, None, error.report()))
        except Exception as defect:
            self._log.exception("unit could not be asked", question=command.question)
            broken = _broken(command.question, defect)
            self._emit(UnitAnswered(command.run, command.request, None, broken.report()))

    def _report(self, run: _UnitRun, *, last: bool = False) -> bool:
        """Tell how the run goes; False when the daemon knows that already."""
        if run.unit is None:
            return False
        try:
            status = dict(run.unit.status())
        except (
            Exception
        ):  # the work itself goes on; a unit that can't describe itself is a defect to be read in the log
            self._log.exception("unit has no status", run=run.number)
            return False
        line = encode(UnitStatus(run.number, status, last))
        now = self._clock.monotonic()
        with self._writing:
            changed = line != run.told
            if not changed and now - run.told_at < REPEAT_SECONDS:
                return False
            run.told, run.told_at = line, now
            self._write(line)
        return changed

    def _report_regularly(self) -> None:
        pause = self._interval
        collector = Collector(self._clock)
        while not self._clock.wait(self._over, pause):
            collector.pass_by()
            with self._lock:
                runs = list(self._runs.values())
            changed = [self._report(run) for run in runs]
            pause = self._interval if any(changed) else max(self._interval, REST_SECONDS)

    def _emit(self, event: Event) -> None:
        line = encode(event)
        with self._writing:
            self._write(line)

    def _write(self, line: bytes) -> None:
        try:
            self._events.write(line)
            self._events.flush()
        except BrokenPipeError:  # the daemon is gone; the end of stdin says the same, and that one is acted upon
            self._over.set()

    def stop_everything(self) -> bool:
        """Bring every unit to rest; True if all of them did in time."""
        with self._lock:
            runs = list(self._runs.values())
        for run in runs:
            run.stop.set()
        for run in runs:
            run.thread.join(STOP_SECONDS)
        self._over.set()
        return not any(run.thread.is_alive() for run in runs)


def _broken(what: str, defect: Exception) -> DMError:
    """The error for what ended a unit, or a question to it, without being one of dm's."""
    if isinstance(defect, MemoryError):
        return DMError("memory-exhausted", what=what)
    return DMError("internal-error", what=f"{what} ended with {type(defect).__name__}: {said(defect)}")


def main(factories: Mapping[str, Factory], close: Callable[[], None] = lambda: None) -> None:
    """The process: arguments are the host's name and the daemon's process id; `close` runs when all units rest."""
    name, parent = sys.argv[1], int(sys.argv[2])
    die_with(parent)
    keep_to_itself()
    settle()
    work(name, factories, close)


def work(name: str, factories: Mapping[str, Factory], close: Callable[[], None]) -> None:
    """Be the host of this name, in a process that dies with the daemon and is settled; ends the process."""
    events = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    configure(host=name)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: the loop below ends, the units stop in order
    host = Host(sys.stdin.buffer, events, factories)
    at_rest = False
    try:
        at_rest = host.serve()
    except KeyboardInterrupt:
        at_rest = host.stop_everything()
    finally:
        close()
        sys.stderr.flush()
        os._exit(0 if at_rest else 1)  # a unit's thread that did not come to rest must not keep the process


_M_TRIM_THRESHOLD: Final = -1  # malloc.h
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_HEAPS: Final = 2
# A piece of so many bytes is the system's own and goes back when it is freed, as so many at the end of a heap do: what
# the library begins with, before the large pieces that the imports freed.
_LARGE: Final = 128 << 10


def settle() -> None:
    """Set heap and collector of this process, and of those forked from it.

    Called once, when everything is imported and before there are threads. A forked host must not call it again: the
    collector writes to each object it visits, and the host would get copies of the pages that it shares.
    """
    _settle_heap()
    _settle_garbage()


def _settle_heap() -> None:
    """Set the heap.

    The GNU C library gives each of the first threads that allocate a heap of its own (eight for each processor), and
    heaps don't share free memory: with twenty threads that take turns, the peaks of all of them add up. Also, each
    large piece that is freed raises the size up to which later pieces come from such a heap, and there a small piece
    after it keeps all of it from returning to the system. More than a tenth of `memory-quota` was held that way,
    unused.

    Nearly all allocations happen under the interpreter's lock, so two heaps are enough. Another C library lacks these
    settings and does not need them.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_ARENA_MAX, _HEAPS)
        library.mallopt(_M_MMAP_THRESHOLD, _LARGE)
        library.mallopt(_M_TRIM_THRESHOLD, _LARGE)
    _give_back()


def _give_back() -> None:
    """Return to the system what was freed between pieces that are kept, such as by imports or by a unit's start."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)


_YOUNG: Final = 1_000_000  # containers more than before, after which the young are looked at without the clock
_OLDER: Final = 10  # collections of one generation to one of the next
_PAUSE_SECONDS: Final = 30.0


def _settle_garbage() -> None:
    """Set the collector."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _OLDER, _OLDER)


class Collector:
    """Looks for cycles when it is time to, and gives back what is free."""

    def __init__(self, clock: Clock, give_back: Callable[[], None] = _give_back) -> None:
        self._clock, self._give_back = clock, give_back
        self._due = clock.monotonic() + _PAUSE_SECONDS
        self._times = 0

    def pass_by(self) -> None:
        """Collect, if it is time to; whoever has a loop calls this in it."""
        now = self._clock.monotonic()
        if now < self._due:
            return
        self._due = now + _PAUSE_SECONDS
        self._times += 1
        gc.collect(2 if self._times % _OLDER**2 == 0 else 1 if self._times % _OLDER == 0 else 0)
        if self._times == 1 or self._times % _OLDER == 0:  # the start is over by then; pages that are used return soon
            self._give_back()


if __name__ == "__main__":
    from dm.task.factories import Factories

    main(*Factories().parts())
