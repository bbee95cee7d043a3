"""The file that a task's processes share: what they take together is exact, and changes reach all of them."""

from __future__ import annotations

import mmap
import multiprocessing
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm.clock import SystemClock
from dm.config.pace import PaceConfig
from dm.errors import DMError
from dm.pace.shared import LONGEST_WAIT, UNMEASURED, UNSEEN, SharedPace
from tests.testbed.fake_clock import FakeClock

MEASURED = PaceConfig(target_threads_running=10)


def _taken(processes: list[SharedPace], clock: FakeClock, batches: list[int], seconds: float) -> int:
    """The rows that processes take in turn, waiting as they are told to."""
    end, rows, turn = clock.monotonic() + seconds, 0, 0
    while clock.monotonic() < end:
        shared, batch = processes[turn % len(processes)], batches[turn % len(batches)]
        wait = shared.take(batch, 0)
        if wait:
            clock.now += wait
        else:
            rows += batch
            turn += 1
    return rows


@settings(max_examples=30, deadline=None)
@given(
    limit=st.integers(50, 5000),
    batches=st.lists(st.integers(1, 1000), min_size=1, max_size=5),
    processes=st.integers(1, 4),
)
def test_processes_take_together_what_ten_seconds_allow(
    tmp_path_factory: pytest.TempPathFactory, limit: int, batches: list[int], processes: int
) -> None:
    clock, path = FakeClock(), tmp_path_factory.mktemp("pace") / "task"
    opened = [SharedPace.begun(path, PaceConfig(rows_per_second=limit), clock) for _ in range(processes)]
    rows = _taken(opened, clock, batches, 10.0)
    assert 10 * limit - max(batches) <= rows <= 10 * limit + 2 * max(batches) + 1


def test_a_rest_saves_up_no_more_than_a_second(tmp_path: Path) -> None:
    clock = FakeClock()
    shared = SharedPace.begun(tmp_path / "task", PaceConfig(bytes_per_second=100), clock)
    clock.now += 3600
    assert shared.take(0, 100) == 0
    assert shared.take(0, 1) == 0  # leaves a debt
    assert shared.take(0, 1) > 0


def test_limits_that_change_reach_every_process_at_its_next_question(tmp_path: Path) -> None:
    clock, path = FakeClock(), tmp_path / "task"
    one = SharedPace.begun(path, PaceConfig(rows_per_second=1), clock)
    other = SharedPace.begun(path, PaceConfig(rows_per_second=1), clock)
    assert one.take(1000, 0) == 0
    assert 0 < one.take(1, 0) <= LONGEST_WAIT
    other.change(PaceConfig(), run_time=True)
    assert not one.limited
    assert one.take(1000, 0) == 0


def test_what_a_person_set_outlives_a_run_that_begins_by_its_file(tmp_path: Path) -> None:
    clock, path = FakeClock(), tmp_path / "task"
    SharedPace.begun(path, PaceConfig(), clock).change(PaceConfig(rows_per_second=7), run_time=True)
    again = SharedPace.begun(path, PaceConfig(rows_per_second=9), clock)
    assert (again.config.rows_per_second, again.state().run_time) == (7, True)
    again.change(PaceConfig(rows_per_second=9), run_time=False)
    later = SharedPace.begun(path, PaceConfig(rows_per_second=11), clock)
    assert (later.config.rows_per_second, later.state().run_time) == (11, False)


def test_a_limit_that_must_be_measured_holds_until_it_was_and_again_when_nobody_measures(tmp_path: Path) -> None:
    clock = FakeClock()
    shared = SharedPace.begun(tmp_path / "task", MEASURED, clock)
    assert shared.take(1, 1) == LONGEST_WAIT
    assert shared.state().holding == UNMEASURED
    assert shared.lead(3.0)
    shared.hold("")
    assert shared.take(1, 1) == 0
    shared.hold("12 threads run at the target, limit 10")
    assert shared.take(1, 1) == LONGEST_WAIT
    assert shared.state().holding == "12 threads run at the target, limit 10"
    shared.hold("")
    shared.retire()
    assert shared.take(1, 1) == LONGEST_WAIT


def test_one_process_measures_and_another_one_follows_a_frozen_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, path = FakeClock(), tmp_path / "task"
    shared = SharedPace.begun(path, MEASURED, clock)
    other = SharedPace.begun(path, MEASURED, clock)
    assert shared.lead(3.0)
    shared.hold("")
    first = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: first + 1)
    assert not other.lead(3.0)
    other.retire()  # does not take the first one's place away
    assert not other.lead(3.0)
    assert other.take(1, 1) == 0
    clock.now += 3.1
    assert other.take(1, 1) == LONGEST_WAIT, "what was measured is too old"
    assert other.lead(3.0)
    other.hold("12 threads run at the target, limit 10")
    monkeypatch.setattr(os, "getpid", lambda: first)
    shared.hold("")  # it was thawed in its measurement
    assert shared.state().holding == "12 threads run at the target, limit 10"


def test_what_a_killed_process_has_measured_lets_nobody_pass(tmp_path: Path) -> None:
    path = tmp_path / "task"
    ended = multiprocessing.get_context("fork").Process(target=_measure_and_end, args=(path,))
    ended.start()
    ended.join()
    assert ended.exitcode == 0
    shared = SharedPace.begun(path, MEASURED, SystemClock())
    assert shared.take(1, 1) == LONGEST_WAIT
    assert shared.lead(600.0)
    assert shared.take(1, 1) == LONGEST_WAIT
    shared.hold("")
    assert shared.take(1, 1) == 0


def _measure_and_end(path: Path) -> None:
    shared = SharedPace.begun(path, MEASURED, SystemClock())
    if not shared.lead(600.0):
        os._exit(1)
    shared.hold("")
    os._exit(0 if shared.take(1, 1) == 0 else 1)


def test_limits_that_are_too_long_leave_no_file_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(DMError) as refused:
        SharedPace.begun(
            tmp_path / "task",
            PaceConfig(replica_lag=1, replicas=tuple(f"replica-{number}" for number in range(400))),
            FakeClock(),
        )
    assert refused.value.name == "pace-too-long"
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_share_of_held_time_counts_each_moment_once(tmp_path: Path) -> None:
    clock, path = FakeClock(), tmp_path / "task"
    lanes = [SharedPace.begun(path, PaceConfig(rows_per_second=100), clock) for _ in range(3)]
    assert lanes[0].take(1000, 0) == 0
    for _ in range(20):  # five seconds, in which all three wait
        for lane in lanes:
            assert lane.take(1, 0) > 0
        clock.now += LONGEST_WAIT
    clock.now += 5.0
    assert lanes[0].state().held_share == pytest.approx(0.475, abs=0.03)
    assert lanes[0].state().holding == ""  # nobody has asked for five seconds


def test_a_clock_that_began_anew_leaves_no_debt_and_no_grant(tmp_path: Path) -> None:
    late, early = FakeClock(), FakeClock()
    late.now += 1_000_000
    path = tmp_path / "task"
    assert SharedPace.begun(path, PaceConfig(rows_per_second=10), late).take(100_000, 0) == 0
    again = SharedPace.begun(path, PaceConfig(rows_per_second=10), early)
    assert again.take(1, 0) == 0
    assert again.take(1, 0) > 0


def test_a_torn_file_begins_anew_with_the_task_files_limits(tmp_path: Path) -> None:
    clock, path = FakeClock(), tmp_path / "task"
    SharedPace.begun(path, PaceConfig(rows_per_second=5), clock).close()
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as page:
        page[256:260] = b"????"
    assert SharedPace.begun(path, PaceConfig(rows_per_second=6), clock).config == PaceConfig(rows_per_second=6)


@pytest.mark.parametrize("written", [b"other program" + b"\0" * 5000, b"dmpc\x02\x00" + b"\0" * 5000])
def test_a_file_of_another_program_or_of_a_newer_dm_is_refused_by_name(tmp_path: Path, written: bytes) -> None:
    path = tmp_path / "task"
    path.write_bytes(written)
    with pytest.raises(DMError, match=str(path)) as refused:
        SharedPace(path, FakeClock())
    assert refused.value.name == "pace-file-foreign"
    assert path.read_bytes() == written


def test_limits_that_are_too_long_are_refused_and_the_old_ones_hold(tmp_path: Path) -> None:
    shared = SharedPace.begun(tmp_path / "task", PaceConfig(rows_per_second=5), FakeClock())
    with pytest.raises(DMError) as refused:
        shared.change(PaceConfig(query="SELECT 1 " + "+ 1" * 2000, query_limit=3.0), run_time=True)
    assert refused.value.name == "pace-too-long"
    assert shared.config == PaceConfig(rows_per_second=5)


def test_bytes_between_two_measurements_of_a_replica_are_bounded(tmp_path: Path) -> None:
    shared = SharedPace.begun(tmp_path / "task", PaceConfig(replica_lag=5, replicas=("db-7",)), FakeClock())
    assert shared.lead(3.0)
    shared.hold("", 100.0)
    assert shared.take(0, 60) == 0
    assert shared.allowed == 40.0
    assert shared.take(5, 60) == 0  # a batch is let through whole
    assert shared.take(5, 1) == LONGEST_WAIT
    assert shared.state().holding == UNSEEN
    shared.hold("", 1.0)
    assert shared.take(5, 1) == 0


def test_with_a_limit_of_a_replicas_delay_no_more_pieces_are_taken_than_are_allowed(tmp_path: Path) -> None:
    """A batch of a thousand rows was let through whole, whatever a replica was seen to bear."""
    clock, config = FakeClock(), PaceConfig(replica_lag=5.0, replicas=("db-7",))
    shared = SharedPace.begun(tmp_path / "task", config, clock)
    assert shared.lead(10)
    pieces = [(1, 40)] * 100
    shared.hold("", 100.0)
    assert shared.take_first(pieces) == (2, 0.0)
    assert shared.take_first(pieces[2:]) == (1, 0.0), "what can't be divided leaves a debt"
    assert shared.take_first(pieces[3:]) == (0, LONGEST_WAIT)
    shared.hold("", 10.0)
    assert shared.take_first([(1, 400), (1, 1)]) == (1, 0.0)
    shared.change(PaceConfig(rows_per_second=1000), run_time=True)
    clock.now += 1
    assert shared.take_first(pieces) == (100, 0.0), "the sum is exact all the same"
