"""What a cut-over that a daemon drives forbids, and what it tells."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from dm.errors import DMError
from dm.tools.cutover.driver import Driver
from dm.tools.cutover.machine import CutOverState, State
from dm.verbs.cutover import CutOverStatus
from dm.worker.cutovers import CutOvers
from dm.worker.verbs.cutover import CutOverVerbs
from dm.worker.work import Means


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
