"""What a person is told of a comparison whose process dies."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import structlog.testing

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


def test_what_was_prepared_is_the_process_of_the_next_run_and_only_of_that(loop: Loop, tmp_path: Path) -> None:
    command = (sys.executable, "-m", "dm.task.host")
    errands, log = Errands(loop, lambda name: tmp_path / name, command), structlog.testing.capture_logs
    with log() as said:
        errands.prepare("shop", "Diff")
        errands.prepare("shop", "Diff")
        until(lambda: errands.prepared("shop", "Diff"))
        assert not errands.busy("shop"), "nobody waits for it"
        first = errands.number()
        errands.begin(first, "shop", "Diff", {})  # ends at once, with an error: there is no such task
        until(lambda: "error" in errands.status(first))
        assert len(started(said)) == 1
        second = errands.number()
        errands.begin(second, "shop", "Diff", {})
        until(lambda: "error" in errands.status(second))
        assert len(started(said)) == 2
        errands.prepare("shop", "Diff")
        errands.spare("shop", "Diff")
        until(lambda: len([each for each in said if each["event"] == "host ended"]) == 3)


def started(said: Sequence[Mapping[str, object]]) -> list[object]:
    return [each["host"] for each in said if each["event"] == "host started"]
