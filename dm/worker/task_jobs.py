"""The subtasks of a task as a cut-over asks them, lets them rest and go on."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from dm.tools.cutover.machine import NotYet
from dm.worker.job import Job
from dm.worker.verb_work import Means

FRESH_SECONDS: Final = 5.0
_REST_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class TaskJobs:
    """All of one task. Raises DMError where the daemon does not know it."""

    means: Means
    task: str

    def there(self) -> list[Job]:
        """On the loop's thread only."""
        return list(self.means.supervisor.task(self.task).jobs.values())

    def fresh(self) -> list[Job]:
        """With a status as of now, as far as that comes in time."""
        loop = self.means.loop
        asked = loop.call(lambda: [(job, job.refresh()) for job in self.there()])
        loop.wait_until(lambda: all(job.fresh(request) for job, request in asked), FRESH_SECONDS)
        return [job for job, _ in asked]

    def working(self) -> list[str]:
        """The sources on which they run, or would again by themselves."""
        return self.means.loop.call(lambda: sorted(job.source for job in self.there() if _works(job)))

    def rest(self) -> None:
        """Pause them; raises NotYet where they don't come to rest."""
        loop = self.means.loop

        def pause() -> list[Job]:
            jobs = self.there()
            for job in jobs:
                if _works(job):
                    job.subtask.pause()
            return jobs

        jobs = loop.call(pause)
        if not loop.wait_until(lambda: all(job.subtask.is_canceled for job in jobs), _REST_SECONDS):
            raise NotYet(f"{self.task} has not come to rest")

    def go_on(self, paused: Collection[str] | None = None) -> None:
        """Those on these sources run again, or all that rest without an error; raises NotYet while one is pausing."""

        def resume() -> list[str]:
            jobs = [job for job in self.there() if paused is None or job.source in paused]
            for job in jobs:
                if job.subtask.stage == "Paused" and (paused is not None or not job.subtask.errors):
                    job.subtask.resume()
            return [job.source for job in jobs if job.subtask.stage == "Pausing"]

        if pausing := self.means.loop.call(resume):
            raise NotYet(f"{self.task} has not come to rest on {', '.join(pausing)}")


def _works(job: Job) -> bool:
    """One that rests on an error does: auto-resume, or the next daemon, begins it again."""
    return job.subtask.stage == "Running" or (job.subtask.stage == "Paused" and not job.subtask.is_canceled)
