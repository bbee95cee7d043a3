"""A task that is about to start: Spark's session for it, and a target that does not answer.

**Spark's session** is made while the checks run. It belongs to the process of the task's dumps and loads
(`dm.spark.session`); that process is started a few seconds earlier, and not at all where a syncer will go on from its
checkpoint. A cluster is asked for nothing before the checks are done. If they fail, the process ends, and nothing of it
stays behind.

**A target that does not answer**: the prechecks find that and refuse. Who leaves them out (`ignore-checking-items:
[all]`) starts tasks by a script, and expects what DM does: the task is there, and goes on by itself once the target
answers. Two things are asked of the target before a task begins, whether a run of it is open elsewhere and where it
goes on. Without an answer neither is guessed:

- The task's hold stays as it was made: it needs all of the relay's files (dm/sourcelog/relaylog/hold.py). So the relay
  purges nothing and passes over no gap until the run has read the task's place and stores its first checkpoint.
- Another daemon's run of the task is ended by this one's, as whenever two daemons run one task; neither loses anything,
  since the rows of progress tell each whether it may commit.

What needs the target now, to forget progress or to set a place, still fails.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import structlog

from dm.config import SubtaskConfig, TaskConfig
from dm.errors import DMError, ErrorReport
from dm.task.payload import SCRATCH, UnitPayload
from dm.task.subtask import UNITS_OF_MODE
from dm.unit import JSON
from dm.worker.hosts import PATIENCE_SECONDS, spark_host
from dm.worker.loop import Loop
from dm.worker.supervisor import Supervisor

_GONE_SECONDS: Final = 2 * PATIENCE_SECONDS  # to end its run, and to end the process


class _Listener:
    """What becomes of it concerns nobody: a unit that needs the session starts it itself."""

    def __init__(self, task: str) -> None:
        self._log = structlog.get_logger(task=task)

    def unit_status(self, status: Mapping[str, JSON], *, last: bool) -> None:
        pass

    def unit_refreshed(self, request: int) -> None:
        pass

    def unit_answered(self, request: int, answer: JSON, report: ErrorReport | None) -> None:
        pass

    def unit_finished(self) -> None:
        pass

    def unit_stopped(self) -> None:
        pass

    def unit_failed(
        self, report: ErrorReport, *, retryable: bool, place: Mapping[str, str | int | bool] | None = None
    ) -> None:
        self._log.info("no head start of Spark", error=report["Message"])


class _Ahead:
    """One session on its way; all but `ask` on the loop's thread."""

    def __init__(self, loop: Loop, supervisor: Supervisor, subtasks: Sequence[SubtaskConfig]) -> None:
        self._loop = loop
        self._supervisor = supervisor
        self._subtasks = subtasks
        self._run: int | None = None
        self._over = False

    def ask(self, *, anew: bool) -> None:
        """Start the session if one of the subtasks is to dump or load; a target may take its time to tell."""
        try:
            if anew or any(self._supervisor.first_unit(each) in ("Dump", "Load") for each in self._subtasks):
                self._loop.post(self._launch)
        except DMError as error:  # which the checks report
            structlog.get_logger().info("no head start of Spark", error=error)

    def _launch(self) -> None:
        config, hosts = self._subtasks[0], self._supervisor.hosts
        if self._over or hosts.there(spark_host(config.task)):  # another source's load has the session already
            return
        work: Path = self._supervisor.home.work / config.task
        payload = UnitPayload(config, None, work).to_wire()
        try:
            self._run = hosts.launch(spark_host(config.task), "Spark", payload, _Listener(config.task))
        except OSError as error:  # no room for its log, or for a process: the first unit says so
            structlog.get_logger().info("no head start of Spark", error=error)

    def end(self) -> None:
        """Launch nothing more."""
        self._over = True

    def give_up(self) -> bool:
        """End what was launched; False if there is nothing to end."""
        self._over = True
        if self._run is not None:
            self._supervisor.hosts.halt(self._run)
        return self._run is not None

    def clear(self) -> None:
        """Remove the session's directories when its process is gone; the task's own has other things, where it ran."""
        task = self._subtasks[0].task
        work = self._supervisor.home.work / task
        if self._supervisor.hosts.there(spark_host(task)):
            return
        shutil.rmtree(work / SCRATCH, ignore_errors=True)  # empty but for what a killed process left
        with suppress(OSError):
            work.rmdir()


@contextmanager
def spark_ahead(
    loop: Loop, supervisor: Supervisor, config: TaskConfig, sources: Sequence[str], *, anew: bool
) -> Iterator[None]:
    """Inside, the session starts; it is given up where the block raises."""
    subtasks = [config.subtask(source) for source in sources]
    local = all(each.spark.master_for(each.dumper.threads).startswith("local") for each in subtasks)
    if UNITS_OF_MODE[config.task_mode][0] == "Sync" or not local:
        yield
        return
    ahead = _Ahead(loop, supervisor, subtasks)
    threading.Thread(target=lambda: ahead.ask(anew=anew), name=f"spark ahead {config.name}", daemon=True).start()
    try:
        yield
    except BaseException:
        if loop.call(ahead.give_up):
            loop.wait_until(lambda: not supervisor.hosts.there(spark_host(config.name)), _GONE_SECONDS)
            loop.call(ahead.clear)
        raise
    loop.call(ahead.end)


def unanswered(
    ask: Callable[[SubtaskConfig], None], subtasks: Mapping[str, SubtaskConfig], *, needed: bool
) -> dict[str, str]:
    """Ask for each source's subtask; a warning for those whose target does not answer. Raises DMError if `needed`."""
    silent: dict[str, str] = {}
    for source, subtask in subtasks.items():
        try:
            ask(subtask)
        except DMError as error:
            answered = error.kind.error_class != "database" or error.scope != "downstream"  # another daemon's run
            if needed or answered or not error.retryable:
                raise
            silent[source] = (
                f"{error.message}: so nobody knows where source {source} goes on, and its relay keeps all its files"
                " until the target answers; the task tries again by itself"
            )
    return silent
