"""`dmctl cut-over`: what it is checked for, and who drives it."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace
from typing import Final, cast

from dm.errors import DMError
from dm.tools.cutover import source as at_source
from dm.tools.cutover.driver import Driver
from dm.tools.cutover.machine import UNDOABLE, CutOverState
from dm.tools.cutover.record import CutOverRow
from dm.tools.cutover.source import Finding
from dm.unit import JSON
from dm.verbs import cutover as declared
from dm.verbs.cutover import demand_prove
from dm.verbs.tasks import StopTask
from dm.worker.cutover_servers import TaskServers
from dm.worker.job import Job
from dm.worker.verbs.tasks import TaskVerbs
from dm.worker.work import Answer, Means, VerbWork, does

_ABORT_SECONDS: Final = 30.0


class CutOverVerbs(VerbWork):
    """Check, begin, tell, abort and complete."""

    def __init__(self, means: Means, tasks: TaskVerbs) -> None:
        super().__init__(means)
        self._tasks = tasks
        self._all = means.cut_overs

    @does(declared.CheckCutOver)
    def check(self, asked: declared.CheckCutOver) -> Answer:
        """What is in the way; changes nothing."""
        found = self._findings(asked.task, asked.max_lag, asked.hook)
        ready = not any(each.stops for each in found)
        return {"task": asked.task, "ready": ready, "findings": [cast(JSON, asdict(each)) for each in found]}

    @does(declared.BeginCutOver)
    def begin(self, asked: declared.BeginCutOver) -> Answer:
        """It answers when the first state is stored; a thread goes on."""
        demand_prove(asked.prove)
        with self._exclusion.tasks(asked.task):
            row = self._row(asked.task)
            known = row.read()
            if known is not None and known.state == "switching" and known.failed:
                self._go_on(row, known, asked.hook)
            else:
                stops = [each for each in self._findings(asked.task, asked.max_lag, asked.hook) if each.stops]
                if stops:
                    findings = "; ".join(f"{each.where}: {each.says}" for each in stops)
                    raise DMError("cut-over-not-ready", task=asked.task, findings=findings)
                before = {
                    one.source_id: at_source.modes(one) for one in TaskServers(self._means, asked.task).subtasks()
                }
                now = time.time()
                first = CutOverState(
                    "fencing", asked.prove, asked.hook, now + asked.timeout, before, times={"fencing": now}
                )
                self._all.note(asked.task)
                try:
                    row.begin(first)
                except DMError as error:
                    if error.name == "cut-over-under-way" and self._all.driver(asked.task) is None:
                        self._all.forget(asked.task)  # another daemon's, which goes on with it
                    raise
            self._all.drive(self.driver(asked.task))
        return self._told(asked.task, row.read())

    @does(declared.CutOverStatus)
    def status(self, asked: declared.CutOverStatus) -> Answer:
        """As the row has it."""
        return self._told(asked.task, self._row(asked.task).read())

    @does(declared.AbortCutOver)
    def abort(self, asked: declared.AbortCutOver) -> Answer:
        """It answers when the sources take writes again, or when that takes long."""
        with self._exclusion.tasks(asked.task):
            row = self._row(asked.task)
            self._demand(asked.task, row.read(), "only undoes", "not at its switch yet", {*UNDOABLE, "aborting"})
            known = row.read()
            if known is not None and known.failed:
                self._go_on(row, known, asked.hook)
            driver = self._all.driver(asked.task)
            if driver is None:
                self._all.note(asked.task)
                driver = self.driver(asked.task)
                driver.abort()
                self._all.drive(driver)
            else:
                driver.abort()
            self._all.wait(asked.task, _ABORT_SECONDS)
            found = row.read()
            self._demand(asked.task, found, "only undoes", "not at its switch yet", {"aborting", "aborted"})
        return self._told(asked.task, found)

    @does(declared.CompleteCutOver)
    def complete(self, asked: declared.CompleteCutOver) -> Answer:
        """The task is stopped; what stays is listed."""
        with self._exclusion.tasks(asked.task):
            row, states = self._row(asked.task), {"switched", "aborting"}
            if self._all.driver(asked.task) is None:
                states.add("switching")  # its hook failed, and a person has done the rest
            found = row.read()
            self._demand(asked.task, found, "only ends", "switched", states)
            assert found is not None
            driver = self._all.driver(asked.task)
            if driver is not None:  # a source can't be opened again, and a person gives it up
                driver.stop()
                self._all.wait(asked.task, _ABORT_SECONDS)
            epoch = row.take_over()
            assert epoch is not None
            sources = list(found.before)
            self._tasks.stop_task(StopTask(task=asked.task))
            done = replace(found, state="complete", times={**found.times, "complete": time.time()})
            row.write(epoch, done)
            self._all.forget(asked.task)
        stays = "which may be closed to writes" if found.state == "aborting" else "closed to writes"
        left = [f"source {name} stays as it is, {stays}" for name in sources]
        left.append(f"the progress of {asked.task} stays at the target: `dmctl forgotten list --file <its file>`")
        return {"task": asked.task, "driven": False, "problem": "", "left": [*left], **_state(done)}

    def _go_on(self, row: CutOverRow, known: CutOverState, hook: str) -> None:
        """Its hook failed: it is to be called again, or another one in its place."""
        epoch = row.take_over()
        assert epoch is not None
        row.write(epoch, replace(known, failed="", hook=hook or known.hook))

    def driver(self, task: str) -> Driver:
        """Who goes on with the cut-over of a task."""
        on = TaskServers(self._means, task)
        on.driver = Driver(task, lambda: self._row(task), on, self._supervisor.clock)
        return on.driver

    def _demand(self, task: str, found: CutOverState | None, what: str, wanted: str, states: set[str]) -> None:
        if found is None or found.state not in states:
            state = "none" if found is None else f"one that is {found.state}"
            raise DMError("cut-over-none", task=task, what=f"this {what}", wanted=wanted, found=state)

    def _row(self, task: str) -> CutOverRow:
        return CutOverRow(TaskServers(self._means, task).subtasks()[0])

    def _told(self, task: str, found: CutOverState | None) -> Answer:
        driver = self._all.driver(task)
        problem = str(self._all.told(task).get("problem", ""))
        return {"task": task, "driven": driver is not None, "problem": problem, "left": [], **_state(found)}

    def _findings(self, task: str, max_lag: float, hook: str) -> list[Finding]:
        """Everything at once."""
        servers = TaskServers(self._means, task)
        subtasks = servers.subtasks()
        found = [each for one in servers.fresh_jobs() for each in self._of_job(one, max_lag)]
        missing = {one.source_id for one in subtasks} - self._loop.call(lambda: set(self._supervisor.task(task).jobs))
        found += [
            Finding(f"source {name}", f"task {task} does not run there", "dmctl start-task <its file>")
            for name in sorted(missing)
        ]
        for one in subtasks:
            try:
                found += at_source.findings(one, fences=not hook)
            except DMError as error:
                found.append(Finding(f"source {one.source_id}", error.message, error.workaround))
        return found

    def _of_job(self, job: Job, max_lag: float) -> list[Finding]:
        def look() -> list[Finding]:
            subtask, where, task = job.subtask, f"source {job.source}", job.task
            if (subtask.stage, subtask.unit) != ("Running", "Sync"):
                says = f"{task} is {subtask.stage} {subtask.unit or ''}".strip()
                return [Finding(where, says, f"dmctl query-status {task}")]
            found, status = [], job.status
            lag = status.get("secondsBehindMaster")
            if not isinstance(lag, int | float) or lag > max_lag:
                behind = "nobody knows how far" if lag is None else f"{lag} s"
                found.append(Finding(where, f"{task} is behind: {behind}", f"dmctl wait {task} --synced"))
            if status.get("unresolvedDDLLockID"):
                lock = status["unresolvedDDLLockID"]
                found.append(Finding(where, f"a DDL waits for other shards: {lock}", "dmctl shard-ddl-lock"))
            if status.get("joining"):
                says = "tables are loaded beside the stream"
                found.append(Finding(where, says, f"dmctl query-status {task} --follow"))
            validation = self._supervisor.validators.status(str(task), job.source)
            if validation is not None and validation.get("newErrors"):
                says = f"the validator has {validation['newErrors']} errors"
                found.append(Finding(where, says, f"dmctl validation show-error {task}"))
            return found

        return self._loop.call(look)


def _state(found: CutOverState | None) -> dict[str, JSON]:
    return {
        "state": "none" if found is None else found.state,
        "cutOver": {} if found is None else json.loads(found.to_json()),
    }
