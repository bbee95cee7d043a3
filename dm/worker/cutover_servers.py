"""What the steps of a cut-over do: at the sources by their accounts, with the task by the daemon's own means."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import structlog

from dm.config import SubtaskConfig
from dm.errors import DMError
from dm.position import Position
from dm.task.payload import DiffPayload
from dm.tools.cutover import source as at_source
from dm.tools.cutover.driver import Driver
from dm.tools.cutover.hook import call
from dm.tools.cutover.machine import CutOverState, NotYet, given
from dm.tools.errands import DiffRequest
from dm.unit import JSON
from dm.worker.cutover_objects import ObjectsOfSwitch
from dm.worker.task_jobs import TaskJobs
from dm.worker.verb_work import Means
from dm.worker.way_back import WayBack

_MOMENT: Final = 0.3  # between two looks at the end of a binlog
_LOOK: Final = 0.05
_READY_SECONDS: Final = 20.0
_SPARK_SECONDS: Final = 60.0  # that Spark's start may take
_PASSES: Final = 3  # of the comparison while applications write
_LONG_SECONDS: Final = 10.0  # of one
_SAMPLE_SECONDS: Final = 120.0  # that a person waits for the answer


def subtasks_of(means: Means, task: str) -> list[SubtaskConfig]:
    """A task on each of its sources; raises DMError."""
    return means.loop.call(lambda: _subtasks(means, task))


def _subtasks(means: Means, task: str) -> list[SubtaskConfig]:
    config = means.supervisor.task(task).config
    if isinstance(config, DMError):
        raise config
    known = means.supervisor.source_configs()
    return [config.subtask(source, known) for source in config.source_ids]


class TaskServers:
    """The servers of one task; `driver` is who does the steps. Raises DMError."""

    driver: Driver

    def __init__(self, means: Means, task: str, way_back: WayBack) -> None:
        self._means = means
        self._task = task
        self._jobs = TaskJobs(means, task)
        self._way_back = way_back

    def subtasks(self) -> list[SubtaskConfig]:
        """The task on each of its sources."""
        return subtasks_of(self._means, self._task)

    def _hook(self, word: str) -> bool:
        found, subtasks = self.driver.found, self.subtasks()
        if found is None or not found.hook:
            return False
        told = {
            "DM_TASK": self._task, "DM_STATE": found.state, "DM_TARGET_END": found.target_end,
            "DM_EPOCH": str(self.driver.epoch),
            "DM_SOURCE_ENDS": json.dumps(told_ends(found)), "DM_TARGET": subtasks[0].target.address,
            "DM_SOURCES": json.dumps({one.source_id: one.source.endpoint.address for one in subtasks}),
            "DM_SOURCE_ADDRESSES": " ".join(one.source.endpoint.address for one in subtasks),
        }  # fmt: skip
        self.driver.demand_owned()
        return call(found.hook, word, told)

    def get_ready(self, found: CutOverState) -> None:
        """Processes for the comparison and for the way back: to load what they need takes a second or more.

        Where all rows are compared, and they are many, Spark begins now, too. For the way back both servers begin a
        binlog file, so that what is read of their logs after the fence is short.
        """
        means, hosts = self._means, self._means.supervisor.hosts
        if found.way_back is not None:
            subtasks = self.subtasks()
            for endpoint in (subtasks[0].target, *(one.source.endpoint for one in subtasks)):
                if not at_source.begin_file(endpoint):
                    structlog.get_logger().info("no new binlog file", task=self._task, server=endpoint.address)
        host = "" if found.way_back is None else self._way_back.host_of(found.way_back)
        try:
            if found.prove != "none":
                means.errands.prepare(self._task, "Diff", self._all_rows() if found.prove == "full" else None)
            if host:
                means.loop.call(lambda: hosts.prepare(host, "Sync"))
        except OSError as error:  # no room for a log, or for a process: it is started when it is needed, or fails then
            structlog.get_logger().info("no process ahead", task=self._task, error=error)
            return
        for _ in range(round((_SPARK_SECONDS if found.prove == "full" else _READY_SECONDS) / _LOOK)):
            compares = found.prove == "none" or means.errands.prepared(self._task, "Diff")
            if compares and (not host or means.loop.call(lambda: hosts.prepared(host))):
                return
            if self.driver.interrupted:
                return
            self.driver.wait(_LOOK)

    def stop_writes(self) -> bool:
        """Without a hook it is left to the servers' read-only mode."""
        return self._hook("stop-writes")

    def close(self, *, by_hook: bool) -> None:
        """All of them first: the time without writes begins with the first one."""
        subtasks = self.subtasks()
        for one in subtasks:
            if not by_hook:
                at_source.close(one, self.driver.demand_owned)
        for one in subtasks:
            at_source.demand_none_prepared(one)

    def closed(self, *, strictly: bool) -> bool:
        """By the servers' own word."""
        return all(at_source.closed(one, strictly=strictly) for one in self.subtasks())

    def ends(self) -> Mapping[str, JSON]:
        """By source."""
        return {one.source_id: at_source.end(one).to_json() for one in self.subtasks()}

    def written(self, since: Mapping[str, JSON]) -> list[str]:
        """By the events of their binlogs."""
        subtasks = {one.source_id: one for one in self.subtasks()}
        found = {name: at_source.written(subtasks[name], Position.from_json(end)) for name, end in since.items()}
        return [f"{name}: {words}" for name, words in found.items() if words]

    def pause(self) -> None:
        """Between two looks."""
        self.driver.wait(_MOMENT)

    def demand_applied(self) -> None:
        """By what the syncers answer now: a checkpoint may be written later."""
        runs = True
        for job in self._jobs.fresh():
            if job.subtask.errors:
                found = self.driver.found
                asked = self._task if found is None else given(self._task, found.way_back, found.opens)
                words = job.subtask.errors[0]["Message"]
                raise DMError("cut-over-not-ready", task=self._task, given=asked, findings=words)
            if job.subtask.stage != "Running":
                runs = False
            elif job.status.get("synced") is not True:
                raise NotYet(f"{self._task} on {job.source} has not applied everything")
        if not runs:  # a person has paused it: what is stored tells
            self._demand_stored()

    def _demand_stored(self) -> None:
        for one in self.subtasks():
            at_source.demand_applied(one)

    def compare_ahead(self) -> None:
        """Rows that did not come to rest are compared again after the fence, and so are those written meanwhile.

        So after a comparison that took long another one follows: it has less to read.
        """
        for _ in range(_PASSES):
            status = self._compared(recent=True)
            if status.get("verdict") == "different":
                raise DMError("cut-over-unequal", task=self._task, what=_unequal(status))
            if float(str(status["seconds"])) < _LONG_SECONDS:
                return

    def prove(self, how: str) -> Mapping[str, JSON]:
        """A comparison as `dmctl diff` makes it."""
        status = self._compared(recent=how == "recent")
        if status.get("verdict") != "equal":
            raise DMError("cut-over-unequal", task=self._task, what=_unequal(status))
        tables = {str(each["table"]): each for each in _tables(status)}
        return {
            "verdict": "equal", "seconds": status.get("seconds"),
            "rows": {name: each["targetRows"] for name, each in tables.items()},
            "sums": {name: each["digest"] for name, each in tables.items()},
            "restsOn": {name: each["restsOn"] for name, each in tables.items() if each["restsOn"]},
            "wholeBecause": {name: each["wholeBecause"] for name, each in tables.items() if each["wholeBecause"]},
        }  # fmt: skip

    def seconds_of_all(self) -> float | None:
        """How long a comparison of all rows takes, by one of some rows; None where that one takes too long."""
        clock, never = self._means.supervisor.clock, threading.Event()
        until = clock.monotonic() + _SAMPLE_SECONDS
        try:
            status = self._errand(
                DiffRequest(sample=True), {}, lambda: clock.monotonic() > until, lambda: clock.wait(never, _LOOK)
            )
        except NotYet:
            return None
        return float(str(status["secondsOfAll"]))

    def _compared(self, *, recent: bool) -> Mapping[str, JSON]:
        """What a comparison has found; raises DMError where it could not be made, NotYet where it was ended."""
        means = self._means

        def configured() -> tuple[tuple[str, ...], dict[str, Path]]:
            running = tuple(job.source for job in self._jobs.there() if job.subtask.stage == "Running")
            return running, means.supervisor.relays(
                one.source_id for one in _subtasks(means, self._task)
            ) if recent else {}

        follows, relays = means.loop.call(configured)
        options = DiffRequest(follows=follows, recent=recent)
        return self._errand(options, relays, lambda: self.driver.interrupted, lambda: self.driver.wait(_LOOK))

    def _all_rows(self) -> Mapping[str, JSON]:
        return self._payload(self._means.errands.number(), DiffRequest(), {})

    def _payload(self, number: int, options: DiffRequest, relays: Mapping[str, Path]) -> Mapping[str, JSON]:
        work = self._means.supervisor.home.work / self._task
        return DiffPayload(tuple(self.subtasks()), options, work / f".diff-{number}", work / ".diff", relays).to_wire()

    def _errand(
        self, options: DiffRequest, relays: Mapping[str, Path], over: Callable[[], bool], wait: Callable[[], object]
    ) -> Mapping[str, JSON]:
        means = self._means
        number = means.errands.number()
        means.errands.begin(number, self._task, "Diff", self._payload(number, options, relays))
        while not (status := means.errands.status(number)).get("ended"):
            if status.get("result") is False:
                raise DMError("cut-over-unequal", task=self._task, what=status.get("msg", ""))
            if over():
                means.errands.stop(number)
                raise NotYet("the comparison was ended")
            wait()
        return status

    def working(self) -> Sequence[str]:
        """By what the daemon would do next."""
        return self._jobs.working()

    def rest(self) -> None:
        """The checkpoints of a task at rest are those of its last row."""
        self._jobs.rest()
        self._demand_stored()

    def target_end(self) -> tuple[str, JSON]:
        """Of its binlog, where it has one that the account may see."""
        found = self._means.servers.final_place(self.subtasks()[0]).target_end
        return ("", None) if found is None else (_told(found), found.to_json())

    def begin_way_back(self, found: CutOverState) -> int:
        """The task in the other direction."""
        return self._way_back.begin(found, self.driver.demand_owned)

    def demand_untouched(self, found: CutOverState) -> None:
        """By what the source's binlog has."""
        self._way_back.demand_untouched()

    def end_way_back(self, found: CutOverState) -> None:
        """The sources are opened after that."""
        self._means.errands.spare(self._task, "Diff")
        self._way_back.end(found)

    def open_target(self, found: CutOverState) -> None:
        """The task that has closed it is the way back now, and nothing holds it any more."""
        self._way_back.complete_kept(found)
        if found.opens:
            at_source.reopen(self.subtasks()[0], found.opens, self.driver.demand_owned, target=True)

    def create_acting(self, found: CutOverState) -> None:
        """As `dmctl objects --apply` does."""
        self._of_switch(found).create()

    def enable_events(self, found: CutOverState) -> None:
        """As `dmctl objects --enable-events` does."""
        self._of_switch(found).enable()

    def _of_switch(self, found: CutOverState) -> ObjectsOfSwitch:
        self.driver.demand_owned()
        return ObjectsOfSwitch(self._task, self.subtasks(), self._means.servers.objects, found)

    def switch(self) -> None:
        """Without a hook, a person does it."""
        self._hook("switch")

    def reopen(self, before: Mapping[str, Mapping[str, str]]) -> None:
        """By the same lock as when they were closed."""
        for one in self.subtasks():
            at_source.reopen(one, before.get(one.source_id, {}), self.driver.demand_owned)

    def go_on(self, paused: Sequence[str]) -> None:
        """What a person has paused stays so."""
        self._jobs.go_on(paused)

    def start_writes(self) -> None:
        """The servers are open by now."""
        self._hook("start-writes")


def told_ends(found: CutOverState) -> dict[str, JSON]:
    """Where the binlogs of the sources end, as a person reads it; that of an earlier version is stored so."""
    return {
        name: place if isinstance(place, str) else _told(Position.from_json(place))
        for name, place in found.ends.items()
    }


def _told(place: Position) -> str:
    return f"{place}, GTID set {place.gtid_set}" if place.gtid_set else str(place)


def _tables(status: Mapping[str, JSON]) -> list[dict[str, JSON]]:
    report = status.get("report")
    return [each for each in report if isinstance(each, dict)] if isinstance(report, list) else []


def _unequal(status: Mapping[str, JSON]) -> str:
    found = [f"{each['table']} is {each['verdict']}" for each in _tables(status) if each["verdict"] != "equal"]
    return ", ".join(found) or str(status.get("verdict"))
