"""What a cut-over that a daemon drives forbids."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import cast

import pytest

from dm.errors import DMError
from dm.tools.cutover.driver import Driver
from dm.tools.cutover.machine import CutOverState, State
from dm.worker.cutovers import CutOvers


class _Driver:
    """It is at work until it is let go."""

    task, stopped, taken = "t", False, False

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
