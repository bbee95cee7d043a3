"""Asking for leave, and who measures meanwhile; and a replica whose delay is foreseen is never much later."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import pytest

from dm.clock import SystemClock
from dm.config.endpoint import Endpoint
from dm.config.pace import PaceConfig
from dm.errors import DMError
from dm.pace.gauges import Hours, ReplicaDelay
from dm.pace.governor import Gauge, Governor
from dm.pace.handle import BulkPace, PaceHandle, PaceServer, taken_of
from dm.pace.shared import LONGEST_WAIT, SharedPace
from tests.testbed.fake_clock import FakeClock


class _Words(Gauge):
    """A gauge that says what it is given."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.closed = False

    def excess(self) -> str:
        return self.words[0] if len(self.words) == 1 else self.words.pop(0)

    def close(self) -> None:
        self.closed = True


class _Counted(_Words):
    """Notes what it is told was written."""

    def __init__(self, words: list[str]) -> None:
        super().__init__(words)
        self.used: list[float] = []

    def allowance(self, used: float) -> float:
        self.used.append(used)
        return 100.0


def _governor(path: Path, config: PaceConfig, gauges: Sequence[Gauge]) -> Governor:
    return Governor(SharedPace.begun(path, config, SystemClock()), lambda _: gauges, SystemClock())


def test_an_asker_waits_until_the_gauges_are_content(tmp_path: Path) -> None:
    gauge = _Words(["too much", "too much", ""])
    governor = _governor(tmp_path / "task", PaceConfig(target_threads_running=1), [gauge])
    assert governor.ask(1, 1, threading.Event())
    assert gauge.words == [""]
    governor.close()
    assert gauge.closed


def test_a_stop_ends_the_wait(tmp_path: Path) -> None:
    governor = _governor(tmp_path / "task", PaceConfig(target_threads_running=1), [_Words(["too much"])])
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    assert not governor.ask(1, 1, stop)
    assert governor.status()["paceHolds"] == "too much"
    governor.close()
    assert governor.status() == {}


def test_without_measured_limits_nothing_is_measured(tmp_path: Path) -> None:
    made: list[PaceConfig] = []
    shared = SharedPace.begun(tmp_path / "task", PaceConfig(rows_per_second=1000), SystemClock())

    def gauges(config: PaceConfig) -> Sequence[Gauge]:
        made.append(config)
        return ()

    governor = Governor(shared, gauges, SystemClock())
    assert governor.ask(5, 5, threading.Event())
    governor.close()
    assert made == []


def test_before_the_first_measurement_nothing_is_counted_as_written(tmp_path: Path) -> None:
    """A replica that is late then would have had no bound once it was in time again."""
    gauge = _Counted(["late", "late", ""])
    governor = _governor(tmp_path / "task", PaceConfig(target_threads_running=1), [gauge])
    assert governor.ask(5, 5, threading.Event())
    governor.close()
    assert gauge.used[0] == 0.0
    assert all(map(math.isfinite, gauge.used))


def test_workers_are_measured_for_by_the_unit_that_has_them(tmp_path: Path) -> None:
    task = _governor(tmp_path / "task", PaceConfig(target_threads_running=1), [_Words(["", ""])])
    source = _governor(tmp_path / "source", PaceConfig(source_threads_running=1), [_Words(["full", "full", ""])])
    pace = BulkPace(task, [source])
    with pace.at_work():
        PaceHandle(str(tmp_path / "task"), (str(tmp_path / "source"),)).ask(10, 10)
    pace.close()


def test_a_piece_is_small_also_while_a_source_is_to_be_spared(tmp_path: Path) -> None:
    source = SharedPace.begun(tmp_path / "source", PaceConfig(source_threads_running=1), SystemClock())
    task = SharedPace.begun(tmp_path / "task", PaceConfig(rows_per_second=50), SystemClock())
    assert taken_of([source, task], 0, 0) == (LONGEST_WAIT, 10)
    for each in (source, task):
        each.close()


def test_an_executor_elsewhere_asks_the_driver_and_needs_its_secret(tmp_path: Path) -> None:
    shared = SharedPace.begun(tmp_path / "task", PaceConfig(rows_per_second=50), SystemClock())
    server = PaceServer("127.0.0.1", b"secret", [shared])
    away = PaceHandle("not here", ("nor here",), ("127.0.0.1", server.port), b"secret")
    assert away.rows_at_once() == 10
    away.ask(1, 1)
    stranger = PaceHandle("not here", (), ("localhost", server.port), b"guessed")
    with pytest.raises(DMError) as refused:
        stranger.ask(1, 1)
    assert refused.value.name == "pace-driver-silent"
    server.close()
    shared.close()


@pytest.mark.parametrize(
    ("hours", "at", "works"),
    [
        (("22:00-06:00",), (23, 0), True), (("22:00-06:00",), (5, 59), True), (("22:00-06:00",), (6, 0), False),
        (("08:00-12:00", "13:00-24:00"), (12, 30), False), (("08:00-12:00", "13:00-24:00"), (23, 59), True),
        ((), (3, 3), True),
    ],
)  # fmt: skip
def test_hours_of_the_day_may_pass_midnight(hours: tuple[str, ...], at: tuple[int, int], works: bool) -> None:
    assert PaceConfig(hours=hours).works_at(*at) is works


def test_the_hour_is_told_in_words() -> None:
    clock = FakeClock()
    now = Hours(PaceConfig(hours=("00:00-00:01",)), clock).excess()
    later = Hours(PaceConfig(hours=("00:01-24:00",)), clock).excess()
    assert bool(now) is not bool(later)


@pytest.mark.parametrize("limit", [2.0, 5.0, 20.0])
@pytest.mark.parametrize("times", [1.1, 3.0, 10.0, 1000.0])
@pytest.mark.parametrize("speed", [60_000, 1_000_000])
def test_a_replica_that_is_slower_than_the_task_stays_within_its_limit_and_two_seconds(
    limit: float, times: float, speed: int
) -> None:
    """The task writes `times` as fast as the replica executes, rests, and begins again; each byte's delay counts."""
    clock, step = FakeClock(), 0.05
    gauge = ReplicaDelay(Endpoint(host="127.0.0.1"), "replica", limit, clock)
    waiting: deque[tuple[float, int]] = deque()  # when written, how many bytes
    written = executed = busy = 0
    worst, granted, allowed, last = 0.0, 0.0, 0.0, -1.0
    for number in range(int(120 / step)):
        now = clock.monotonic()
        rests = 40 <= number * step < 60
        if now - last >= 0.25:
            gauge._late = gauge._foreseen([("bin.000001", written)], "bin.000001", executed)
            granted = allowed = gauge.allowance(granted - allowed)
            last = now
        size = 0 if rests else int(min(speed * times * step, max(0.0, allowed) + 1000))  # a batch leaves a debt
        if allowed > 0 and size:
            allowed -= size
            written += size
            waiting.append((now, size))
        room = int(speed * step)
        busy += bool(waiting) and not rests
        while waiting and room > 0:
            at, size = waiting.popleft()
            worst = max(worst, now - at)
            if size > room:
                waiting.appendleft((at, size - room))
            executed += min(size, room)
            room -= size
        clock.now += step
    assert worst <= limit + 2
    assert busy > 0.85 * 100 / step  # and the replica is kept busy


def test_a_thread_of_the_units_own_process_waits_as_a_worker_does_and_a_stop_ends_it(tmp_path: Path) -> None:
    gauge = _Words(["full", "full", ""])
    task = _governor(tmp_path / "task", PaceConfig(rows_per_second=1), [])
    source = _governor(tmp_path / "source", PaceConfig(source_threads_running=1), [gauge])
    pace, stop = BulkPace(task, [source]), threading.Event()
    with pace.at_work():
        pace.here(stop).ask(1_000_000, 10)
        assert gauge.words == [""]
        threading.Timer(0.3, stop.set).start()
        pace.here(stop).ask(1, 0)  # ended by the stop alone: what was taken is earned again in days
        assert stop.is_set()
    pace.close()
