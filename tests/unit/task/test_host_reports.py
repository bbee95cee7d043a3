"""A host tells a status when it is another one, and now and then when it is not."""

from __future__ import annotations

import io
import queue
import threading
from collections.abc import Iterator, Mapping
from typing import cast

import pytest

from dm.clock import SystemClock
from dm.errors import DMError
from dm.task.host import REPEAT_SECONDS, REST_SECONDS, Host
from dm.task.message import PrepareUnit, StartUnit, StatusInterval, UnitPrepared, UnitStatus, decode_event, encode
from dm.unit import JSON, UnitName
from tests.testbed.sync import wait_until

INTERVAL = 0.25


class SteppedClock(SystemClock):
    """Lets a wait end only when the test says so, and notes how long it is to be."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: queue.Queue[float] = queue.Queue()
        self._steps = threading.Semaphore(0)

    def monotonic(self) -> float:
        return self.now

    def wait(self, signal: threading.Event, seconds: float) -> bool:
        self.waits.put(seconds)
        self._steps.acquire()
        self.now += seconds
        return signal.is_set()

    def step(self) -> float:
        """Let a wait end; gives how long the next one is, which has begun."""
        self._steps.release()
        return self.waits.get(timeout=10)


class Counting:
    """A unit that has done as much as it is told."""

    name: UnitName = "Sync"

    def __init__(self) -> None:
        self.rows = 0
        self.runs = threading.Event()

    def run(self, stop: threading.Event) -> None:
        self.runs.set()
        stop.wait()

    def status(self) -> Mapping[str, JSON]:
        return {"rows": self.rows}


class Lines:
    """Commands that a host waits for."""

    def __init__(self) -> None:
        self._lines: queue.Queue[bytes] = queue.Queue()
        self.put = self._lines.put

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._lines.get, b"")


@pytest.mark.timeout(60)
def test_what_is_known_is_told_again_only_now_and_then() -> None:
    clock, unit, lines, events = SteppedClock(), Counting(), Lines(), io.BytesIO()
    lines.put(encode(StatusInterval(INTERVAL)))
    lines.put(encode(StartUnit(1, "Sync", {})))
    host = Host(cast("io.BytesIO", lines), events, {"Sync": lambda _: unit}, clock)
    serving = threading.Thread(target=host.serve)
    serving.start()
    assert unit.runs.wait(10)

    def told() -> list[JSON]:
        found = [decode_event(line) for line in events.getvalue().splitlines(keepends=True)]
        return [event.status["rows"] for event in found if isinstance(event, UnitStatus)]

    clock.waits.get(timeout=10)
    assert clock.step() == INTERVAL, "there was a first status"
    assert told() == [0]
    while clock.now < 1000 + REPEAT_SECONDS - REST_SECONDS:
        assert clock.step() == REST_SECONDS
    assert told() == [0]
    while clock.now < 1000 + REPEAT_SECONDS + REST_SECONDS:
        clock.step()
    assert told() == [0, 0]
    unit.rows = 5
    assert clock.step() == INTERVAL
    assert told() == [0, 0, 5]
    lines.put(b"")
    serving.join(10)
    assert not serving.is_alive()
    clock._steps.release()


class Getting(Counting):
    """A unit that can do something before its run."""

    def __init__(self, error: Exception | None) -> None:
        super().__init__()
        self.ready = 0
        self.error = error

    def get_ready(self) -> None:
        self.ready += 1
        if self.error is not None:
            raise self.error


@pytest.mark.timeout(60)
@pytest.mark.parametrize("error", [None, DMError("unit-not-there", question="x"), ValueError("a defect")])
def test_what_can_be_done_before_a_run_is_done_where_it_is_told_and_may_fail(error: Exception | None) -> None:
    unit, lines, events = Getting(error), Lines(), io.BytesIO()
    made = list[Mapping[str, JSON]]()

    def factory(payload: Mapping[str, JSON]) -> Getting:
        made.append(payload)
        return unit

    host = Host(cast("io.BytesIO", lines), events, {"Diff": factory})
    serving = threading.Thread(target=host.serve)
    serving.start()

    def prepared() -> int:
        return sum(isinstance(decode_event(line), UnitPrepared) for line in events.getvalue().splitlines(keepends=True))

    lines.put(encode(PrepareUnit("Diff")))
    wait_until(lambda: prepared() == 1, "the module is there")
    assert (unit.ready, made) == (0, [])
    lines.put(encode(PrepareUnit("Diff", {"rows": 5})))
    wait_until(lambda: prepared() == 2, "it is ready, or will tell in its run why not")
    assert (unit.ready, made) == (1, [{"rows": 5}])
    lines.put(b"")
    serving.join(10)
    assert not serving.is_alive()
