"""What is said of a server that does not answer a comparison."""

from __future__ import annotations

import threading

import pytest

from dm.errors import DMError
from dm.tools.diff.planner import DiffPlanner
from dm.tools.diff.table import TARGET, role_at
from dm.tools.errands import DiffRequest
from tests.unit.config.texts import TASK, task


def test_a_target_that_is_down_is_called_the_target() -> None:
    text = TASK.replace("target.example", "127.0.0.1").replace("port: 4000", "port: 9")
    planner = DiffPlanner([task(text).subtask("mysql-01")], DiffRequest(), threading.Event())
    with pytest.raises(DMError) as caught:
        planner.plan()
    assert caught.value.message == "can't connect to target 127.0.0.1:9 as user dm"


def test_the_other_servers_are_sources() -> None:
    assert [role_at(place) for place in (TARGET, 0, 1)] == ["target", "upstream", "upstream"]
