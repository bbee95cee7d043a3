"""The runs that load tables beside a task's stream (`dm.progress.joining`), one per subtask at most.

Nothing of this is in the registry: the row at the target says what is to be done, the stream's status shows it, and so
a daemon that is started anew, or another one, takes it up. What a person wants of the subtask holds for its run, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from dm.unit import JSON
from dm.worker.job import Job

Key = tuple[str, str]
"""Task and source."""


@dataclass(frozen=True, slots=True)
class _Join:
    number: str
    job: Job


class Joins:
    """All of them; belongs to the loop's thread."""

    def __init__(self, make: Callable[[str, str], Job]) -> None:
        self._make = make
        self._all: dict[Key, _Join] = {}

    def jobs(self) -> Iterator[Job]:
        """Those that there are."""
        return (each.job for each in self._all.values())

    def of(self, task: str, source: str) -> Job | None:
        """The one of a subtask."""
        found = self._all.get((task, source))
        return None if found is None else found.job

    def tick(self, subtasks: Mapping[Key, Job]) -> None:
        """Start what the streams' status asks for, end what nobody wants, try again what rests on an error."""
        for key, join in list(self._all.items()):
            main = subtasks.get(key)
            if join.job.subtask.stage == "Stopped":
                del self._all[key]
            elif main is None or main.subtask.intent == "paused" or main.subtask.stage in ("Stopping", "Stopped"):
                join.job.subtask.stop()
            elif join.job.subtask.stage == "Finished" and _number(main) != join.number:
                del self._all[key]
            else:
                join.job.subtask.tick()
        for key, main in subtasks.items():
            if key not in self._all and main.subtask.stage == "Running" and (number := _number(main)):
                self._all[key] = join = _Join(number, self._make(*key))
                join.job.subtask.start()

    def resume(self, task: str, source: str) -> bool:
        """Try again what rests on an error; whether there was something."""
        job = self.of(task, source)
        if job is None or job.subtask.stage != "Paused":
            return False
        job.resume()
        return True

    def report(self, main: Job) -> dict[str, JSON]:
        """What a subtask's status says of it; nothing where nothing is loaded."""
        said = main.status.get("joining") if main.subtask.unit == "Sync" else None
        if main.task is None or not isinstance(said, dict):
            return {}
        job = self.of(main.task, main.source)
        report: dict[str, JSON] = {"kind": said["kind"], "phase": said["phase"], "tables": said["tables"]}
        if job is not None:
            report |= {"stage": job.subtask.stage, "result": job.subtask.result(), **_progress(job.status)}
        return report


def _number(main: Job) -> str:
    said = main.status.get("joining") if main.subtask.unit == "Sync" else None
    return str(said["number"]) if isinstance(said, dict) else ""


_SHOWN = ("unit", "waiting", "progress", "finishedRows", "estimateTotalRows", "etaSeconds", "syncerBinlog")


def _progress(status: Mapping[str, JSON]) -> dict[str, JSON]:
    return {name: status[name] for name in _SHOWN if name in status}
