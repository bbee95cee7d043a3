"""`dmctl cut-over`: what it is checked for, and who drives it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final, cast

from dm.errors import DMError
from dm.ident import TableName
from dm.tools.cutover import source as at_source
from dm.tools.cutover.ahead import counter_findings, proof_findings, told_seconds
from dm.tools.cutover.driver import Driver
from dm.tools.cutover.findings import Finding, findings
from dm.tools.cutover.machine import OVER, UNDOABLE, CutOverState, WayBackTask, given
from dm.tools.cutover.record import CutOverRow
from dm.unit import JSON
from dm.verbs import cutover as declared
from dm.verbs.cutover import demand_prove
from dm.verbs.tasks import StopTask
from dm.worker import cutover_objects
from dm.worker.cutover_servers import TaskServers, subtasks_of, told_ends
from dm.worker.job import Job
from dm.worker.task_jobs import TaskJobs
from dm.worker.verb_work import Answer, Means, VerbWork, does
from dm.worker.verbs.tasks import TaskVerbs
from dm.worker.way_back import WayBack

_ABORT_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class _First:
    """A cut-over that is about to begin."""

    task: str
    number: int
    way_back: WayBackTask | None
    opens: Mapping[str, str] = field(default_factory=dict)

    def not_ready(self, stops: Sequence[Finding]) -> DMError:
        """The error that names what stops it."""
        findings = "; ".join(f"{each.where}: {each.says}" for each in stops)
        asked = given(self.task, self.way_back, self.opens)
        return DMError("cut-over-not-ready", task=self.task, given=asked, findings=findings)


@dataclass(frozen=True, slots=True)
class _Foreseen:
    """What is to be known before a cut-over."""

    findings: list[Finding]
    files: list[JSON]  # of the way back
    acts: bool = False  # triggers or events come with the switch


class CutOverVerbs(VerbWork):
    """Check, begin, tell, abort and complete."""

    def __init__(self, means: Means) -> None:
        super().__init__(means)
        self._tasks = TaskVerbs(means)
        self._all = means.cut_overs

    @does(declared.CheckCutOver)
    def check(self, asked: declared.CheckCutOver) -> Answer:
        """What is in the way; changes nothing."""
        first = self._first(asked.task, back=asked.back, way_back=asked.way_back)
        demand_prove(asked.prove)
        found = self._findings(first, asked)
        ready = not any(each.stops for each in found.findings)
        if ready and asked.prove == "full":
            seconds = self._servers_of(first.task).seconds_of_all()
            found.findings.append(told_seconds(seconds, asked.prove))
        return {
            "task": first.task, "ready": ready, "findings": [cast(JSON, asdict(each)) for each in found.findings],
            "files": found.files,
        }  # fmt: skip

    @does(declared.BeginCutOver)
    def begin(self, asked: declared.BeginCutOver) -> Answer:
        """It answers when the first state is stored; a thread goes on."""
        demand_prove(asked.prove)
        with self._exclusion.tasks(asked.task):
            task, known = self._current(asked.task)
            if known is not None and known.state == "switching" and known.failed:
                given = {"waive": asked.waive, "acts_twice": asked.acts_twice, "definers": asked.definers}
                self._go_on(task, known.again(hook=asked.hook, **given))
            else:
                task = self._begin(asked)
            self._all.drive(self.driver(task))
        return self._told(task)

    def _begin(self, asked: declared.BeginCutOver) -> str:
        """Store the first state; gives the task that is cut over."""
        first = self._first(asked.task, back=asked.back, way_back=asked.way_back)
        known = self._findings(first, asked)
        stops = [each for each in known.findings if each.stops]
        if stops:
            raise first.not_ready(stops)
        with self._all.beginning:
            self._demand_servers_free(first)
            return self._store(first, asked, acts=known.acts)

    def _store(self, first: _First, asked: declared.BeginCutOver, *, acts: bool) -> str:
        before = {one.source_id: at_source.modes(one) for one in subtasks_of(self._means, first.task)}
        now = self._supervisor.clock.time()
        state = CutOverState(
            "comparing", asked.prove, asked.hook, now + asked.timeout, before, times={"comparing": now},
            number=first.number, way_back=first.way_back, opens=first.opens, patience=asked.timeout,
            acts=acts, waived=asked.waive, acts_twice=asked.acts_twice, definers=asked.definers,
        )  # fmt: skip
        noted = first.task in self._all.noted()
        self._all.note(first.task)
        try:
            self._row(first.task).begin(state)
        except DMError:
            if not noted:  # another daemon's, which goes on with it; or nobody's, and `--abort` ends what was stored
                self._all.forget(first.task)
            raise
        return first.task

    def _first(self, task: str, *, back: bool, way_back: bool) -> _First:
        """What is cut over, and which task goes the way back; raises DMError where it is not the time for that."""
        current, known = self._current(task)
        if current != task and known is not None and known.state not in OVER:
            if known.state != "switched":
                raise DMError("cut-over-under-way", task=current, state=known.state)
            if known.way_back is not None and known.way_back.source:  # which made this task
                raise DMError("cut-over-is-return", task=task, of=current)
        if back:
            self._demand(task, known, "only returns from", "switched and has a way back", {"switched"})
        elif current == task or known is None or known.state != "switched":
            made = self._way_back(task).named() if way_back else None
            return _First(task, 1 if known is None else known.number + 1, made)
        assert known is not None
        if known.way_back is None or (back and current != task):
            raise DMError(
                "cut-over-none", task=task, what="this only returns from", wanted="switched and has a way back",
                found="none" if current == task else "returned already",
            )  # fmt: skip
        (opens,) = known.before.values()
        made_source = "" if known.way_back.source else self._way_back(known.way_back.task).named().source
        return _First(known.way_back.task, known.number + 1, WayBackTask(current, made_source, kept=True), opens)

    def _current(self, task: str, *, aborted: bool = False) -> tuple[str, CutOverState | None]:
        """Of the task and the one in its other direction, the one that was cut over last; `aborted` ones count, too."""
        on = subtasks_of(self._means, task)[0]
        known = CutOverRow(on).read()
        other = on.opposite if known is None or known.way_back is None else known.way_back.task
        if other and self._loop.call(lambda: other in self._supervisor.tasks):
            try:
                later = self._row(other).read()
            except DMError:
                # The other server may be dead for good. A return that has switched would have ended this one.
                if known is None or known.state in OVER or other in self._all.noted():
                    raise
                return task, known
            if known is None and (later is None or later.way_back is None or later.way_back.task != task):
                return task, None
            of_pair = [(name, state) for name, state in ((task, known), (other, later)) if state is not None]
            counted = [each for each in of_pair if aborted or each[1].state != "aborted"]
            return max(counted, key=lambda each: each[1].number, default=(task, known))
        return task, known

    @does(declared.CutOverStatus)
    def status(self, asked: declared.CutOverStatus) -> Answer:
        """As the row has it. While the task's own is driven here, asking often costs the target nothing."""
        driven = self._all.driver(asked.task) is not None
        return self._told(asked.task if driven else self._current(asked.task, aborted=True)[0])

    @does(declared.AbortCutOver)
    def abort(self, asked: declared.AbortCutOver) -> Answer:
        """It answers when the sources take writes again, or when that takes long."""
        with self._exclusion.tasks(asked.task):
            task, known = self._current(asked.task, aborted=True)
            self._demand(task, known, "only undoes", "not at its switch yet", {*UNDOABLE, "aborting"})
            if known is not None and known.failed:
                self._go_on(task, known.again(hook=asked.hook))
            driver = self._all.driver(task)
            if driver is None:
                self._all.note(task)
                driver = self.driver(task)
                driver.abort()
                self._all.drive(driver)
            else:
                driver.abort()
            self._all.wait(task, _ABORT_SECONDS)
            found = self._row(task).read()
            self._demand(task, found, "only undoes", "not at its switch yet", {"aborting", "aborted"})
        return self._told(task)

    @does(declared.CompleteCutOver)
    def complete(self, asked: declared.CompleteCutOver) -> Answer:
        """The task is stopped; what stays is listed."""
        with self._exclusion.tasks(asked.task):
            (task, found), states = self._current(asked.task, aborted=True), {"switched", "aborting"}
            if found is not None and found.state == "aborted":  # it was not the last
                task, found = self._current(asked.task)
            if self._all.driver(task) is None:
                states.add("switching")  # its hook failed, and a person has done the rest
            self._demand(task, found, "only ends", "switched", states)
            assert found is not None
            driver = self._all.driver(task)
            if driver is not None:  # a source can't be opened again, and a person gives it up
                driver.stop()
                self._all.wait(task, _ABORT_SECONDS)
            row = self._row(task)
            epoch = row.take_over()
            assert epoch is not None
            before, found = found.state, row.owned(epoch)  # the driver may have come to an end meanwhile
            self._demand(task, found, "only ends", before, {before})
            left = self._end(task, found)
            now = self._supervisor.clock.time()
            done = replace(found, state="complete", times={**found.times, "complete": now})
            row.write(epoch, done)
            self._all.forget(task)
        return {"task": task, "driven": False, "problem": "", "left": [*left], **_state(done)}

    def _end(self, task: str, found: CutOverState) -> list[str]:
        """Stop what is not needed any more; gives what stays."""
        way_back = found.way_back
        given_up = found.state == "aborting"
        if way_back is not None and way_back.kept and not way_back.source and not given_up:  # they have returned
            self._way_back(task).complete_kept(found)
            made = self._way_back(way_back.task)
            made.stop(task, made.named().source)
            left = [f"task {way_back.task} goes on: the target follows again", f"the progress of {task} stays"]
            if not found.by_hook:
                left.append("the target stays closed to writes of applications: `SET GLOBAL read_only = OFF` opens it")
            return left
        if way_back is not None:
            self._way_back(task).stop(way_back.task, way_back.source)
        self._tasks.stop_task(StopTask(task=task))  # last: without it, its row can't be found any more
        stays = "which may be closed to writes" if given_up else "closed to writes"
        left = [f"source {name} stays as it is, {stays}" for name in found.before]
        left.append(f"the progress of {task} stays at the target: `dmctl forgotten list --file <its file>`")
        if way_back is not None:
            left.append(f"the progress of {way_back.task} stays at the source")
        return left

    def _go_on(self, task: str, again: CutOverState) -> None:
        """It rested, and a person has mended what was in the way."""
        row = self._row(task)
        epoch = row.take_over()
        assert epoch is not None
        row.write(epoch, again)

    def unfinished(self, task: str) -> bool:
        """Whether the target has a cut-over of a task that is not over; raises DMError."""
        found = self._row(task).read()
        return found is not None and found.state not in OVER

    def driver(self, task: str) -> Driver:
        """Who goes on with the cut-over of a task."""
        on = self._servers_of(task)
        on.driver = Driver(task, lambda: self._row(task), on, self._supervisor.clock)
        return on.driver

    def _demand(self, task: str, found: CutOverState | None, what: str, wanted: str, states: set[str]) -> None:
        if found is None or found.state not in states:
            state = "none" if found is None else f"one that is {found.state}"
            raise DMError("cut-over-none", task=task, what=f"this {what}", wanted=wanted, found=state)

    def _way_back(self, task: str) -> WayBack:
        return WayBack(self._means, self._tasks, task)

    def _servers_of(self, task: str) -> TaskServers:
        return TaskServers(self._means, task, self._way_back(task))

    def _row(self, task: str) -> CutOverRow:
        return CutOverRow(subtasks_of(self._means, task)[0])

    def _told(self, task: str) -> Answer:
        driver = self._all.driver(task)  # first: one that ends has stored its last state, and is asked for once more
        found = None if driver is None else driver.found
        if found is None:
            found = self._row(task).read()
        problem = str(self._all.told(task).get("problem", ""))
        return {"task": task, "driven": driver is not None, "problem": problem, "left": [], **_state(found)}

    def _findings(self, first: _First, asked: declared.CheckCutOver | declared.BeginCutOver) -> _Foreseen:
        """Everything at once."""
        task, subtasks = first.task, subtasks_of(self._means, first.task)
        others = self._at_same_servers(first)
        found = [each for one in TaskJobs(self._means, task).fresh() for each in self._of_job(one, asked.max_lag)]
        missing = {one.source_id for one in subtasks} - self._loop.call(lambda: set(self._supervisor.task(task).jobs))
        found += others
        found += [
            Finding(f"source {name}", f"task {task} does not run there", "dmctl start-task <its file>")
            for name in sorted(missing)
        ]
        tables = dict[str, list[TableName]]()
        for one in subtasks:
            try:
                found += findings(one, fences=not asked.hook)
                tables[one.source_id] = at_source.wanted_tables(one)
                found += counter_findings(one, tables[one.source_id])
            except DMError as error:
                found.append(Finding(f"source {one.source_id}", error.message, error.workaround))
        try:
            found += proof_findings(subtasks, tables, asked.prove, self._supervisor.clock.time())
        except DMError as error:
            found.append(Finding("target", error.message, error.workaround))
        acts = False
        try:
            more, acts = cutover_objects.findings(task, subtasks, self._servers.objects, asked.waive, asked.definers)
            found += more
        except DMError as error:
            found.append(Finding("objects", error.message, error.workaround))
        if first.way_back is None:
            return _Foreseen(found, [], acts)
        try:
            if first.way_back.kept:
                more = self._way_back(task).findings_of(first.way_back, asked.acts_twice)
                return _Foreseen(found + more, [], acts)
            more, made = self._way_back(task).findings(asked.acts_twice)
        except DMError as error:
            return _Foreseen([*found, Finding("way back", error.message, error.workaround)], [], acts)
        return _Foreseen(found + more, [] if made is None else made.to_json(), acts)

    def _demand_servers_free(self, first: _First) -> None:
        """Once more, where no other cut-over can begin meanwhile."""
        if stops := self._at_same_servers(first):
            raise first.not_ready(stops)

    def _at_same_servers(self, first: _First) -> list[Finding]:
        """Cut-overs of other tasks that are not over: the fence is the server's, so each would undo the other's."""
        own = {first.task, "" if first.way_back is None else first.way_back.task}
        others = [name for name in self._all.noted() if name not in own]
        others = self._loop.call(lambda: [name for name in others if name in self._supervisor.tasks])
        found, servers = list[Finding](), dict[str, set[tuple[tuple[str, str], ...]]]()
        for name in others:
            mend = f"dmctl cut-over {name} --status; --abort before its switch, --complete after it"
            try:
                state = self._row(name).read()
                if state is None or state.state in OVER:
                    continue
                for task in {first.task, name} - servers.keys():
                    servers[task] = self._server_names(task)
            except DMError as error:
                says = f"whether its cut-over is at the same servers is not known: {error.message}"
                found.append(Finding(f"task {name}", says, mend))
                continue
            if servers[first.task] & servers[name]:
                says = f"its cut-over is {state.state}, at a server of {first.task}: a server has one at a time"
                found.append(Finding(f"task {name}", says, mend))
        return found

    def _server_names(self, task: str) -> set[tuple[tuple[str, str], ...]]:
        subtasks = subtasks_of(self._means, task)
        endpoints = [*(one.source.endpoint for one in subtasks), subtasks[0].target]
        return {at_source.server_of(endpoint) for endpoint in endpoints}

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
            if status.get("branches"):
                found.append(Finding(where, "tables are aside", f"dmctl table list {task}"))
            validation = self._supervisor.validators.status(str(task), job.source)
            if validation is not None and validation.get("newErrors"):
                says = f"the validator has {validation['newErrors']} errors"
                found.append(Finding(where, says, f"dmctl validation show-error {task}"))
            return found

        return self._loop.call(look)


def _state(found: CutOverState | None) -> dict[str, JSON]:
    return {
        "state": "none" if found is None else found.state,
        "cutOver": {} if found is None else {**json.loads(found.to_json()), "ends": told_ends(found)},
    }
