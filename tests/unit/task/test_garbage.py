"""When a unit host looks for cycles: by the clock, the young often and everything seldom."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from dm.task.host import Collector
from tests.testbed.fake_clock import FakeClock
from tests.unit.docs.document import ROOT


@pytest.fixture
def collected() -> Iterator[list[int]]:
    """The generations that were looked at; nothing is by itself."""
    generations: list[int] = []

    def note(phase: str, facts: dict[str, int]) -> None:
        if phase == "start":
            generations.append(facts["generation"])

    gc.disable()
    gc.callbacks.append(note)
    yield generations
    gc.callbacks.remove(note)
    gc.enable()


def test_the_young_every_half_minute_and_older_ones_every_tenth_time(collected: list[int]) -> None:
    clock, given_back = FakeClock(), list[int]()
    collector = Collector(clock, lambda: given_back.append(len(collected)))
    for _ in range(2 * 100 * 30):
        clock.now += 0.5
        collector.pass_by()
    assert len(collected) == 100
    assert given_back == [1, *range(10, 101, 10)], "what is free goes back after the start, and with the older ones"
    assert [number for number, generation in enumerate(collected, 1) if generation == 1] == list(range(10, 100, 10))
    assert collected[-1] == 2


def test_a_cycle_is_freed_by_the_clock(collected: list[int]) -> None:
    class Node:
        other: Node | None = None

    freed: list[str] = []

    class Loud(Node):
        def __del__(self) -> None:
            freed.append("freed")

    one = Loud()
    one.other = Node()
    one.other.other = one
    del one
    clock = FakeClock()
    collector = Collector(clock)
    collector.pass_by()
    assert not freed
    clock.now += 31
    collector.pass_by()
    assert freed == ["freed"]


def test_a_measuring_process_has_the_collector_of_a_host() -> None:
    """It was left out once, and all rates were a fifth too low."""
    program = (
        "import gc, threading\n"
        "from benchmarks.unit_thread import run_until\n"
        "class Unit:\n"
        "    def run(self, stop: threading.Event) -> None: stop.wait()\n"
        "run_until(Unit(), lambda: True, 60)\n"
        "print(gc.get_threshold()[0], gc.get_freeze_count() > 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "1000000 True\n"
