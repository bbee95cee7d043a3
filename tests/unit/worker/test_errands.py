"""What a person is told of a comparison whose process dies."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dm.clock import SystemClock
from dm.worker.errands import Errands
from dm.worker.loop import Loop
from tests.unit.worker.home import until

DIES = (sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")


@pytest.fixture
def loop() -> Iterator[Loop]:
    one = Loop(SystemClock())
    one.start(lambda: False)
    yield one
    one.end()


def test_a_process_that_dies_ends_it_with_an_error(loop: Loop, tmp_path: Path) -> None:
    errands = Errands(loop, lambda name: tmp_path / name, DIES)
    number = errands.number()
    errands.begin(number, "shop", "Diff", {})
    until(lambda: "error" in errands.status(number))
    assert errands.status(number)["msg"] == "the process of the diff of shop ended unexpectedly (killed by SIGKILL)"
    assert str(tmp_path / "diff:shop") in str(errands.status(number)["error"])
