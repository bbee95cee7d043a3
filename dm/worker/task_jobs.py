"""The subtasks of a task as a cut-over asks them, lets them rest and go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dm.tools.cutover.machine import NotYet
from dm.worker.job import Job
from dm.worker.work import Means

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

    def rest(self) -> None:
        """Pause them; raises NotYet where they don't come to rest."""
        loop = self.means.loop

        def pause() -> list[Job]:
            jobs = self.there()
            for job in jobs:
                if job.subtask.stage == "Running":
                    job.subtask.pause()
            return jobs

        jobs = loop.call(pause)
        if not loop.wait_until(lambda: all(job.subtask.stage == "Paused" for job in jobs), _REST_SECONDS):
            raise NotYet(f"{self.task} has not come to rest")

    def go_on(self) -> None:
        """What rests without an error runs again; what a person has stopped stays so."""

        def resume() -> None:
            for job in self.there():
                if job.subtask.stage == "Paused" and not job.subtask.errors:
                    job.subtask.resume()

        self.means.loop.call(resume)
