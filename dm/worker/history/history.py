"""Writes the timeline and the curves from what the supervisor sees; knows when each subtask had caught up last.

The supervisor tells of each change of a stage and of each status (`stage`, `heard`), on its loop's thread. The audit
log tells of verbs. A thread of its own adds a point to each curve every two minutes. It asks no server: it takes what
the units have said by themselves, at most five seconds ago.

A task that tries again and again must not fill the timeline: an error is told once until the task has worked for a
while (SETTLED_SECONDS), or has another error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, cast

from dm.clock import Clock
from dm.errors import CATALOGUE
from dm.errors.without_values import message_without_values, without_literals
from dm.task.subtask import JOIN_UNITS
from dm.unit import JSON
from dm.worker.history.curves import SLOT_SECONDS, Curves, Name
from dm.worker.history.timeline import Kind, Timeline
from dm.worker.job import SETTLED_SECONDS, Job

DEFAULT_BYTES: Final = 16 << 20  # of both files together
LEAST_BYTES: Final = 1 << 20
_KILLED: Final = CATALOGUE["host-died"].code
_STARTED: Final = "dm-worker started"

Values = Mapping[Name, tuple[float | None, float | None]]
"""Lag and rate of each subtask."""


class History:
    """What happened to the subtasks and relays of one daemon."""

    def __init__(self, directory: Path, clock: Clock, most_bytes: int = DEFAULT_BYTES) -> None:
        self._clock = clock
        self.timeline = Timeline(directory / "timeline.jsonl", clock, most_bytes // 2)
        self.curves = Curves(directory / "curves", clock, most_bytes // 2)
        self._failing: dict[tuple[str, str, bool], int] = {}  # the error that was told last
        self._told_ddl: dict[Name, tuple[int | None, int]] = {}  # run, and number of its last statement
        self._caught_up: dict[Name, float] = {}
        self._rows: dict[Name, tuple[int | None, float, float]] = {}  # run, when, how many
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def bound(self, most_bytes: int) -> None:
        """From now on both files together have at most this size."""
        self.timeline.bound(most_bytes // 2)
        self.curves.bound(most_bytes // 2)

    def start(self, version: str, look: Callable[[], Values]) -> None:
        """The daemon works: begin to add points; `look` gives `values` from the supervisor's thread."""
        daemons = self.timeline.newest(1, lambda one: one.kind in ("daemon", "kill") and not one.task + one.source)
        if daemons and daemons[0].text.startswith(_STARTED):
            self.timeline.add("kill", "dm-worker had ended without a word: it was killed, or the host went down")
        self.timeline.add("daemon", f"{_STARTED}, version {version}")
        self._thread = threading.Thread(target=self._run, args=(look,), name="history", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """The daemon ends."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self.timeline.add("daemon", "dm-worker ended")

    def caught_up(self, task: str, source: str) -> float | None:
        """When the subtask had applied all that its source had, last; None where this daemon has not seen it."""
        return self._caught_up.get((task, source))

    # what the supervisor and the audit log tell

    def stage(self, job: Job) -> None:
        """The stage of a subtask or relay has changed."""
        if self._stop.is_set():
            return  # it comes to rest with the daemon
        subtask = job.subtask
        named = {"task": job.task or "", "source": job.source}
        what: str = subtask.unit or "it"
        if subtask.units == JOIN_UNITS:
            what = "the load of tables that join"
        key = (job.task or "", job.source, subtask.units == JOIN_UNITS)
        if subtask.stage == "Running" and subtask.unit is not None and not subtask.attempts:
            self._failing.pop(key, None)
            self.timeline.add("start", f"{what} starts", **named)
        elif subtask.stage == "Paused" and subtask.errors:
            error = subtask.errors[0]
            code = int(error["ErrCode"])
            if self._failing.get(key) != code:
                self._failing[key] = code
                kind: Kind = "kill" if code == _KILLED else "error"
                self.timeline.add(kind, f"{what} rests: {message_without_values(error)}", code=code, **named)
        elif subtask.stage == "Paused":
            self.timeline.add("pause", f"{what} rests", **named)
        elif subtask.stage in ("Stopped", "Finished"):
            self._failing.pop(key, None)
            word = "is stopped" if subtask.stage == "Stopped" else "has finished"
            self.timeline.add("end", f"{what} {word}{f': {subtask.detail}' if subtask.detail else ''}", **named)

    def heard(self, job: Job) -> None:
        """The unit has said something."""
        if job.status.get("synced") and job.task is not None:
            self._caught_up[job.task, job.source] = self._clock.time()
        key = (job.task or "", job.source, job.subtask.units == JOIN_UNITS)
        worked = self._clock.monotonic() - job.began
        if key in self._failing and job.subtask.stage == "Running" and worked >= SETTLED_SECONDS:
            del self._failing[key]
            self.timeline.add("start", "works again", task=key[0], source=key[1])
        recent = job.status.get("recentDDLs")
        if recent and isinstance(recent, list):
            self._tell_ddl(job, cast("list[dict[str, JSON]]", recent))

    def _tell_ddl(self, job: Job, recent: list[dict[str, JSON]]) -> None:
        name = (job.task or "", job.source)
        run, last = self._told_ddl.get(name, (None, 0))
        if run != job.host_run:
            last = 0
        new = [each for each in recent if int(str(each["number"])) > last]
        if not new:
            return
        left_out = int(str(new[0]["number"])) - last - 1
        if left_out:
            self.timeline.add("ddl", f"{left_out} more DDL statements", task=name[0], source=name[1])
        for each in new:
            text = f"{without_literals(str(each['text']))} ({float(str(each['seconds'])):.1f} s)"
            self.timeline.add("ddl", text, task=name[0], source=name[1])
        self._told_ddl[name] = job.host_run, int(str(new[-1]["number"]))

    def verb(self, who: str, verb: str, status: int, code: int | None, named: Mapping[str, str]) -> None:
        """Somebody has asked for a change, and was answered."""
        text = verb if status < 400 else f"{verb}: refused"
        self.timeline.add("verb", text, who=who, code=code or 0, **named)

    # the curves

    def _run(self, look: Callable[[], Values]) -> None:
        while not self._clock.wait(self._stop, SLOT_SECONDS):
            self.curves.feed(look())

    def values(self, jobs: Mapping[Name, Job]) -> Values:
        """What is added for each subtask, from what its unit has said."""
        now = self._clock.monotonic()
        known: dict[Name, object]
        for known in (self._caught_up, self._rows, self._told_ddl):  # type: ignore[assignment]  # keys alone matter
            for name in known.keys() - jobs.keys():
                del known[name]
        return {name: (_lag(job), self._rate(name, job, now)) for name, job in jobs.items()}

    def _rate(self, name: Name, job: Job, now: float) -> float | None:
        """Rows per second since the last point; None where the run was another one."""
        rows = job.status.get("totalRows" if job.subtask.unit == "Sync" else "finishedRows")
        before = self._rows.pop(name, None)
        if job.host_run is None:
            return 0.0
        if rows is None or isinstance(rows, bool):
            return None
        count = float(str(rows))
        self._rows[name] = job.host_run, now, count
        if before is None or before[0] != job.host_run or count < before[2] or now <= before[1]:
            return None
        return (count - before[2]) / (now - before[1])


def _lag(job: Job) -> float | None:
    """As the unit has said it, and growing since its end."""
    lag = job.words.now(current=job.host_run is not None).get("secondsBehindMaster")
    return float(lag) if isinstance(lag, int | float) and job.subtask.unit == "Sync" else None
