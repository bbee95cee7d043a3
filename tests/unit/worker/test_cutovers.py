"""What a cut-over that a daemon drives forbids, and what it tells."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dm.errors import DMError
from dm.task.subtask import Intent, Stage, Subtask
from dm.tools.cutover import source as at_source
from dm.tools.cutover.driver import Driver
from dm.tools.cutover.machine import STATES, CutOverState, NotYet, State, WayBackTask
from dm.verbs.cutover import BeginCutOver, CompleteCutOver, CutOverStatus
from dm.worker.cutovers import CutOvers
from dm.worker.task_jobs import TaskJobs
from dm.worker.verb_work import Exclusion, Means
from dm.worker.verbs import cutover
from dm.worker.verbs.cutover import CutOverVerbs
from dm.worker.verbs.tasks import TaskVerbs
from dm.worker.way_back import WayBack
from tests.testbed.fake_clock import FakeClock


class _Driver:
    """It is at work until it is let go."""

    task, stopped, taken, problem = "t", False, False, ""

    def __init__(self, state: State | None) -> None:
        self.found = None if state is None else CutOverState(state, "full", "", 0.0, {})
        self.go = threading.Event()

    def run(self) -> None:
        self.go.wait()


@pytest.mark.parametrize("state", [None, "fenced", "switching", "aborting"])
def test_its_task_is_not_stopped_while_steps_are_to_be_done(state: State | None, tmp_path: Path) -> None:
    cut_overs, driver = CutOvers(tmp_path), _Driver(state)
    cut_overs.demand_at_rest("t")
    cut_overs.drive(cast(Driver, driver))
    try:
        with pytest.raises(DMError, match="under way"):
            cut_overs.demand_at_rest("t")
        cut_overs.demand_at_rest("another")
        driver.found = CutOverState("switched", "full", "", 0.0, {})
        cut_overs.demand_at_rest("t")  # `--complete` stops it
    finally:
        driver.go.set()
        cut_overs.wait("t", 10.0)
    driver.found = CutOverState("switching", "full", "", 0.0, {})  # its hook failed: nobody drives it
    cut_overs.demand_at_rest("t")


def test_its_state_is_told_without_a_session_at_the_target(tmp_path: Path) -> None:
    cut_overs, driver = CutOvers(tmp_path), _Driver("drained")
    nothing = dict.fromkeys(("loop", "supervisor", "servers", "reader", "errands", "exclusion"))  # knows no target
    means = cast(Means, SimpleNamespace(cut_overs=cut_overs, **nothing))
    cut_overs.drive(cast(Driver, driver))
    try:
        told = CutOverVerbs(means).status(CutOverStatus(task="t"))
    finally:
        driver.go.set()
        cut_overs.wait("t", 10.0)
    assert (told["state"], told["driven"]) == ("drained", True)


@pytest.mark.parametrize("state", [None, *STATES])
def test_a_task_is_not_begun_while_it_is_to_apply_nothing_or_nobody_knows(state: State | None, tmp_path: Path) -> None:
    cut_overs, driver = CutOvers(tmp_path), _Driver(state)
    cut_overs.demand_not_held("t")
    cut_overs.note("t")
    with pytest.raises(DMError, match="has not been read"):  # as after a start of the daemon
        cut_overs.demand_not_held("t")
    cut_overs.drive(cast(Driver, driver))
    try:
        if state in (None, "proved", "way-back", "switching", "switched"):
            with pytest.raises(DMError, match="rests for its cut-over"):
                cut_overs.demand_not_held("t")
        else:
            cut_overs.demand_not_held("t")
        cut_overs.demand_not_held("another")
    finally:
        driver.go.set()
        cut_overs.wait("t", 10.0)
    cut_overs.forget("t")
    cut_overs.demand_not_held("t")


class _Loop:
    """All is done at once."""

    def call(self, function: Any) -> Any:
        return function()

    def wait_until(self, holds: Any, seconds: float) -> bool:
        return bool(holds())


class _Runner:
    """It comes to rest when it is told to, or never."""

    def __init__(self, ends: bool = True) -> None:
        self.ends, self.subtask = ends, cast(Subtask, None)

    def locate(self, run: int) -> None:
        pass

    def launch(self, run: int, unit: str) -> None:
        pass

    def halt(self, run: int) -> None:
        if self.ends:
            self.subtask.stopped(run)


def _subtask(stage: Stage, intent: Intent, *, error: bool = False, ends: bool = True) -> Subtask:
    runner = _Runner(ends)
    runner.subtask = subtask = Subtask("t", ("Sync",), runner, FakeClock())
    subtask.stage, subtask.intent, subtask.unit = stage, intent, "Sync"
    if error:
        subtask.errors, subtask.next_attempt = [DMError("connection-lost", role="source", address="s").report()], 0.0
    return subtask


def _jobs(**subtasks: Subtask) -> TaskJobs:
    jobs = {source: SimpleNamespace(subtask=subtask, source=source) for source, subtask in subtasks.items()}
    supervisor = SimpleNamespace(task=lambda name: SimpleNamespace(jobs=jobs))
    return TaskJobs(cast(Means, SimpleNamespace(loop=_Loop(), supervisor=supervisor)), "t")


def test_a_task_at_rest_is_not_begun_again_by_itself_and_what_a_person_paused_not_by_an_abort() -> None:
    there = {
        "runs": _subtask("Running", "running"), "waits": _subtask("Paused", "running", error=True),
        "person": _subtask("Paused", "paused"),
    }  # fmt: skip
    jobs = _jobs(**there)
    paused = jobs.working()
    assert paused == ["runs", "waits"]
    jobs.rest()
    for subtask in there.values():
        subtask.tick()  # the time of auto-resume has come
        assert (subtask.stage, subtask.intent) == ("Paused", "paused")
    jobs.go_on(paused)
    assert {name: subtask.stage for name, subtask in there.items()} == {
        "runs": "Running", "waits": "Running", "person": "Paused",
    }  # fmt: skip


def test_an_abort_waits_for_a_task_that_is_still_pausing() -> None:
    jobs = _jobs(slow=_subtask("Running", "running", ends=False))
    for act in (jobs.rest, lambda: jobs.go_on(["slow"])):
        with pytest.raises(NotYet, match="come to rest"):
            act()


class _StoredRow:
    """The row of a task."""

    def __init__(self, rows: dict[str, CutOverState], task: str) -> None:
        self.rows, self.task = rows, task

    def read(self) -> CutOverState | None:
        return self.rows.get(self.task)

    def take_over(self) -> int:
        return 1

    def owned(self, epoch: int) -> CutOverState:
        return self.rows[self.task]


def _verbs(
    rows: dict[str, CutOverState], servers: dict[str, tuple[str, str]], work: Path, monkeypatch: pytest.MonkeyPatch
) -> CutOverVerbs:
    """Of tasks from one server to another each; shop-back is the way back of shop."""

    def subtasks_of(means: Means, task: str) -> Any:
        source = SimpleNamespace(endpoint=servers[task][0])
        opposite = {"shop": "shop-back", "shop-back": "shop"}.get(task, "")
        subtask = SimpleNamespace(task=task, source=source, target=servers[task][1], opposite=opposite)
        return [subtask]

    monkeypatch.setattr(cutover, "subtasks_of", subtasks_of)
    monkeypatch.setattr(cutover, "CutOverRow", lambda subtask: _StoredRow(rows, subtask.task))
    monkeypatch.setattr(at_source, "server_of", lambda endpoint: endpoint)
    supervisor = SimpleNamespace(tasks=dict.fromkeys(servers), clock=FakeClock())
    means = dict.fromkeys(("servers", "reader", "errands"))
    cut_overs = CutOvers(work)
    for task in rows:
        cut_overs.note(task)
    return CutOverVerbs(
        cast(
            Means,
            SimpleNamespace(cut_overs=cut_overs, loop=_Loop(), supervisor=supervisor, exclusion=Exclusion(), **means),
        )
    )


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    ("servers", "shared"), [(("S", "T"), True), (("S", "U"), True), (("T", "S"), True), (("U", "V"), False)]
)
def test_a_server_has_one_cut_over_at_a_time(
    state: State, servers: tuple[str, str], shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {"a": CutOverState(state, "full", "", 0.0, {})}
    verbs = _verbs(rows, {"a": ("S", "T"), "b": servers}, tmp_path, monkeypatch)
    found = verbs._at_same_servers(cutover._First("b", 1, None))
    assert [each.where for each in found if each.stops] == ["task a"] * (
        shared and state not in ("complete", "aborted")
    )
    assert verbs._at_same_servers(cutover._First("a", 2, None)) == [], "its own"


def test_another_tasks_cut_over_stops_one_also_where_its_servers_do_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {"a": CutOverState("switched", "full", "", 0.0, {})}
    verbs = _verbs(rows, {"a": ("S", "T"), "b": ("U", "V")}, tmp_path, monkeypatch)

    def server_of(endpoint: object) -> Any:
        raise DMError("connection-lost", role="source", address="s")

    monkeypatch.setattr(at_source, "server_of", server_of)
    (found,) = verbs._at_same_servers(cutover._First("b", 1, None))
    assert (found.where, found.stops) == ("task a", True)


def test_the_way_back_is_cut_over_by_the_return_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = WayBackTask("shop-back", "shop-target")
    rows = {"shop": CutOverState("switched", "full", "", 0.0, {"one": {"read_only": "OFF"}}, way_back=made)}
    verbs = _verbs(rows, {"shop": ("S", "T"), "shop-back": ("T", "S")}, tmp_path, monkeypatch)
    for back in (False, True):
        with pytest.raises(DMError, match="is the way back of task shop") as refused:
            verbs.begin(BeginCutOver(task="shop-back", back=back, way_back=False))
        assert "dmctl cut-over shop --back" in refused.value.workaround
    assert verbs._first("shop", back=True, way_back=True).task == "shop-back"
    rows["shop"] = CutOverState("way-back", "full", "", 0.0, {}, way_back=made)
    with pytest.raises(DMError, match="under way"):
        verbs.begin(BeginCutOver(task="shop-back", way_back=False))
    del rows["shop"]
    assert verbs._first("shop-back", back=False, way_back=False).number == 1, "two directions that a person has made"


def test_an_abort_that_ends_while_it_is_given_up_is_not_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {"t": CutOverState("aborting", "full", "", 0.0, {})}
    verbs = _verbs(rows, {"t": ("S", "T")}, tmp_path, monkeypatch)

    def driver(cut_overs: CutOvers, task: str) -> None:
        rows["t"] = CutOverState("aborted", "full", "", 0.0, {})  # its last step

    monkeypatch.setattr(CutOvers, "driver", driver)
    with pytest.raises(DMError, match="one that is aborted"):
        verbs.complete(CompleteCutOver(task="t"))
    assert rows["t"].state == "aborted"


def test_what_is_done_for_the_way_back_is_not_done_again_while_applications_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Making it asks both servers for all of their tables, and logs in at both several times."""
    made = 0

    def make(way_back: WayBack, found: CutOverState, demand_owned: object) -> None:
        nonlocal made
        made += 1
        if made == 1:
            raise DMError("cut-over-taken", task="t")

    job = SimpleNamespace(subtask=SimpleNamespace(errors=[], stage="Running"), status={"synced": False})
    monkeypatch.setattr(WayBack, "_make", make)
    monkeypatch.setattr(TaskJobs, "fresh", lambda jobs: [job])
    monkeypatch.setattr("dm.worker.way_back.SourceVerbs", lambda means: None)
    way_back = WayBack(cast(Means, None), cast(TaskVerbs, None), "t")
    found = CutOverState("way-back", "full", "", 0.0, {}, way_back=WayBackTask("t-back", "t-target"))
    with pytest.raises(DMError, match="taken over"):
        way_back.begin(found, lambda: None)
    for _ in range(3):
        with pytest.raises(NotYet):
            way_back.begin(found, lambda: None)
    job.status["synced"] = True
    assert way_back.begin(found, lambda: None) == 0
    assert made == 2
